"""What the Protobuf definition says of a field: its comment, its unit, by its name, and whether it may be -1, by its comment.

The comments are in ``fields.json``, which ``proto/generate.py`` writes.
"""

from __future__ import annotations

import json
import re
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from google.protobuf.descriptor import FieldDescriptor

_UNITS = {
    "milliseconds": re.compile("millis$"),
    "seconds": re.compile("seconds?$|^limit_time$"),
    "minutes": re.compile("minutes$"),
    "megabytes": re.compile("_mb$"),
    "bytes": re.compile("bytes?$|^(compaction_threshold|max_message_size|limit_size)$"),
}
_MINUS_ONE = re.compile("(?:-1|negative) is ")
"""How the comments of the definition say that a field may be -1."""


def unit_of(name: str) -> str:
    """Returns the unit of a field, by its name; empty: it has none."""
    return next((unit for unit, pattern in _UNITS.items() if pattern.search(name)), "")


@cache
def _comments() -> dict[str, str]:
    found: dict[str, str] = json.loads(resources.files(__package__).joinpath("fields.json").read_text(encoding="utf-8"))
    return found


def comment_of(full_name: str) -> str:
    """Returns the comment of a field or of an enum's value: ``BacklogQuota.limit_size``."""
    return _comments().get(full_name, "")


def may_be_infinite(field: FieldDescriptor) -> bool:
    """Whether -1 means something in a field, which is that there is no limit."""
    return bool(_MINUS_ONE.search(comment_of(f"{getattr(field.containing_type, 'name', '')}.{field.name}")))
