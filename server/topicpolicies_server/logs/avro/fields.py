"""The fields of a document as one schema has them: each converts a setting's bytes to the field's Avro bytes, and back.

The Avro name of a field is its ``json_name`` in Protobuf, and the Avro symbol of an enum is the end of its name there, in upper or lower
case: ``policies.proto`` is written that way.

A *converter* is made once for a field of our definition and its type in the schema. There is none if the type can't hold the field's values
(in an older or newer broker the field may have another type); then the field counts as one that the schema does not know.

**Foreign values** of a newer broker, which our definition has no place for, are kept as JSON that is lossless and depends on no schema. A
whole unknown field of the document is a setting of its own (``unknown_field``). An unknown leaf inside an object that we know is kept in
that object's bytes as an unknown Protobuf field, so that reading, masking and writing the object leaves it where it is. Both are written
back into an event if the schema that it is written with has a place for them. JSON has no bytes, so ``{"-bytes": base64}`` stands for them;
and fastavro needs to know which record of a union is meant, so a member ``"-type"`` (fastavro's own convention) names it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Any, NamedTuple

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies.values import map_value

from ...core.policies import documents
from ...core.policies.documents import EXTRA_PREFIX, EXTRAS_FIELD, LISTS, MAPS, Setting, setting_of, split
from .schema import AvroType, AvroValue, Piece, Schema, kind, present_branch, varint

PRIMITIVE_KINDS: Mapping[int, frozenset[str]] = {
    FieldDescriptor.TYPE_BOOL: frozenset({"boolean"}),
    FieldDescriptor.TYPE_INT32: frozenset({"int"}),
    FieldDescriptor.TYPE_INT64: frozenset({"int", "long"}),
    FieldDescriptor.TYPE_DOUBLE: frozenset({"double", "float"}),
    FieldDescriptor.TYPE_STRING: frozenset({"string"}),
}
"""The Avro types whose values a field can hold, by the field's Protobuf type. Pulsar has widened int to long before (retention's size)."""
_BYTES = "-bytes"
_TYPE = "-type"
_UNSET_SYMBOL = "UNDEFINED"
"""A symbol that means "not set" (``SchemaCompatibilityStrategy.UNDEFINED``)."""
_FOREIGN = 1 << 30
"""Enum numbers from here on stand for symbols of a newer broker."""


class Converter(NamedTuple):
    """Converts one value in both directions. ``to_avro`` raises ValueError for a value that the Avro type can't hold."""

    to_avro: Callable[[Any], AvroValue]
    from_avro: Callable[[AvroValue], Any]


def scalar(schema: Schema, field: FieldDescriptor, avro: AvroType) -> Converter | None:
    """Makes the converter of a field's value, or of one element if the field is a list; None if the Avro type can't hold it."""
    avro = schema.present(avro)
    if field.enum_type is not None:
        return _enum(field.enum_type, avro) if kind(avro) == "enum" else None
    if kind(avro) not in PRIMITIVE_KINDS.get(field.type, ()):
        return None
    return Converter(_short if kind(avro) == "int" else _same, _same)


def _same(value: Any) -> Any:
    return value


def _short(value: int) -> int:
    """Checks the range of an int: fastavro would write a larger value, and no broker could read the event.

    Raises:
        ValueError: the value is outside the range.
    """
    if not -(2**31) <= value < 2**31:
        raise ValueError(f"{value} is too large for an int")
    return value


def _enum(enum: EnumDescriptor, avro: AvroType) -> Converter:
    numbers = {symbol: _number_of(enum, symbol) for symbol in avro["symbols"]}
    symbols: dict[int, str] = {number: symbol for symbol, number in numbers.items() if number}

    def to_avro(number: int) -> str:
        if number not in symbols:
            raise ValueError(f"{enum.name} has no symbol for {number}")
        return symbols[number]

    return Converter(to_avro, numbers.__getitem__)


def _number_of(enum: EnumDescriptor, symbol: str) -> int:
    """The number of a symbol in a document; 0 if the symbol means "not set".

    A symbol that the enum does not have belongs to a newer broker. Protobuf's enums are open, so a document holds it as a number that is a
    hash of its name; when the document is written, the symbol with that number is found in the newer broker's schema.
    """
    if symbol == _UNSET_SYMBOL:
        return 0
    known = enum.values_by_name.get(enum.values_by_number[0].name.removesuffix("UNSPECIFIED") + symbol.upper())
    return known.number if known is not None else _FOREIGN | int.from_bytes(blake2b(symbol.encode(), digest_size=4).digest(), "big") >> 2


