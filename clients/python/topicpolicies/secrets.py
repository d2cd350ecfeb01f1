"""Which values of a document are secrets: the credentials of object storages in its offload policies.

The service shows ``REDACTED`` in their place. Written back it means what is there already, so that reading a document and writing it back
changes nothing.
"""

from __future__ import annotations

import re
from typing import Final

from .masks import Path

REDACTED = "********"
"""What stands for a secret."""
FIELD: Final = "offload_policies"
"""The one field of a document that holds secrets."""

_SECRET = re.compile(
    r"credential|secret|passw|passphrase|token|access.?key|account.?key(?!.?file)|private.?key|connection.?string|signature", re.IGNORECASE
)
"""What the names of secrets have in common: the definition's own, and those that drivers give to their further configuration."""


def is_secret(path: Path) -> bool:
    """Whether a path names a secret: a leaf of the offload policies, or an entry of their further configuration."""
    return len(path) > 1 and path[0] == FIELD and any(_SECRET.search(segment) for segment in path[1:])
