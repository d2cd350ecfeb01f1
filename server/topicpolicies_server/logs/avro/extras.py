"""Extras: values of a newer broker that our definition has no place for, kept as JSON that is lossless and depends on no schema.

A whole unknown field of the document is a setting of its own. An unknown leaf inside an object that we know is kept in that object's bytes
as an unknown Protobuf field, so that reading, masking and writing the object leaves it where it is. Fields and leaves are written back into
an event if the schema that it is written with has a place for them.

JSON has no bytes, so ``{"-bytes": base64}`` stands for them; and fastavro needs to know which record of a union is meant, so a member
``"-type"`` (fastavro's own convention) names it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

from ...core.policies import documents
from ...core.policies.documents import EXTRAS_FIELD
from .schema import AvroValue

_BYTES = "-bytes"
_TYPE = "-type"


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


def add(message: Message, extras: Mapping[str, AvroValue]) -> None:
    """Adds leaves to a message, as its unknown field ``EXTRAS_FIELD``."""
    message.MergeFromString(documents.record(EXTRAS_FIELD, to_json(extras)))


def of(message: Message) -> Mapping[str, AvroValue]:
    """The leaves in a message's unknown field ``EXTRAS_FIELD``. Data that ``add`` did not write, such as a client's own, is ignored."""
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