_SIZES = ("limitSize", "limit")
"""The two names of a quota's size; brokers of all versions read the first that is set (``BacklogQuotaImpl.getLimitSize``)."""


class Leaf(NamedTuple):
    """A field of an object: its names in Avro and Protobuf, and the conversion between them."""

    avro: str
    """The field's name in Avro."""
    name: str
    """The field's name in Protobuf."""
    absent: AvroValue
    """The Avro value that is written if the message does not have the field."""
    write: Callable[[Any], AvroValue]
    """Converts the message's value of the field to Avro."""
    read: Callable[[Message, AvroValue], None]
    """Sets the field in the message to an Avro value that is not null."""
    repeated: bool


class Record:
    """Converts messages of one type to and from one record of a schema."""

    def __init__(self, schema: Schema, message: Descriptor, avro: AvroType) -> None:
        fields = {field.json_name: field for field in message.fields}
        self.leaves: list[Leaf] = []
        self._unknown: dict[str, AvroValue] = {}
        self._pieces: dict[str, Piece] = {}
        quota = message.full_name == "topicpolicies.v1.BacklogQuota"
        self._sizes = [part["name"] for part in avro["fields"] if quota and part["name"] in _SIZES]
        for part in avro["fields"]:
            if part["name"] in self._sizes:
                continue
            field = fields.get(part["name"])
            leaf = None if field is None else _leaf(schema, field, part)
            if leaf is not None:
                self.leaves.append(leaf)
            else:
                self._unknown[part["name"]] = schema.absent(part)
                self._pieces[part["name"]] = Piece(schema, part["type"])
        placed = {leaf.name for leaf in self.leaves} | ({"limit_size"} if self._sizes else set())
        self._unplaced = [field for field in message.fields if field.name not in placed]

    def to_avro(self, message: Message) -> dict[str, AvroValue]:
        """Converts a message to a complete record: fields that the message does not have get the value that means "not set".

        Raises:
            ValueError: the record has no place for something that the message has.
        """
        record: dict[str, AvroValue] = {}
        for leaf in self.leaves:
            here = leaf.repeated or message.HasField(leaf.name)
            record[leaf.avro] = leaf.write(getattr(message, leaf.name)) if here else leaf.absent
        for name in self._sizes:
            record[name] = message.limit_size if message.HasField("limit_size") else -1  # type: ignore[attr-defined]
        for field in self._unplaced:
            if getattr(message, field.name) if field.is_repeated else message.HasField(field.name):
                raise ValueError(f'it has no field for "{field.name}"')
        if self._unknown:
            record.update(self._unknown)
        kept = _foreign_of(message)
        for name, value in kept.items():
            if name not in self._pieces or not self._pieces[name].takes(value):
                raise ValueError(f'it has no field for "{name}"')
            record[name] = value
        return record

    def into(self, message: Message, record: Mapping[str, AvroValue]) -> None:
        """Fills an empty message from a record.

        Raises:
            ValueError, TypeError: a value is outside its field's range.
        """
        message.SetInParent()
        for leaf in self.leaves:
            value = record[leaf.avro]
            if value is not None:
                leaf.read(message, value)
        sizes = [record[name] for name in sorted(self._sizes, reverse=True) if record[name] is not None]
        if sizes:
            message.limit_size = sizes[0]  # type: ignore[attr-defined]
        if self._unknown:
            kept = {name: record[name] for name, absent in self._unknown.items() if record[name] != absent}
            if kept:
                _add_foreign(message, kept)


