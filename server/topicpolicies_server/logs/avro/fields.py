"""The fields of a message type in one record of a schema: converts messages to Avro values, and back.

The Avro name of a field is its ``json_name`` in Protobuf, and the Avro symbol of an enum is the end of its name there, in upper or lower
case: ``policies.proto`` is written that way. If the type in the schema can't hold the field's values (in an older or newer broker the field
may have another type), the field counts as one that the schema does not know.

**Foreign values** of a newer broker, which our definition has no place for, are kept as JSON. A whole unknown field of the document is a
setting of its own (``document``). An unknown leaf inside an object that we know is kept in that object's bytes as an unknown Protobuf
field, so that reading, masking and writing the object leaves it where it is. Both are written back into an event if the schema that it is
written with has a place for them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from hashlib import blake2b
from typing import Any, NamedTuple

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

from topicpolicies.values import map_value

from ...core.policies import documents
from ...core.policies.documents import EXTRAS_FIELD
from .schema import Field, Type, Value

_KINDS: Mapping[int, frozenset[str]] = {
    FieldDescriptor.TYPE_BOOL: frozenset({"boolean"}),
    FieldDescriptor.TYPE_INT32: frozenset({"int"}),
    FieldDescriptor.TYPE_INT64: frozenset({"int", "long"}),
    FieldDescriptor.TYPE_DOUBLE: frozenset({"double", "float"}),
    FieldDescriptor.TYPE_STRING: frozenset({"string"}),
    FieldDescriptor.TYPE_ENUM: frozenset({"enum"}),
}
"""The Avro types whose values a field can hold, by the field's Protobuf type. Pulsar has widened int to long before (retention's size)."""
_UNSET_SYMBOL = "UNDEFINED"
"""A symbol that means "not set" (``SchemaCompatibilityStrategy.UNDEFINED``)."""
_FOREIGN = 1 << 30
"""Enum numbers from here on stand for symbols of a newer broker."""
_EMPTY_NOT_NULL = "subscription_types_enabled"
"""The list that brokers write as empty when it is not set, like maps; other lists they write as null (``TopicPolicies``)."""
_QUOTA, _SIZE, _OLD_SIZE = "topicpolicies.v1.BacklogQuota", "limitSize", "limit"
"""A quota has two names of its size; brokers of all versions read the first that is set (``BacklogQuotaImpl.getLimitSize``)."""


class Leaf(NamedTuple):
    """A field that a message and a record both have."""

    name: str
    """Its name in Protobuf."""
    absent: Value
    """What is written if the message does not have it."""
    write: Callable[[Any], Value]
    """Converts the message's value to Avro. ValueError: the type can't hold it."""
    read: Callable[[Any, Value], None]
    """Sets the field of a message to an Avro value that is not null. ValueError, TypeError: the value is outside the field's range."""


class Fields:
    """Converts messages of one type to and from one record of a schema.

    Attributes:
        leaves: the fields that both have, by Avro name.
        unknown: the fields of the record that our definition lacks, by name.
    """

    def __init__(self, message: Descriptor, record: Type) -> None:
        own = {field.json_name: field for field in message.fields}
        if message.full_name == _QUOTA:
            own[_OLD_SIZE] = own[_SIZE]
        self.leaves: dict[str, Leaf] = {}
        self.unknown: dict[str, Field] = {}
        for name, field in sorted(record.fields.items()):  # so that a quota's old size is read first, and the other supersedes it
            leaf = _leaf(own[name], field) if name in own else None
            if leaf is None:
                self.unknown[name] = field
            else:
                self.leaves[name] = leaf._replace(absent=-1) if own[name] is own.get(_OLD_SIZE) else leaf
        self._absent = {name: leaf.absent for name, leaf in self.leaves.items()} | {name: f.absent for name, f in self.unknown.items()}
        self._places: dict[str, list[tuple[str, Leaf]]] = {}
        for name, leaf in self.leaves.items():
            self._places.setdefault(leaf.name, []).append((name, leaf))

    def values(self, message: Message) -> Iterator[tuple[str, Value]]:
        """Yields what a message has: the Avro names and values of the fields.

        Raises:
            ValueError: the record has no place for something that the message has.
        """
        for field, value in message.ListFields():
            if field.name not in self._places:
                raise ValueError(f'it has no field for "{field.name}"')
            for name, leaf in self._places[field.name]:
                yield name, leaf.write(value)

    def write(self, message: Message) -> dict[str, Value]:
        """Converts a message to a complete record: fields that the message does not have get the value that means "not set".

        Raises:
            ValueError: the record has no place for something that the message has.
        """
        record = {**self._absent, **dict(self.values(message))}
        for name, value in _foreign_of(message).items():
            if name not in self.unknown:
                raise ValueError(f'it has no field for "{name}"')
            record[name] = value
        return record

    def read(self, message: Message, record: Mapping[str, Value]) -> None:
        """Fills an empty message from a record.

        Raises:
            ValueError, TypeError: a value is outside its field's range.
        """
        message.SetInParent()
        for name, leaf in self.leaves.items():
            if record[name] is not None:
                leaf.read(message, record[name])
        kept = {name: record[name] for name, field in self.unknown.items() if record[name] != field.absent}
        if kept:
            message.MergeFromString(documents.record(EXTRAS_FIELD, to_json(kept)))


