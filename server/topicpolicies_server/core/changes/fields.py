"""The fields of a message type, as field masks need them, and the fields that a message has beyond those.

Unknown fields are looked for in the serialized message, tag by tag, and only the first ones of each object: Protobuf's own list of unknown
fields is made as a whole, which takes a quarter of a second for a message of one MiB.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from topicpolicies.masks import Path, format_path

from ..errors import Violation
from ..policies.documents import EXTRAS_FIELD, read_varint
from ..reasons import ViolationReason

MapKey: TypeAlias = str | int | bool


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
    has_presence: bool
    """Whether an unset field can be distinguished from zero."""
    key: Callable[[str], MapKey]
    """Converts a segment of a path to a key of the map; raises ValueError if it is not one."""
    full_name: str


@cache
def fields(descriptor: Descriptor) -> Mapping[str, Field]:
    """Returns the fields of a message type by name, in the order of their numbers."""
    return {field.name: _field(field) for field in sorted(descriptor.fields, key=lambda field: field.number)}


def _field(field: FieldDescriptor) -> Field:
    form, target = Form.SCALAR, field.message_type
    key: Callable[[str], MapKey] = _text_key
    if target is not None and target.GetOptions().map_entry:
        form, key = Form.MAP, _key_reader(target.fields_by_name["key"])
        target = target.fields_by_name["value"].message_type
    elif field.is_repeated:
        form = Form.LIST
    elif target is not None:
        form = Form.OBJECT
    return Field(field.name, form, target, field.has_presence, key, field.full_name)


def _text_key(text: str) -> MapKey:
    return text


def _bool_key(text: str) -> MapKey:
    if text not in ("true", "false"):
        raise ValueError("true or false is needed")
    return text == "true"


def _key_reader(field: FieldDescriptor) -> Callable[[str], MapKey]:
    kind = field.cpp_type
    if kind == FieldDescriptor.CPPTYPE_STRING:
        return _text_key
    if kind == FieldDescriptor.CPPTYPE_BOOL:
        return _bool_key
    bits = 32 if kind in (FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_UINT32) else 64
    signed = kind in (FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_INT64)
    least, most = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)

    def integer_key(text: str) -> MapKey:
        if not text.isascii() or not text.removeprefix("-").isdecimal() or not least <= int(text[:24]) <= most:
            raise ValueError(f"an integer from {least} to {most} is needed")
        return int(text)

    return integer_key


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


def lost_entries(message: Message, names: Collection[str]) -> Iterator[Violation]:
    """Yields a violation for each map of these names that lacks an entry which a caller sent (``_unknown_numbers``)."""
    maps = {message.DESCRIPTOR.fields_by_name[name].number for name in names if fields(message.DESCRIPTOR)[name].form is Form.MAP}
    for number in sorted(maps.intersection(_unknown_numbers(message)) if maps else ()):
        yield _violation(number, message, ())


def _violation(number: int, message: Message, at: Path) -> Violation:
    problem = f"This server does not know field number {number} of {message.DESCRIPTOR.name}: leave it out."
    return Violation(f"policies.{format_path(at)}" if at else "policies", ViolationReason.UNKNOWN_FIELD, problem)


def _unknown_numbers(message: Message) -> Iterator[int]:
    """Yields the number of each field of a message itself that this definition lacks, in the order of its bytes.

    Also that of a map that lacks an entry: Protobuf takes an entry with a field beside key and value for an unknown field itself.
    """
    raw, known, entries = message.SerializeToString(), _tags(message.DESCRIPTOR), _entries(message)
    at = depth = 0
    while at < len(raw):
        tag, at = read_varint(raw, at)
        kind = tag & 7
        if not depth and kind != _END and tag not in known and tag >> 3 != EXTRAS_FIELD:
            yield tag >> 3
        if not depth and tag in entries:
            entries[tag] -= 1
            if entries[tag] < 0:
                yield tag >> 3
        if kind == _VARINT:
            _, at = read_varint(raw, at)
        elif kind == _LENGTH:
            length, at = read_varint(raw, at)
            at += length
        else:
            at += _SIZES.get(kind, 0)
            depth += (kind == _BEGIN) - (kind == _END)


def _entries(message: Message) -> dict[int, int]:
    """Returns how many entries each map of a message has, by the tag of its field."""
    descriptor = message.DESCRIPTOR
    maps = [descriptor.fields_by_name[name] for name, field in fields(descriptor).items() if field.form is Form.MAP]
    return {field.number << 3 | _LENGTH: len(getattr(message, field.name)) for field in maps}


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
