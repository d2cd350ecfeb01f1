"""Which values of a document are secrets: the credentials of object storages in its offload policies.

The service sends ``REDACTED`` in place of a secret. An update that writes ``REDACTED`` back keeps the stored secret, so reading a document
and writing it back changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from google.protobuf.message import Message

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


def redacted(value: object, at: Path = ()) -> object:
    """Returns new values as they may be shown, in a log for example: with ``REDACTED`` in place of secrets. ``value`` does not change.

    Args:
        value: a message, a mapping from paths or names to values, or a single value.
        at: the path of the value; empty: it is the whole document.
    """
    if at and at[0] != FIELD:
        return value
    if isinstance(value, Message):
        copy = type(value)()
        copy.CopyFrom(value)
        _redact(copy, at)
        return copy
    if isinstance(value, Mapping):
        return {key: redacted(each, (*at, *_segments(key))) for key, each in value.items()}
    return REDACTED if value is not None and is_secret(at) else value


def _redact(message: Any, at: Path) -> None:
    for field, value in message.ListFields():
        path = (*at, field.name)
        if path[0] != FIELD:
            continue
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            for key in [key for key in value if is_secret((*path, key))]:
                value[key] = REDACTED
        elif field.message_type is not None:
            _redact(value, path)
        elif is_secret(path):
            setattr(message, field.name, REDACTED)


def _segments(key: object) -> Path:
    try:
        return parse_path(str(key))
    except PathError:
        return (str(key),)
