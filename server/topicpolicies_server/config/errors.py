"""The error of a wrong configuration, and what it must not show: passwords in URLs."""

from __future__ import annotations

import re

from topicpolicies.secrets import REDACTED

_CREDENTIALS = re.compile(r"(?<=//).*(?=@)")
_BEFORE_HOST = re.compile(r"(^[\w.+-]+://)?.*(?=@)", re.ASCII | re.DOTALL)


class ConfigError(ValueError):
    """A configuration is wrong.

    Attributes:
        problems: all problems, a sentence each.
    """

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__(" ".join(problems))
        self.problems = problems


def without_credentials(url: str) -> str:
    """Returns a URL with ``REDACTED`` in place of the name and password before ``@``."""
    return _CREDENTIALS.sub(REDACTED, url)


def meant_as_url(text: str) -> str:
    """As ``without_credentials``, for a text that is meant as a URL and need not be one: its scheme may be missing or written wrong."""
    return _BEFORE_HOST.sub(lambda found: (found[1] or "") + REDACTED, text, count=1)
