"""URLs whose passwords must not be shown: in errors, in the log, and by the command ``config``."""

from __future__ import annotations

import re

from topicpolicies.secrets import REDACTED

_CREDENTIALS = re.compile(r"(?<=//).*(?=@)")


def without_credentials(url: str) -> str:
    """Returns a URL with ``REDACTED`` in place of the name and password before ``@``."""
    return _CREDENTIALS.sub(REDACTED, url)
