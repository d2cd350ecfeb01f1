"""Policy documents as nested Spark values. Their types are made from the Protobuf definition; enums are names, and unset fields null."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from pyspark.sql.pandas.types import from_arrow_schema

from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies.values import map_value

_SCALARS = {
    FieldDescriptor.CPPTYPE_INT32: pa.int32(),
    FieldDescriptor.CPPTYPE_INT64: pa.int64(),
    FieldDescriptor.CPPTYPE_BOOL: pa.bool_(),
    FieldDescriptor.CPPTYPE_STRING: pa.string(),
    FieldDescriptor.CPPTYPE_ENUM: pa.string(),
    FieldDescriptor.CPPTYPE_DOUBLE: pa.float64(),
}


def _struct(message: Descriptor) -> pa.StructType:
    return pa.struct([pa.field(field.name, _type(field)) for field in message.fields])


def _type(field: FieldDescriptor) -> pa.DataType:
    entries = map_value(field)
    if entries is not None:
        return pa.map_(pa.string(), _type(entries))
    single = _struct(field.message_type) if field.message_type is not None else _SCALARS[field.cpp_type]
    return pa.list_(single) if field.is_repeated else single


ARROW_TYPE = _struct(TopicPolicies.DESCRIPTOR)
SPARK_TYPE = from_arrow_schema(pa.schema(ARROW_TYPE.fields))
"""The type of a document in Arrow and in Spark."""


def value_of(message: Message) -> dict[str, Any]:
    """Returns a message as a value for Arrow, with only the fields that are set."""
    value: dict[str, Any] = {}
    for field, found in message.ListFields():
        entries = map_value(field)
        if entries is not None:
            value[field.name] = [(name, _single(entries, found[name])) for name in sorted(found)]
        elif field.is_repeated:
            value[field.name] = [_single(field, each) for each in found]
        else:
            value[field.name] = _single(field, found)
    return value


def _single(field: FieldDescriptor, value: Any) -> Any:
    if field.message_type is not None:
        return value_of(value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return known.name if known is not None else str(value)
    return value