def _leaf(schema: Schema, field: FieldDescriptor, part: AvroType) -> Leaf | None:
    name = field.name
    avro = schema.present(part["type"])
    absent = schema.absent(part)
    if map_value(field) is not None:
        # The only such leaf is offload's extra configuration, a map of strings. Brokers call methods of it, so it is never written as null.
        if kind(avro) != "map" or kind(schema.present(avro["values"])) != "string":
            return None
        return Leaf(part["name"], name, {}, dict, lambda message, value: getattr(message, name).update(value), repeated=True)
    if field.message_type is not None:
        if kind(avro) != "record":
            return None
        nested = Record(schema, field.message_type, avro)

        def into(message: Message, value: AvroValue) -> None:
            nested.into(getattr(message, name), value)

        return Leaf(part["name"], name, absent, nested.to_avro, into, repeated=False)
    converter = scalar(schema, field, avro)
    if converter is None:
        return None
    from_avro = converter.from_avro

    def read(message: Message, value: AvroValue) -> None:
        setattr(message, name, value)

    def read_enum(message: Message, value: AvroValue) -> None:
        number = from_avro(value)
        if number:
            setattr(message, name, number)

    return Leaf(part["name"], name, absent, converter.to_avro, read if field.enum_type is None else read_enum, repeated=False)


