"""The fields of a document as one schema has them: each converts a setting's bytes to the field's Avro bytes, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from google.protobuf.descriptor import FieldDescriptor

from topicpolicies.v1.policies_pb2 import TopicPolicies

from ...core.policies.documents import EXTRA_PREFIX, LISTS, MAPS, Setting, setting_of, split
from .records import Record, from_json, scalar, to_json
from .schema import AvroType, AvroValue, Piece, Schema, kind, present_branch, varint

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
    """Makes the field for one of a newer broker: a setting of its own (``records``). The value that means "not set" is not kept."""
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
