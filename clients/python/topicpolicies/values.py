"""Puts Python values into messages, by path, and checks them against the field's type; each error is a sentence for people.

Objects may be given as messages or as mappings, lists as any iterables, enums as numbers or as names: ``SUBSCRIPTION_TYPE_SHARED``, or
without the type's prefix and in any case, ``shared``. No types are converted: a bool is not taken for a number, nor a number for a bool.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, NamedTuple, cast

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message

from .masks import Path, PathError, format_path, parse_path
from .secrets import may_be_secret

_INTEGERS = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
}
_FLOATS = (FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT)


class ValueProblem(ValueError):
    """A value that does not fit its field, or a path that names none.

    Attributes:
        reason: ``UNKNOWN_PATH``, ``WRONG_TYPE`` or ``WRONG_VALUE``, or the reason of a malformed path (``masks.PathError``).
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Target(NamedTuple):
    """The field, or the entry of a map, that a path names."""

    path: Path
    field: FieldDescriptor
    """The field; for an entry of a map, the map's field."""
    entry: bool
    """Whether the path names one entry of a map."""

    @property
    def value(self) -> FieldDescriptor:
        """The field that has the type of a single value; for an entry of a map, the field of the map's values."""
        return (self.entry and map_value(self.field)) or self.field

    @property
    def is_map(self) -> bool:
        """Whether the path names a whole map."""
        return not self.entry and map_value(self.field) is not None

    @property
    def is_list(self) -> bool:
        """Whether the path names a list."""
        return not self.entry and self.field.is_repeated and map_value(self.field) is None


def map_value(field: FieldDescriptor) -> FieldDescriptor | None:
    """Returns the field of a map's values; None: the field is not a map."""
    entry = field.message_type
    return entry.fields_by_name["value"] if entry is not None and entry.GetOptions().map_entry else None


def locate(descriptor: Descriptor, text: str) -> Target:
    """Returns what a path names in a message of the type ``descriptor``.

    Raises:
        ValueProblem: the path is malformed or names nothing; the message names the fields that there are.
    """
    try:
        path = parse_path(text)
    except PathError as error:
        raise ValueProblem(error.reason, f'The path "{text}" can\'t be followed: {error}.') from None
    if not path:
        raise ValueProblem("UNKNOWN_PATH", 'The path "*" names the whole document: name a field.')
    current: Descriptor | None = descriptor
    at = 0
    while True:
        if current is None:
            raise ValueProblem("UNKNOWN_PATH", f'The path "{text}" continues below "{format_path(path[:at])}", which has no fields.')
        field = _named(current, path[at])
        if field is None:
            raise ValueProblem("UNKNOWN_PATH", f'"{text}" is not a path: {no_field(current, path[at])}')
        at += 1
        entry = False
        current = field.message_type
        values = map_value(field)
        if values is not None:
            current = values.message_type
            if at < len(path):
                at += 1
                entry = True
        elif field.is_repeated and at < len(path):
            raise ValueProblem(
                "UNKNOWN_PATH", f'The path "{text}" leads into a list: only "{format_path(path[:at])}" as a whole can be named.'
            )
        if at == len(path):
            return Target(path, field, entry)


def _named(descriptor: Descriptor, name: str) -> FieldDescriptor | None:
    """Returns the field of this name; None: there is none. A name that is no Unicode is not looked up, because protobuf would fail."""
    return descriptor.fields_by_name.get(name) if name == name.encode(errors="replace").decode() else None


def no_field(descriptor: Descriptor, name: str) -> str:
    """Returns a sentence which says that a message has no such field, and which fields may be meant."""
    fields = [each.name for each in descriptor.fields]
    near = get_close_matches(name, fields, n=3, cutoff=0.6)
    hint = f"Is {' or '.join(near)} meant?" if near else f"It has {', '.join(fields)}."
    return f'{descriptor.name} has no field "{name}". {hint}'


def assign(message: Message, target: Target, value: object) -> None:
    """Sets the field or entry that a path names; makes the objects above it if need be. The value None sets nothing.

    Raises:
        ValueProblem: the value does not fit the field.
    """
    if value is None:
        return
    parent: Any = message
    path = list(target.path)
    last = path.pop() if target.entry else None
    name = path.pop()
    while path:
        segment = path.pop(0)
        field = parent.DESCRIPTOR.fields_by_name[segment]
        parent = getattr(parent, segment)
        if map_value(field) is not None:
            parent = parent[path.pop(0)]
    at = format_path(target.path)
    if last is None:
        _set(parent, target.field, value, at)
        return
    _set_entry(getattr(parent, name), target.value, last, value, at)


def enum_number(enum: EnumDescriptor, text: str) -> int:
    """Returns the number of an enum's name, which is in full or without the type's prefix, in any case.

    Raises:
        ValueProblem: there is no such name.
    """
    prefix = enum.values[0].name.removesuffix("UNSPECIFIED")
    wanted = text.strip().upper().replace("-", "_")
    for each in enum.values:
        if wanted in (each.name, each.name.removeprefix(prefix)):
            return int(each.number)
    there = ", ".join(each.name.removeprefix(prefix) for each in enum.values[1:])
    raise ValueProblem("WRONG_VALUE", f'"{text}" is not one of {there}')


