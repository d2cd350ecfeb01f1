"""URLs whose passwords must not be shown: in errors, in the log, and by the command ``config``."""

from __future__ import annotations

import re

from topicpolicies.secrets import REDACTED

_CREDENTIALS = re.compile(r"(?<=//).*(?=@)")
_BEFORE_HOST = re.compile(r"(^[\w.+-]+://)?.*(?=@)", re.ASCII | re.DOTALL)


def without_credentials(url: str) -> str:
    """Returns a URL with ``REDACTED`` in place of the name and password before ``@``."""
    return _CREDENTIALS.sub(REDACTED, url)


def meant_as_url(text: str) -> str:
    """As ``without_credentials``, for a text that is meant as a URL and need not be one: its scheme may be missing or written wrong."""
    return _BEFORE_HOST.sub(lambda found: (found[1] or "") + REDACTED, text, count=1)