def to_json(value: Value) -> bytes:
    """Encodes a foreign value as canonical JSON: equal values give equal bytes."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _foreign_of(message: Message) -> Mapping[str, Value]:
    """Returns the leaves in a message's unknown field ``EXTRAS_FIELD``. Other data there, such as a client's own, is ignored."""
    found: Mapping[str, Value] = {}
    unknown: Any = UnknownFieldSet(message)  # a sequence, which its type stub does not say
    for field in unknown:
        if field.field_number == EXTRAS_FIELD and isinstance(field.data, bytes):
            try:
                value = json.loads(field.data)
            except (ValueError, RecursionError):
                continue
            if isinstance(value, dict):
                found = value
    return found


def _leaf(field: FieldDescriptor, part: Field) -> Leaf | None:
    """Returns the leaf of a field; None if the schema's type can't hold its values."""
    avro, name = part.type.present, field.name
    if avro is None:
        return None
    value = map_value(field)
    if value is not None:
        return _map(name, value, avro)
    if field.message_type is not None:
        return _object(name, field.message_type, avro, part.absent)
    element = avro.item.present if field.is_repeated and avro.kind == "array" and avro.item is not None else avro
    if element is None or element.kind not in _KINDS.get(field.type, ()) or field.is_repeated != (avro.kind == "array"):
        return None
    if field.enum_type is not None:
        return _enum(field, field.enum_type, element, part.absent)
    if field.is_repeated:
        return Leaf(name, part.absent, list, lambda message, value: getattr(message, name).extend(_present(value)))
    return Leaf(name, part.absent, lambda value: value, lambda message, value: setattr(message, name, value))


def _map(name: str, value: FieldDescriptor, avro: Type) -> Leaf | None:
    """Returns the leaf of a map of objects or of texts. Brokers call methods of maps, so they are never written as null."""
    item = avro.item.present if avro.kind == "map" and avro.item is not None else None
    if item is None or item.kind != ("string" if value.message_type is None else "record"):
        return None
    if value.message_type is None:
        return Leaf(name, {}, dict, lambda message, entries: getattr(message, name).update(entries))
    fields = Fields(value.message_type, item)

    def write(entries: Mapping[str, Message]) -> Value:
        return {key: fields.write(each) for key, each in entries.items()}

    def read(message: Message, entries: Mapping[str, Value]) -> None:
        for key, each in entries.items():
            if each is not None:
                fields.read(getattr(message, name)[key], each)

    return Leaf(name, {}, write, read)


def _object(name: str, message_type: Descriptor, avro: Type, absent: Value) -> Leaf | None:
    if avro.kind != "record":
        return None
    fields = Fields(message_type, avro)
    return Leaf(name, absent, fields.write, lambda message, value: fields.read(getattr(message, name), value))


def _enum(field: FieldDescriptor, enum: EnumDescriptor, avro: Type, absent: Value) -> Leaf:
    name = field.name
    numbers = {symbol: _number_of(enum, symbol) for symbol in avro.symbols}
    symbols = {number: symbol for symbol, number in numbers.items() if number}

    def symbol_of(number: int) -> str:
        if number not in symbols:
            raise ValueError(f"{enum.name} has no symbol for {number}")
        return symbols[number]

    def read(message: Message, symbol: str) -> None:
        if numbers[symbol]:
            setattr(message, name, numbers[symbol])

    if not field.is_repeated:
        return Leaf(name, absent, symbol_of, read)
    return Leaf(
        name,
        [] if name == _EMPTY_NOT_NULL else absent,
        lambda values: list(map(symbol_of, values)),
        lambda message, value: getattr(message, name).extend(map(numbers.__getitem__, _present(value))),
    )


def _present(values: list[Value]) -> list[Value]:
    return [value for value in values if value is not None]


def _number_of(enum: EnumDescriptor, symbol: str) -> int:
    """The number of a symbol in a document; 0 if the symbol means "not set".

    A symbol that the enum does not have belongs to a newer broker. Protobuf's enums are open, so a document holds it as a number that is a
    hash of its name; when the document is written, the symbol with that number is found in the newer broker's schema.
    """
    if symbol == _UNSET_SYMBOL:
        return 0
    known = enum.values_by_name.get(enum.values_by_number[0].name.removesuffix("UNSPECIFIED") + symbol.upper())
    return known.number if known is not None else _FOREIGN | int.from_bytes(blake2b(symbol.encode(), digest_size=4).digest(), "big") >> 2
