"""Documents, setting by setting, as the ``TopicPolicies`` record of one schema; and the objects in them as the records in that.

The Avro name of a field is its ``json_name`` in Protobuf, and the Avro symbol of an enum is the end of its name there, in upper or lower
case: ``policies.proto`` is written that way. If the type in the schema can't hold the field's values (in an older or newer broker the field
may have another type), the field counts as one that the schema does not know.

**Foreign values** of a newer broker, which our definition has no place for, are kept as JSON. A whole unknown field of the document is a
setting of its own. An unknown leaf inside an object that we know is kept in that object's bytes as an unknown Protobuf field, so that
reading, masking and writing the object leaves it where it is. Both are written back into an event if the schema that it is written with has
a place for them.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from hashlib import blake2b
from types import MappingProxyType
from typing import Any, NamedTuple

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies.values import map_value

from ...core.policies import documents
from ...core.policies.documents import EXTRA_PREFIX, EXTRAS_FIELD, Document, Setting, family, setting_of, split
from .schema import Schema, Type, Value

IS_GLOBAL = "isGlobal"
CACHED = 4_096
"""How many documents are cached, and how many settings."""
CACHED_BYTES = 4_096
"""Those that are larger are not cached, so that the memory of the caches stays bounded."""

_KINDS: Mapping[int, frozenset[str]] = {
    FieldDescriptor.TYPE_BOOL: frozenset({"boolean"}),
    FieldDescriptor.TYPE_INT32: frozenset({"int"}),
    FieldDescriptor.TYPE_INT64: frozenset({"int", "long"}),
    FieldDescriptor.TYPE_DOUBLE: frozenset({"double"}),
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
_BYTES, _TYPE, _VALUE = "-bytes", "-type", "-value"
"""The keys of bytes, and of a value with the name of its type, in JSON."""
_QUOTA, _SIZE, _OLD_SIZE = "topicpolicies.v1.BacklogQuota", "limitSize", "limit"
"""A quota has two names of its size; brokers of all versions read the first that is set (``BacklogQuotaImpl.getLimitSize``)."""


class DocumentCodec:
    """Encodes and decodes documents as the ``TopicPolicies`` record of one schema.

    Most topics of a namespace have equal documents, and successive documents of a topic differ in one setting. So equal documents are
    decoded once, and equal settings encoded once.

    Attributes:
        families: the families (``documents.family``) that the schema has a place for.

    Raises:
        ValueError: the record has no boolean ``isGlobal`` to tell the scopes apart, or its values can't be written.
    """

    def __init__(self, schema: Schema) -> None:
        types = dict(schema.record.fields)
        flag = types.pop(IS_GLOBAL, None)
        if flag is None or flag.kind != "boolean":
            raise ValueError(f"TopicPolicies has no boolean {IS_GLOBAL}")
        self._schema = schema
        self._fields = Fields(TopicPolicies.DESCRIPTOR, types)
        alone = {"type": "record", "name": "Field"}
        self._alone = {field["name"]: schema.part(schema.record, {**alone, "fields": [field]}) for field in schema.definition["fields"]}
        absent = self._fields.absent
        self._places = {name: place for place, name in enumerate(self._alone)}
        """The place of each field in the record."""
        self._nothing = [
            [alone.write({name: is_global if name == IS_GLOBAL else absent[name]}) for name, alone in self._alone.items()]
            for is_global in (False, True)
        ]
        """The bytes of each field of a LOCAL document, and of a GLOBAL one, of which nothing is set, in the order of the record."""
        foreign = {EXTRA_PREFIX + name for name in self._fields.unknown}
        self.families = frozenset({setting_of(leaf.name) for leaf in self._fields.leaves.values()} | foreign)
        self._remembered = lru_cache(CACHED)(self._decode)
        self._written = lru_cache(CACHED)(self._write)

    def encode(self, document: Document, is_global: bool) -> bytes:
        """Encodes a document as the record's bytes.

        Raises:
            ValueError: the schema has no place for something in the document.
        """
        settings: dict[Setting, list[bytes]] = {}
        for setting in sorted(document):
            settings.setdefault(family(setting), []).append(document[setting])
        written = self._nothing[is_global].copy()
        for name, entries in settings.items():
            value = entries[0] if len(entries) == 1 else b"".join(entries)
            for place, data in (self._written if len(value) <= CACHED_BYTES else self._write)(name, value):
                written[place] = data
        return b"".join(written)

    def _write(self, name: str, value: bytes) -> list[tuple[int, bytes]]:
        """Returns the bytes of the fields of a family whose settings are ``value``, with the fields' places."""
        if not name.startswith(EXTRA_PREFIX):
            values = self._fields.values(TopicPolicies.FromString(value))
        elif name in self.families:
            values = {name.removeprefix(EXTRA_PREFIX): from_json(value)}
        else:
            raise _no_place((name,))
        return [(self._places[field], self._alone[field].write({field: each})) for field, each in values.items()]

    def decode(self, data: bytes) -> tuple[Document, bool]:
        """Decodes a record's bytes to the settings of the document, and whether the document is GLOBAL.

        Raises:
            ValueError: the data is damaged, or a value is outside the range of its type.
        """
        return (self._remembered if len(data) <= CACHED_BYTES else self._decode)(data)

    def _decode(self, data: bytes) -> tuple[Document, bool]:
        return self.of(self._schema.read(data))

    def of(self, record: Mapping[str, Value]) -> tuple[Document, bool]:
        """Converts a record as ``decode`` does."""
        policies = TopicPolicies()
        foreign = self._fields.fill(policies, record)
        extras = {EXTRA_PREFIX + name: to_json(value) for name, value in foreign.items()}
        return MappingProxyType({**split(policies), **extras}), bool(record[IS_GLOBAL])


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
        unknown: the values that mean "not set" of the record's fields that our definition lacks, by name.
        absent: those of all fields.
    """

    def __init__(self, message: Descriptor, types: Mapping[str, Type]) -> None:
        own = {field.json_name: field for field in message.fields}
        if message.full_name == _QUOTA:
            own[_OLD_SIZE] = own[_SIZE]
        self.leaves: dict[str, Leaf] = {}
        self.unknown: dict[str, Value] = {}
        for name, avro in sorted(types.items()):  # so that a quota's old size is read first, and the other supersedes it
            leaf = _leaf(own[name], avro) if name in own else None
            if leaf is None:
                self.unknown[name] = avro.nothing
            else:
                self.leaves[name] = leaf._replace(absent=-1) if own[name] is own.get(_OLD_SIZE) else leaf
        self.absent = {**self.unknown, **{name: leaf.absent for name, leaf in self.leaves.items()}}
        self._places: dict[str, list[tuple[str, Leaf]]] = {}
        """The leaves of each field of a message, by its name there: one, or a quota's two names of its size."""
        for name, leaf in self.leaves.items():
            self._places.setdefault(leaf.name, []).append((name, leaf))

    def values(self, message: Message) -> dict[str, Value]:
        """Returns what a message has: the values of the record's fields, by their names.

        Raises:
            ValueError: the record has no place for something that the message has.
        """
        values: dict[str, Value] = {}
        lacking: list[str] = []
        for field, value in message.ListFields():
            if field.name not in self._places:
                lacking.append(field.name)
            else:
                for name, leaf in self._places[field.name]:
                    values[name] = leaf.write(value)
        if lacking:
            raise _no_place(lacking)
        return values

    def write(self, message: Message) -> dict[str, Value]:
        """Converts a message to a complete record, with what ``read`` has kept in it. Raises what ``values`` does."""
        foreign = _foreign_of(message)
        if not foreign.keys() <= self.unknown.keys():
            raise _no_place(foreign.keys() - self.unknown.keys())
        return {**self.absent, **self.values(message), **foreign}

    def fill(self, message: Message, record: Mapping[str, Value]) -> dict[str, Value]:
        """Fills an empty message from a record; returns the values of the fields that our definition lacks, by name.

        Raises:
            ValueError, TypeError: a value is outside its field's range.
        """
        for name, leaf in self.leaves.items():
            if record[name] is not None:
                leaf.read(message, record[name])
        return {name: record[name] for name, nothing in self.unknown.items() if record[name] != nothing}

    def read(self, message: Message, record: Mapping[str, Value]) -> None:
        """Fills an empty message from a record, and keeps in it what our definition lacks. Raises what ``fill`` does."""
        message.SetInParent()
        kept = self.fill(message, record)
        if kept:
            message.MergeFromString(documents.record(documents.EXTRAS_TAG, to_json(kept)))


