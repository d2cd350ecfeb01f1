"""The fields of a message type, as field masks need them, and the fields that a message has beyond those.

Unknown fields are looked for in the serialized message, tag by tag, and only the first ones of each object: Protobuf's own list of unknown
fields is made as a whole, which takes a quarter of a second for a message of one MiB.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import islice
from typing import Final, NamedTuple

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from topicpolicies.masks import Path, format_path

from ..errors import Violation
from ..policies.documents import EXTRAS_FIELD, read_varint
from ..reasons import ViolationReason


class Form(enum.Enum):
    """How a field holds its value. This decides what may follow the field in a path."""

    SCALAR = enum.auto()
    """Nothing may follow."""
    LIST = enum.auto()
    """Nothing may follow: a list is replaced as a whole."""
    OBJECT = enum.auto()
    """A field of the object may follow."""
    MAP = enum.auto()
    """A key may follow and, if the values are objects, a field after the key."""


class Field(NamedTuple):
    """One field of a message type."""

    name: str
    form: Form
    object: Descriptor | None
    """The type of the object, or of the map's values; None if there is no object."""
    keys: frozenset[str] | None
    """The only keys that the map may have (``BacklogQuota.BacklogQuotaType``); None: it may have any."""


_KEYS = {"back_log_quota_map": frozenset({"destination_storage", "message_age"})}


@cache
def fields(descriptor: Descriptor) -> Mapping[str, Field]:
    """Returns the fields of a message type by name, in the order of their numbers."""
    return {field.name: _field(field) for field in sorted(descriptor.fields, key=lambda field: field.number)}


def _field(field: FieldDescriptor) -> Field:
    form, target = Form.SCALAR, field.message_type
    if target is not None and target.GetOptions().map_entry:
        form, target = Form.MAP, target.fields_by_name["value"].message_type
    elif field.is_repeated:
        form = Form.LIST
    elif target is not None:
        form = Form.OBJECT
    return Field(field.name, form, target, _KEYS.get(field.name))


# --- fields that the definition lacks ---

MOST_NAMED: Final = 100
"""The most unknown fields of one message that are named; a status has room for fewer."""
_MOST_SEEN: Final = 1_000
"""How many unknown fields of one object are looked at. The same number may be there very often."""
_VARINT, _FIXED64, _LENGTH, _BEGIN, _END, _FIXED32 = range(6)
"""Protobuf's wire types."""
_FIXED_TYPES = {
    FieldDescriptor.TYPE_DOUBLE: _FIXED64,
    FieldDescriptor.TYPE_FIXED64: _FIXED64,
    FieldDescriptor.TYPE_SFIXED64: _FIXED64,
    FieldDescriptor.TYPE_FLOAT: _FIXED32,
    FieldDescriptor.TYPE_FIXED32: _FIXED32,
    FieldDescriptor.TYPE_SFIXED32: _FIXED32,
}
_LENGTH_TYPES = {FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES, FieldDescriptor.TYPE_MESSAGE}
_SIZES = {_FIXED64: 8, _FIXED32: 4}


def has_unknown_fields(message: Message) -> bool:
    """Returns whether a message, or an object in it, has fields that this definition lacks."""
    known = type(message)()
    known.CopyFrom(message)
    known.DiscardUnknownFields()
    return known.ByteSize() != message.ByteSize()


def unknown_fields(message: Message, at: Path = ()) -> Iterator[Violation]:
    """Yields a violation for each field, of a message that a caller sent, that this definition lacks: its value would be lost silently.

    Leaves of a newer broker (``documents.EXTRAS_FIELD``) are accepted: a caller that writes back what it read sends them. Each number is
    named once for an object, and at most ``MOST_NAMED`` in all.
    """
    return islice(_unknown_fields(message, at), MOST_NAMED)


def _unknown_fields(message: Message, at: Path) -> Iterator[Violation]:
    if not has_unknown_fields(message):
        return
    for number in dict.fromkeys(islice(_unknown_numbers(message), _MOST_SEEN)):
        yield _violation(number, message, at)
    forms = fields(message.DESCRIPTOR)
    for field, value in message.ListFields():
        known = forms[field.name]
        if known.form is Form.OBJECT:
            yield from _unknown_fields(value, (*at, field.name))
        elif known.form is Form.MAP and known.object is not None:
            for key in value:
                yield from _unknown_fields(value[key], (*at, field.name, key))


def _violation(number: int, message: Message, at: Path) -> Violation:
    problem = f"This server does not know field number {number} of {message.DESCRIPTOR.name}: leave it out."
    return Violation(f"policies.{format_path(at)}" if at else "policies", ViolationReason.UNKNOWN_FIELD, problem)


def _unknown_numbers(message: Message) -> Iterator[int]:
    """Yields the number of each field of a message itself that this definition lacks, in the order of its bytes."""
    raw, known = message.SerializeToString(), _tags(message.DESCRIPTOR)
    at = depth = 0
    while at < len(raw):
        tag, at = read_varint(raw, at)
        kind = tag & 7
        if not depth and kind != _END and tag not in known and tag >> 3 != EXTRAS_FIELD:
            yield tag >> 3
        if kind == _VARINT:
            _, at = read_varint(raw, at)
        elif kind == _LENGTH:
            length, at = read_varint(raw, at)
            at += length
        else:
            at += _SIZES.get(kind, 0)
            depth += (kind == _BEGIN) - (kind == _END)


@cache
def _tags(descriptor: Descriptor) -> frozenset[int]:
    """Returns the tags, each a field's number and wire type, that a message type knows."""
    tags: set[int] = set()
    for field in descriptor.fields:
        kind = _LENGTH if field.type in _LENGTH_TYPES else _FIXED_TYPES.get(field.type, _VARINT)
        tags.add(field.number << 3 | kind)
        if field.is_repeated:  # numbers may be packed
            tags.add(field.number << 3 | _LENGTH)
    return frozenset(tags)
