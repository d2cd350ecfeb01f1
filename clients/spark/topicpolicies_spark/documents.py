"""Policy documents as nested Spark values. Their types are made from the Protobuf definition; enums are names, and unset fields null."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from pyspark.sql import types

from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies.values import map_value

_SCALARS = {
    FieldDescriptor.CPPTYPE_INT32: (types.IntegerType(), pa.int32()),
    FieldDescriptor.CPPTYPE_INT64: (types.LongType(), pa.int64()),
    FieldDescriptor.CPPTYPE_BOOL: (types.BooleanType(), pa.bool_()),
    FieldDescriptor.CPPTYPE_STRING: (types.StringType(), pa.string()),
    FieldDescriptor.CPPTYPE_ENUM: (types.StringType(), pa.string()),
    FieldDescriptor.CPPTYPE_DOUBLE: (types.DoubleType(), pa.float64()),
}


def _types(message: Descriptor) -> tuple[types.StructType, pa.DataType]:
    fields = [(field.name, *_type(field)) for field in message.fields]
    spark = types.StructType([types.StructField(name, of_spark) for name, of_spark, _ in fields])
    return spark, pa.struct([pa.field(name, of_arrow) for name, _, of_arrow in fields])


def _type(field: FieldDescriptor) -> tuple[types.DataType, pa.DataType]:
    entries = map_value(field)
    if entries is not None:
        value_spark, value_arrow = _type(entries)
        return types.MapType(types.StringType(), value_spark), pa.map_(pa.string(), value_arrow)
    single = _types(field.message_type) if field.message_type is not None else _SCALARS[field.cpp_type]
    return (types.ArrayType(single[0]), pa.list_(single[1])) if field.is_repeated else single


SPARK_TYPE, ARROW_TYPE = _types(TopicPolicies.DESCRIPTOR)
"""The type of a document in Spark and in Arrow."""


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
