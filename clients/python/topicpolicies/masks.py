"""Field masks: their paths as text and as segments, and the mask of the difference between two messages.

A path names a field, a field of an object (``retention_policies.retention_time_in_minutes``) or an entry of a map
(``subscription_policies.`my-sub`.dispatch_rate``). Its segments are separated by dots (AIP-161). A segment between backticks may
contain any characters; a backtick in it is doubled. A segment without backticks extends from dot to dot. The path ``*`` names the whole
message; as a map key ``*`` needs backticks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TypeAlias, TypeVar

from google.protobuf.message import Message

Path: TypeAlias = tuple[str, ...]
"""The segments of a path; the empty path is the whole message."""
WILDCARD = "*"
"""The path that names the whole message."""

_M = TypeVar("_M", bound=Message)
_PLAIN = re.compile(r"[A-Za-z0-9_]+")
"""Segments that are written without backticks."""
_SEGMENT = re.compile(r"`((?:[^`]|``)*)`|([^.`]*)", re.DOTALL)


class PathError(ValueError):
    """A text that is not a path.

    Attributes:
        reason: ``EMPTY_SEGMENT``, ``MALFORMED_PATH`` or ``WILDCARD_NOT_ALONE``.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def parse_path(text: str) -> Path:
    """Returns the segments of a path; ``*`` is the empty path, and `````` (two backticks) an empty segment.

    Raises:
        PathError: the text is not a path.
    """
    if text == WILDCARD:
        return ()
    if "`" not in text and WILDCARD not in text:
        segments = tuple(text.split("."))
        if "" in segments:
            raise PathError("EMPTY_SEGMENT", "a segment is empty")
        return segments
    return tuple(_segments(text))


def _segments(text: str) -> Iterator[str]:
    at = 0
    while True:
        match = _SEGMENT.match(text, at)
        assert match is not None  # the pattern's second half matches anywhere
        quoted, plain = match.groups()
        at = match.end()
        if at < len(text) and text[at] != ".":
            raise PathError("MALFORMED_PATH", f"a backtick is unpaired or inside a segment, at character {at}")
        if quoted is not None:
            yield quoted.replace("``", "`")
        elif plain == WILDCARD:
            raise PathError("WILDCARD_NOT_ALONE", '"*" names the whole document and must stand alone; as a map key it needs backticks')
        elif plain:
            yield plain
        else:
            raise PathError("EMPTY_SEGMENT", "a segment is empty")
        if at == len(text):
            return
        at += 1


def format_path(path: Sequence[str]) -> str:
    """Returns the text of a path, which ``parse_path`` reads. Segments with other characters than letters, digits and _ get backticks."""
    return ".".join(segment if _PLAIN.fullmatch(segment) else "`" + segment.replace("`", "``") + "`" for segment in path) or WILDCARD


def paths_between(before: _M, after: _M) -> list[str]:
    """Returns the paths at which two messages of one type differ: ``before``, with these fields taken from ``after``, is ``after``.

    Objects that both have are compared leaf by leaf, maps entry by entry, lists as a whole, so that a mask names nothing that is equal.
    Fields that this package's API definition does not know are not compared. If nothing differs, the list is empty; it must not be sent as
    a mask, because an empty mask means the fields that are set.
    """
    return [format_path(path) for path in _differences(before, after, ())]


def set_paths(message: Message) -> list[str]:
    """Returns the paths of what is set in a message: what an update without a mask changes.

    These are leaves of objects, also of objects in maps, and whole lists. Empty objects, maps and lists, and enums that are UNSPECIFIED, do
    not count as set.
    """
    return [format_path(path) for path in _set(message, ())]


def _set(message: Message, at: Path) -> Iterator[Path]:
    for field, value in message.ListFields():
        path = (*at, field.name)
        kind = field.message_type
        if kind is not None and kind.GetOptions().map_entry:
            objects = kind.fields_by_name["value"].message_type is not None
            for key in sorted(value):
                entry = (*path, key_text(key))
                yield from _set(value[key], entry) if objects else (entry,)
        elif kind is not None:
            yield from _set(value, path)
        elif field.is_repeated or field.enum_type is None or value:
            yield path


def _differences(before: Message, after: Message, at: Path) -> Iterator[Path]:
    names = {field.name: field for message in (before, after) for field, _ in message.ListFields()}
    for name, field in names.items():
        ours, theirs = getattr(before, name), getattr(after, name)
        entry = field.message_type
        if entry is not None and entry.GetOptions().map_entry:
            objects = entry.fields_by_name["value"].message_type is not None
            for key in dict.fromkeys([*ours, *theirs]):
                path = (*at, name, key_text(key))
                if objects and key in ours and key in theirs:
                    yield from _differences(ours[key], theirs[key], path)
                elif (key in ours) != (key in theirs) or ours[key] != theirs[key]:
                    yield path
        elif field.is_repeated:
            if ours != theirs:
                yield (*at, name)
        elif field.has_presence and before.HasField(name) != after.HasField(name):
            yield (*at, name)
        elif field.message_type is not None:
            yield from _differences(ours, theirs, (*at, name))
        elif ours != theirs:
            yield (*at, name)


def key_text(key: str | int | bool) -> str:
    """Returns the key of a map as a segment of a path."""
    return str(key).lower() if isinstance(key, bool) else str(key)
