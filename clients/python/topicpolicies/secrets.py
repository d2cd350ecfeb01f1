"""Which values of a document are secrets: the credentials of object storages in its offload policies.

The service sends ``REDACTED`` in place of a secret. An update that writes ``REDACTED`` back keeps the stored secret, so reading a document
and writing it back changes nothing.
"""

from __future__ import annotations

import re
from typing import Final

from .masks import Path, PathError, parse_path

REDACTED = "********"
"""The text that stands for a secret."""
FIELD: Final = "offload_policies"
"""The only field of a document that holds secrets."""

_SECRET = re.compile(
    r"credential|secret|passw|passphrase|token|access.?key|account.?key(?!.?file)|private.?key|connection.?string|signature", re.IGNORECASE
)
"""Matches the names of secrets: those of the API definition, and those that drivers use in their further configuration."""


def is_secret(path: Path) -> bool:
    """Returns whether a path names a secret: a leaf of the offload policies, or an entry of their further configuration."""
    return len(path) > 1 and path[0] == FIELD and any(_SECRET.search(segment) for segment in path[1:])


def may_be_secret(value: object, at: str) -> bool:
    """Returns whether a value that was given for the path ``at`` may be a secret, or have one in it, even if it does not fit there."""
    path = _segments(at)
    return path[:1] == (FIELD,) and (is_secret(path) or not isinstance(value, (bool, int, float)))


def _segments(key: object) -> Path:
    try:
        return parse_path(str(key))
    except PathError:
        return (str(key),)
