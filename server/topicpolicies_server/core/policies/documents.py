"""Documents as mappings of settings. A setting is what one admin call changes; documents are compared and merged setting by setting.

A *document* is an immutable mapping from settings to bytes. A setting is named after its field of ``TopicPolicies``
(``"retention_policies"``), after its field and key for the entries of a map (``"subscription_policies/my-sub"``), or after its
group (``"delayed_delivery"``: three fields that one admin call sets together). Its bytes are the field's own serialized records, so
that the document's wire form is their concatenation, and comparing, merging and remembering documents needs no parsing at all.

Fields of a newer broker that our definition does not know survive: top-level ones are settings named ``"?name"`` (kept beside
the wire form), nested ones travel inside their setting as a field of ``EXTRAS_FIELD`` (see ``logs/avro``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from google.protobuf.descriptor import FieldDescriptor

from topicpolicies.v1.policies_pb2 import TopicPolicies

Setting: TypeAlias = str
Document: TypeAlias = Mapping[Setting, bytes]
"""An immutable document. An absent document is None, which differs from a document without settings."""

EXTRAS_FIELD = 536_870_911
"""The field number (Protobuf's highest) under which an object carries leaves of a newer broker: JSON, by Avro name."""
EXTRA_PREFIX = "?"
MOST_BYTES = 1 << 20
"""Most bytes of a document that an update may make: a message has room for it and the one before it (gRPC's default limit is 4 MiB)."""
MOST_ELEMENTS = 5_000
"""Most elements of a list or a map of a document that an update may make: reading very many would hold up the event loop."""

GROUPS: Mapping[str, str] = {
    "delayed_delivery_enabled": "delayed_delivery",
    "delayed_delivery_max_delay_in_millis": "delayed_delivery",
    "delayed_delivery_tick_time_millis": "delayed_delivery",
}
"""The fields that one admin call sets together, and the setting that holds them."""

FIELDS: Mapping[str, FieldDescriptor] = {field.name: field for field in TopicPolicies.DESCRIPTOR.fields}
MAPS: frozenset[str] = frozenset(
    name for name, field in FIELDS.items() if field.message_type is not None and field.message_type.GetOptions().map_entry
)
LISTS: frozenset[str] = frozenset(name for name, field in FIELDS.items() if field.is_repeated and name not in MAPS)
OBJECTS: frozenset[str] = frozenset(name for name, field in FIELDS.items() if field.message_type is not None)
"""Fields of messages, maps and lists of messages included: those of which a newer broker may have leaves."""


def family(setting: Setting) -> str:
    """Returns the field (or group) that a setting belongs to: the unit that the schema of a writer knows or does not know."""
    return setting.partition("/")[0]


def setting_of(name: str, key: str | None = None) -> Setting:
    """Returns the setting of a top-level field, or of one entry of a map field."""
    if key is not None:
        return f"{name}/{key}"
    return GROUPS.get(name, name)


_MOST_UNSIGNED = (1 << 64) - 1
"""Protobuf writes negative numbers as unsigned ones of 64 bits."""


def split(policies: TopicPolicies) -> dict[Setting, bytes]:
    """Returns the settings of a message, each with its canonical bytes. Lists and maps without elements are unset."""
    settings: dict[Setting, bytes] = {}
    single = TopicPolicies()
    for field, value in policies.ListFields():
        name = field.name
        if name in MAPS:
            for key in value:
                getattr(single, name)[key].CopyFrom(value[key])
                settings[f"{name}/{key}"] = single.SerializeToString(deterministic=True)
                single.Clear()
            continue
        if name in LISTS and field.message_type is None and field.type == field.TYPE_ENUM:
            settings[name] = b"".join(
                varint(field.number << 3) + varint(number & _MOST_UNSIGNED) for number in value
            )  # not packed: one record for each element, as ``elements`` expects
            continue
        if name in LISTS:
            getattr(single, name).extend(value)
        elif field.message_type is not None:
            getattr(single, name).CopyFrom(value)
        else:
            setattr(single, name, value)
        setting = GROUPS.get(name, name)
        settings[setting] = settings.get(setting, b"") + single.SerializeToString(deterministic=True)
        single.Clear()
    return settings


def wire(settings: Document) -> bytes:
    """Returns the document's Protobuf form, without the top-level fields that only a newer broker knows."""
    return b"".join([settings[name] for name in sorted(settings) if name[:1] != EXTRA_PREFIX])


def size(settings: Document) -> int:
    """Returns the size of a document's settings, in bytes."""
    return sum(map(len, settings.values()))


def join(settings: Document) -> TopicPolicies:
    """Returns a document as a new message, which the caller may change."""
    return TopicPolicies.FromString(wire(settings))


def differing(a: Document | None, b: Document | None) -> list[Setting]:
    """Returns the settings in which two documents differ."""
    if a is b:
        return []
    left: Document = a or {}
    right: Document = b or {}
    changed = [name for name, value in right.items() if left.get(name) != value]
    return changed + [name for name in left if name not in right]


def merged(head: Document | None, document: Document | None, settings: Iterable[Setting]) -> dict[Setting, bytes]:
    """Returns ``head`` with the named settings as ``document`` has them; those that ``document`` lacks are removed."""
    result = dict(head or {})
    source: Document = document or {}
    for setting in settings:
        value = source.get(setting)
        if value is None:
            result.pop(setting, None)
        else:
            result[setting] = value
    return result


def digest(value: bytes | None) -> str:
    """Returns a short digest of a setting's bytes; "" for an unset setting."""
    return "" if value is None else hashlib.blake2b(value, digest_size=8).hexdigest()


WHOLE: Setting = "*"
"""Stands for the whole document in a mapping from settings to digests (``Stamp.reads``)."""


def whole_digest(settings: Document | None) -> str:
    """Returns a short digest of a whole document; "" for an absent document."""
    if settings is None:
        return ""
    return hashlib.blake2b(repr(sorted(settings.items())).encode(), digest_size=8).hexdigest()


def elements(value: bytes) -> list[bytes]:
    """Returns the Protobuf records of a list setting, one for each element, in order."""
    records: list[bytes] = []
    at = 0
    while at < len(value):
        start = at
        tag, at = read_varint(value, at)
        if tag & 7 == 2:
            length, at = read_varint(value, at)
            at += length
        else:
            _, at = read_varint(value, at)
        records.append(value[start:at])
    return records


def union(value: bytes | None, operand: bytes) -> bytes:
    """Returns a list setting with the operand's elements at its end, those that were not in it yet, once each."""
    return b"".join(dict.fromkeys(elements(value or b"") + elements(operand)))


def subtract(value: bytes | None, operand: bytes) -> bytes | None:
    """Returns a list setting without the operand's elements; None if no element is left."""
    gone = frozenset(elements(operand))
    return b"".join(record for record in elements(value or b"") if record not in gone) or None


_LAST_SHIFT = 63
"""The shift of a number's tenth byte: the last one that 64 bits need, with a single bit."""
_SHORT = tuple(bytes((number,)) for number in range(0x80))
"""The encodings of the numbers that take one byte."""


def varint(number: int) -> bytes:
    """Returns the Protobuf encoding of a number."""
    if number < 0x4000:
        return _SHORT[number] if number < 0x80 else bytes((number & 0x7F | 0x80, number >> 7))
    result = bytearray()
    while number >= 0x80:
        result.append(number & 0x7F | 0x80)
        number >>= 7
    result.append(number)
    return bytes(result)


def tag(number: int) -> bytes:
    """Returns the tag of a length-delimited Protobuf field."""
    return varint(number << 3 | 2)


def record(tag: bytes, body: bytes) -> bytes:
    """Returns the Protobuf encoding of a length-delimited field."""
    size = len(body)
    return tag + (_SHORT[size] if size < 0x80 else varint(size)) + body


EXTRAS_TAG = tag(EXTRAS_FIELD)


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Returns the number that Protobuf wrote at ``at``, and the offset of its end.

    Raises:
        IndexError: the data ends before the number does, or the number has more than 64 bits.
    """
    result = shift = 0
    while True:
        byte = data[at]
        at += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, at
        shift += 7
        if shift == _LAST_SHIFT:
            if data[at] > 1:
                raise IndexError("a number has more than 64 bits")
            return result | data[at] << shift, at + 1