def to_json(value: AvroValue) -> bytes:
    """Encodes a value as canonical JSON: equal values give equal bytes."""
    return json.dumps(_plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def from_json(data: bytes) -> AvroValue:
    """Decodes the JSON that ``to_json`` makes.

    Raises:
        ValueError: the data is something else.
    """
    try:
        return _rich(json.loads(data))
    except (TypeError, RecursionError) as error:
        raise ValueError(str(error)) from error


def _add_foreign(message: Message, extras: Mapping[str, AvroValue]) -> None:
    """Adds leaves to a message, as its unknown field ``EXTRAS_FIELD``."""
    message.MergeFromString(documents.record(EXTRAS_FIELD, to_json(extras)))


def _foreign_of(message: Message) -> Mapping[str, AvroValue]:
    """The leaves in a message's unknown field ``EXTRAS_FIELD``. Other data there, such as a client's own, is ignored."""
    found: Mapping[str, AvroValue] = {}
    unknown: Any = UnknownFieldSet(message)  # a sequence, which its type stub does not say
    for field in unknown:
        if field.field_number == EXTRAS_FIELD and isinstance(field.data, bytes):
            try:
                value = from_json(field.data)
            except ValueError:
                continue
            if isinstance(value, dict):
                found = value
    return found


def _plain(value: AvroValue) -> AvroValue:
    if isinstance(value, bytes):
        return {_BYTES: base64.b64encode(value).decode()}
    if isinstance(value, tuple):
        name, record = value
        return {_TYPE: name, **_plain(record)}
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    return value


def _rich(value: AvroValue) -> AvroValue:
    if isinstance(value, dict):
        if len(value) == 1 and isinstance(value.get(_BYTES), str):
            return base64.b64decode(value[_BYTES], validate=True)
        return {name: _rich(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_rich(part) for part in value]
    return value


# The fields of a document

EMPTY_NOT_NULL = frozenset({"subscription_types_enabled"})
"""Lists that brokers write as empty when they are not set, like maps; other lists they write as null (``TopicPolicies``)."""


class Field(NamedTuple):
    """One field of the document that the schema has a place for."""

    setting: Setting
    """The setting that the field is, or is a part of; for a map, the family of its entries."""
    absent: bytes
    """The field's Avro bytes if the document says nothing about it."""
    encode: Callable[[bytes], bytes]
    """Converts a setting's bytes to the field's Avro bytes, or, for a map, to those of one entry. ValueError: the schema can't hold it."""
    read: Callable[[AvroValue, dict[Setting, bytes]], None]
    """Adds a value that is not null to the settings. ValueError or TypeError: the value is outside the range of its type."""
    branch: bytes | None = None
    """For a map: the bytes before its blocks. None: the field is not a map."""


def known_field(schema: Schema, field: FieldDescriptor, part: AvroType) -> Field | None:
    """Makes the field for one that our definition knows; returns None if the schema has another type under its name."""
    if field.name in MAPS:
        return _map(schema, field, part)
    if field.name in LISTS:
        return _list(schema, field, part)
    if field.message_type is not None:
        return _object(schema, field, part)
    return _scalar(schema, field, part)


def unknown_field(schema: Schema, part: AvroType) -> Field:
    """Makes the field for one of a newer broker: a setting of its own. The value that means "not set" is not kept."""
    setting = EXTRA_PREFIX + part["name"]
    nothing = schema.absent(part)
    piece = Piece(schema, part["type"])

    def encode(value: bytes) -> bytes:
        foreign = from_json(value)
        if not piece.takes(foreign):
            raise ValueError(f'its field "{part["name"]}" is of another type')
        return piece(foreign)

    def read(value: AvroValue, settings: dict[Setting, bytes]) -> None:
        if value != nothing:
            settings[setting] = to_json(value)

    return Field(setting, piece(nothing), encode, read)


def _scalar(schema: Schema, field: FieldDescriptor, part: AvroType) -> Field | None:
    converter = scalar(schema, field, part["type"])
    if converter is None:
        return None
    name = field.name
    setting = setting_of(name)
    piece = Piece(schema, part["type"])
    nothing = schema.absent(part)
    to_avro, from_avro = converter
    is_enum = field.enum_type is not None

    def encode(value: bytes) -> bytes:
        policies: Any = TopicPolicies.FromString(value)
        return piece(to_avro(getattr(policies, name)) if policies.HasField(name) else nothing)

    def read(value: AvroValue, settings: dict[Setting, bytes]) -> None:
        own = from_avro(value)
        if is_enum and not own:
            return
        policies = TopicPolicies()
        setattr(policies, name, own)
        # Parts of one setting are read in the order of their numbers, which is the canonical one.
        settings[setting] = settings.get(setting, b"") + policies.SerializeToString(deterministic=True)

    return Field(setting, piece(nothing), encode, read)


def _object(schema: Schema, field: FieldDescriptor, part: AvroType) -> Field | None:
    record = schema.record(part["type"])
    if record is None:
        return None
    assert field.message_type is not None
    name = field.name
    setting = setting_of(name)
    codec = Record(schema, field.message_type, record)
    piece = Piece(schema, part["type"])

    def encode(value: bytes) -> bytes:
        return piece(codec.to_avro(getattr(TopicPolicies.FromString(value), name)))

    def read(value: AvroValue, settings: dict[Setting, bytes]) -> None:
        policies = TopicPolicies()
        codec.into(getattr(policies, name), value)
        settings[setting] = policies.SerializeToString(deterministic=True)

    return Field(setting, piece(schema.absent(part)), encode, read)


def _list(schema: Schema, field: FieldDescriptor, part: AvroType) -> Field | None:
    array = schema.present(part["type"])
    converter = scalar(schema, field, array["items"]) if kind(array) == "array" else None
    if converter is None:
        return None
    name = field.name
    setting = setting_of(name)
    piece = Piece(schema, part["type"])
    to_avro, from_avro = converter

    def encode(value: bytes) -> bytes:
        return piece([to_avro(element) for element in getattr(TopicPolicies.FromString(value), name)])

    def read(value: AvroValue, settings: dict[Setting, bytes]) -> None:
        policies = TopicPolicies()
        getattr(policies, name).extend([from_avro(element) for element in value if element is not None])
        settings.update(split(policies))

    return Field(setting, piece([] if name in EMPTY_NOT_NULL else schema.absent(part)), encode, read)


def _map(schema: Schema, field: FieldDescriptor, part: AvroType) -> Field | None:
    mapping = schema.present(part["type"])
    record = schema.record(mapping["values"]) if kind(mapping) == "map" else None
    if record is None:
        return None
    assert field.message_type is not None
    message = field.message_type.fields_by_name["value"].message_type
    assert message is not None
    name = field.name
    codec = Record(schema, message, record)
    members = [{"name": "key", "type": "string"}, {"name": "value", "type": mapping["values"]}]
    entry = Piece(schema, {"type": "record", "name": schema.unused_name("Entry"), "fields": members})
    branch = varint(present_branch(part["type"])) if isinstance(part["type"], list) else b""

    def encode(value: bytes) -> bytes:
        ((key, each),) = getattr(TopicPolicies.FromString(value), name).items()
        return entry({"key": key, "value": codec.to_avro(each)})

    def read(value: AvroValue, settings: dict[Setting, bytes]) -> None:
        for key, each in value.items():
            if each is None:
                continue
            policies = TopicPolicies()
            codec.into(getattr(policies, name)[key], each)
            settings[setting_of(name, key)] = policies.SerializeToString(deterministic=True)

    return Field(name, branch + b"\0", encode, read, branch)
