"""The fields of a message type, as field masks need them. They are read from the descriptor once."""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

from google.protobuf.descriptor import Descriptor, FieldDescriptor

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


@functools.cache
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
