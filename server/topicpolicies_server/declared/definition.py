"""What the Protobuf definition says of a field: its unit, by its name, and what it means if it is unset, 0 or -1, by its comment.

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
_SAYS = {
    "unset": re.compile(r"(?:Unset|Empty|UNSPECIFIED): (.+?)\.(?: |$)"),
    "0": re.compile(r"\b0 (?:or -1 )?(?:is )?((?:no |as )?\w[^.;,]*)"),
    "-1": re.compile(r"(?:-1|negative) is ([^.;,]+)"),
    "left out": re.compile(r"(?:Left out in an update: ([^.;,]+)|(Must be given)) ?"),
}
"""How the comments of the definition say what a field means if it has no value, or a special one."""


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


def meanings(field: FieldDescriptor) -> dict[str, str]:
    """Returns what it means if a field is ``unset``, ``0``, ``-1``, or ``left out`` of a new object, where the definition says so."""
    comment = comment_of(f"{field.containing_type.name}.{field.name}") if field.containing_type is not None else ""
    found = {name: pattern.search(comment) for name, pattern in _SAYS.items()}
    return {name: each[1] or each[2] for name, each in found.items() if each is not None}