def _no_place(fields: Collection[str]) -> ValueError:
    return ValueError(f"it has no field for {', '.join(sorted(fields))}")


def to_json(value: Value) -> bytes:
    """Encodes a foreign value as canonical JSON: equal values give equal bytes."""
    return json.dumps(_untyped(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def from_json(text: bytes) -> Value:
    """Decodes what ``to_json`` encoded.

    Raises:
        ValueError, RecursionError: the text is something else.
    """
    return json.loads(text, object_hook=_typed)


def _untyped(value: Value) -> Value:
    if isinstance(value, bytes):
        return {_BYTES: base64.b64encode(value).decode()}
    if isinstance(value, tuple):
        return {_TYPE: value[0], _VALUE: _untyped(value[1])}
    if isinstance(value, dict):
        return {name: _untyped(part) for name, part in value.items()}
    return list(map(_untyped, value)) if isinstance(value, list) else value


def _typed(value: dict[str, Value]) -> Value:
    if value.keys() == {_BYTES}:
        return base64.b64decode(value[_BYTES], validate=True)
    return (value[_TYPE], value[_VALUE]) if value.keys() == {_TYPE, _VALUE} else value


def _foreign_of(message: Message) -> Mapping[str, Value]:
    """Returns the leaves in a message's unknown field ``EXTRAS_FIELD``. Other data there, such as a client's own, is ignored."""
    found: Mapping[str, Value] = {}
    unknown: Any = UnknownFieldSet(message)  # a sequence, which its type stub does not say
    for field in unknown:
        if field.field_number == EXTRAS_FIELD and isinstance(field.data, bytes):
            with suppress(ValueError, RecursionError):
                value = from_json(field.data)
                found = value if isinstance(value, dict) else found
    return found


def _leaf(field: FieldDescriptor, avro: Type) -> Leaf | None:
    """Returns the leaf of a field; None if the schema's type can't hold its values."""
    name = field.name
    value = map_value(field)
    if value is not None:
        return _map(name, value, avro)
    if field.message_type is not None:
        return _object(name, field.message_type, avro)
    element = avro.item if field.is_repeated and avro.item is not None else avro
    if element.kind not in _KINDS.get(field.type, ()) or field.is_repeated != (avro.kind == "array"):
        return None
    write, read = (_same, _same) if field.enum_type is None else _symbols(field.enum_type, element.symbols)

    def assign(message: Message, value: Value) -> None:
        own = read(value)
        if own is not None:
            setattr(message, name, own)

    if not field.is_repeated:
        return Leaf(name, avro.nothing, write, assign)
    return Leaf(
        name,
        [] if name == _EMPTY_NOT_NULL else avro.nothing,
        lambda values: list(map(write, values)),
        lambda message, values: getattr(message, name).extend(read(value) for value in values if value is not None),
    )


def _same(value: Value) -> Value:
    return value


def _map(name: str, value: FieldDescriptor, avro: Type) -> Leaf | None:
    """Returns the leaf of a map of objects or of texts. Brokers call methods of maps, so they are never written as null."""
    item = avro.item
    if avro.kind != "map" or item is None or item.kind != ("string" if value.message_type is None else "record"):
        return None
    if value.message_type is None:
        return Leaf(name, {}, dict, lambda message, entries: getattr(message, name).update(entries))
    fields = Fields(value.message_type, item.fields)

    def write(entries: Mapping[str, Message]) -> Value:
        return {key: fields.write(entries[key]) for key in sorted(entries)}

    def read(message: Message, entries: Mapping[str, Value]) -> None:
        for key, each in entries.items():
            if each is not None:
                fields.read(getattr(message, name)[key], each)

    return Leaf(name, {}, write, read)


def _object(name: str, message_type: Descriptor, avro: Type) -> Leaf | None:
    if avro.kind != "record":
        return None
    fields = Fields(message_type, avro.fields)
    return Leaf(name, avro.nothing, fields.write, lambda message, value: fields.read(getattr(message, name), value))


def _symbols(enum: EnumDescriptor, symbols: Sequence[str]) -> tuple[Callable[[Any], Value], Callable[[Value], Any]]:
    """Returns the conversions of an enum's number to its symbol, and back."""
    numbers = {symbol: _number_of(enum, symbol) for symbol in symbols}
    named = {number: symbol for symbol, number in numbers.items()}

    def symbol_of(number: int) -> str:
        if number not in named:
            raise ValueError(f"{enum.name} has no symbol for {number}")
        return named[number]

    return symbol_of, numbers.__getitem__


def _number_of(enum: EnumDescriptor, symbol: str) -> int | None:
    """The number of a symbol in a document; None if the symbol means "not set".

    A symbol that the enum does not have belongs to a newer broker. Protobuf's enums are open, so a document holds it as a number that is a
    hash of its name; when the document is written, the symbol with that number is found in the newer broker's schema.
    """
    if symbol == _UNSET_SYMBOL:
        return None
    known = enum.values_by_name.get(enum.values_by_number[0].name.removesuffix("UNSPECIFIED") + symbol.upper())
    return known.number if known is not None else _FOREIGN | int.from_bytes(blake2b(symbol.encode(), digest_size=4).digest(), "big") >> 2
