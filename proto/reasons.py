"""The reasons of errors, read out of the comments of ``ErrorReason``, whose form is the same for all."""

from __future__ import annotations

import re
from typing import NamedTuple

from proto.documented import Enum

PREFIX = "ERROR_REASON_"
_FORM = re.compile(
    r"(?P<what>.+?\.)"
    r"(?: (?P<status>[A-Z_]{5,})\. Repeat: (?P<repeat>yes|no|same id)\.(?: Metadata: (?P<metadata>[a-z_]+(?:, [a-z_]+)*)\.)?)?",
    re.DOTALL,
)


class Reason(NamedTuple):
    """What is promised about one reason."""

    name: str
    status: str
    """The status of the call by gRPC's name; empty for what is no call's."""
    repeat: str
    """``yes``, ``no`` or ``same id``; empty for what is no call's."""
    metadata: tuple[str, ...]
    what: str
    section: str
    """What stands above it, for it and those that follow; empty for nothing."""


def reasons(enum: Enum) -> list[Reason]:
    """All reasons but "not said", in the definition's order.

    Raises:
        ValueError: a comment has another form.
    """
    return [_reason(value.name, value.comment, value.section) for value in enum.values if value.number]


def _reason(name: str, comment: str, section: str) -> Reason:
    found = _FORM.fullmatch(comment)
    if found is None or "Repeat:" in found["what"] or "Metadata:" in found["what"]:
        raise ValueError(
            f'{name}: its comment does not end with "STATUS. Repeat: yes.", "... no." or "... same id.", and perhaps "Metadata: KEYS."'
        )
    keys = tuple(found["metadata"].split(", ")) if found["metadata"] else ()
    return Reason(name.removeprefix(PREFIX), found["status"] or "", found["repeat"] or "", keys, found["what"], section)
