"""Conversion of Pulsar's JSON to Protobuf: objects have their members by Java names, which are our definition's JSON names."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message

from topicpolicies.values import map_value


def fill(message: Message, members: Mapping[str, Any]) -> None:
    """Sets a message's fields from an object's members; members that are null or unknown are left out."""
    fields = _by_java_name(message.DESCRIPTOR)
    for name, value in members.items():
        field = fields.get(name)
        if field is not None and value is not None:
            _put(message, field, value)


def enum_number(enum: EnumDescriptor, symbol: str) -> int:
    """Returns the number of a Java enum's symbol, in upper or lower case; 0 (UNSPECIFIED): it is unknown."""
    prefix = re.sub(r"(?<!^)(?=[A-Z])", "_", enum.name).upper()
    value = enum.values_by_name.get(f"{prefix}_{re.sub(r'[^A-Za-z0-9]', '_', symbol).upper()}")
    return int(value.number) if value is not None else 0


def _put(message: Message, field: FieldDescriptor, value: Any) -> None:
    place = getattr(message, field.name)
    if isinstance(value, Mapping) and map_value(field) is not None:
        place.update({str(key): str(each) for key, each in value.items() if each is not None})
    elif isinstance(value, Mapping):
        place.SetInParent()
        fill(place, value)
    elif field.enum_type is not None:
        setattr(message, field.name, enum_number(field.enum_type, str(value)))
    else:
        setattr(message, field.name, value)


@functools.cache
def _by_java_name(descriptor: Descriptor) -> Mapping[str, FieldDescriptor]:
    return {field.json_name: field for field in descriptor.fields}