def enum_name(enum: EnumDescriptor, number: int) -> str:
    """Returns the short name of an enum's number, such as ``SHARED``; the number itself if this client does not know it."""
    value = enum.values_by_number.get(number)
    return str(number) if value is None else value.name.removeprefix(enum.values[0].name.removesuffix("UNSPECIFIED"))


def _fill(message: Message, value: object, at: str) -> None:
    """Fills a message from another message, or from a mapping of its fields. ``at``: the path, for errors."""
    if isinstance(value, Message):
        if value.DESCRIPTOR.full_name != message.DESCRIPTOR.full_name:
            raise ValueProblem("WRONG_TYPE", f"{at} takes a {message.DESCRIPTOR.name}, not a {value.DESCRIPTOR.name}.")
        message.CopyFrom(value)
        return
    if not isinstance(value, Mapping):
        raise ValueProblem("WRONG_TYPE", f"{at} takes a {message.DESCRIPTOR.name} or a mapping of its fields, not {_shown(value, at)}.")
    message.SetInParent()
    for name, part in value.items():
        field = _named(cast("Descriptor", message.DESCRIPTOR), name)
        if field is None:
            raise ValueProblem("UNKNOWN_PATH", f"{at}: {no_field(cast('Descriptor', message.DESCRIPTOR), str(name))}")
        if part is not None:
            _set(message, field, part, f"{at}.{name}")


def _set(message: Message, field: FieldDescriptor, value: object, at: str) -> None:
    part = getattr(message, field.name)
    values = map_value(field)
    if values is not None:
        if not isinstance(value, Mapping):
            raise ValueProblem("WRONG_TYPE", f"{at} takes a mapping, not {_shown(value, at)}.")
        part.clear()
        for key, each in value.items():
            _set_entry(part, values, key, each, f"{at}.{format_path([str(key)])}")
    elif field.is_repeated:
        if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
            raise ValueProblem("WRONG_TYPE", f"{at} takes a list, not {_shown(value, at)}.")
        elements = [scalar(field, each, at) for each in value]
        del part[:]
        part.extend(elements)
    elif field.message_type is not None:
        part.Clear()
        _fill(part, value, at)
    else:
        setattr(message, field.name, scalar(field, value, at))


def _set_entry(entries: Any, field: FieldDescriptor, key: object, value: object, at: str) -> None:
    if not isinstance(key, str):
        raise ValueProblem("WRONG_TYPE", f"{at}: the keys of a map must be strings, not {_shown(key, '')}.")
    if field.message_type is None:
        entries[key] = scalar(field, value, at)
        return
    entries[key].Clear()
    _fill(entries[key], value, at)


def scalar(field: FieldDescriptor, value: object, at: str) -> Any:
    """Returns a single value as the field takes it. ``at``: the path, for errors.

    Raises:
        ValueProblem: the value does not fit the field.
    """
    kind = field.cpp_type
    if kind == FieldDescriptor.CPPTYPE_BOOL and isinstance(value, bool):
        return value
    if kind == FieldDescriptor.CPPTYPE_STRING and isinstance(value, str):
        return value
    if field.enum_type is not None:
        return _enum(field.enum_type, value, at)
    if isinstance(value, bool):
        pass
    elif kind in _INTEGERS and isinstance(value, int):
        least, most = _INTEGERS[kind]
        if not least <= value <= most:
            raise ValueProblem("WRONG_VALUE", f"{at} must be from {least} to {most}, not {value}.")
        return int(value)
    elif kind in _FLOATS and isinstance(value, (int, float)):
        return float(value)
    raise ValueProblem("WRONG_TYPE", f"{at} takes {kind_name(field)}, not {_shown(value, at)}.")


def _enum(enum: EnumDescriptor, value: object, at: str) -> int:
    if isinstance(value, str):
        try:
            return enum_number(enum, value)
        except ValueProblem as problem:
            raise ValueProblem(problem.reason, f"{at}: {problem}.") from None
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)  # an unknown number may be of a newer API definition: the service checks it
    raise ValueProblem("WRONG_TYPE", f"{at} takes a name or number of {enum.name}, not {_shown(value, at)}.")


def kind_name(field: FieldDescriptor) -> str:
    """Returns in words what type of value a field takes, for people."""
    if field.cpp_type in _INTEGERS:
        return "a whole number"
    if field.cpp_type in _FLOATS:
        return "a number"
    if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        return "true or false"
    return "a text" if field.enum_type is None else f"a name of {field.enum_type.name}"


def _shown(value: object, at: str) -> str:
    """Returns a value as an error shows it. ``at``: its path: what may be, or have, a secret is not shown."""
    if may_be_secret(value, at):
        return f"a value of the type {type(value).__name__}"
    return reprlib.repr(value)
