"""Documents as settings: what one admin call changes is the unit in which documents are compared and merged.

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
Settings: TypeAlias = Mapping[Setting, bytes]
"""An immutable document; an absent document is None, which is not the same as one without settings."""

EXTRAS_FIELD = 536_870_911
"""The field number (Protobuf's highest) under which an object carries leaves of a newer broker: JSON, by Avro name."""
EXTRA_PREFIX = "?"
MOST_BYTES = 1 << 20
"""Of a document that an update may make: whoever receives it, with the document before it, has room for both (gRPC's default is 4 MiB)."""

GROUPS: Mapping[str, str] = {
    "delayed_delivery_enabled": "delayed_delivery",
    "delayed_delivery_max_delay_in_millis": "delayed_delivery",
    "delayed_delivery_tick_time_millis": "delayed_delivery",
}
"""Fields that one admin call sets together, and the setting that they make."""

FIELDS: Mapping[str, FieldDescriptor] = {field.name: field for field in TopicPolicies.DESCRIPTOR.fields}
MAPS: frozenset[str] = frozenset(
    name for name, field in FIELDS.items() if field.message_type is not None and field.message_type.GetOptions().map_entry
)
LISTS: frozenset[str] = frozenset(name for name, field in FIELDS.items() if field.is_repeated and name not in MAPS)
OBJECTS: frozenset[str] = frozenset(name for name, field in FIELDS.items() if field.message_type is not None)
"""Fields of messages, maps and lists of messages included: those of which a newer broker may have leaves."""


def family(setting: Setting) -> str:
    """The field (or group) that a setting belongs to: what a schema knows or does not know."""
    return setting.partition("/")[0]


def setting_of(name: str, key: str | None = None) -> Setting:
    """The setting that a top-level field, or one entry of a map field, belongs to."""
    if key is not None:
        return f"{name}/{key}"
    return GROUPS.get(name, name)


_MOST_UNSIGNED = (1 << 64) - 1
"""Negative numbers are written as unsigned ones of 64 bits."""


def split(policies: TopicPolicies) -> dict[Setting, bytes]:
    """The settings of a message, each with its canonical bytes. Lists and maps without elements are unset."""
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
            )  # a record per element, see ``elements``
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


def wire(settings: Settings) -> bytes:
    """The document's Protobuf form, without the top-level fields that only a newer broker knows."""
    return b"".join([settings[name] for name in sorted(settings) if name[:1] != EXTRA_PREFIX])


def size(settings: Settings) -> int:
    """Bytes of a document's settings."""
    return sum(map(len, settings.values()))


def join(settings: Settings) -> TopicPolicies:
    """The message of a document: a fresh copy that the caller may change."""
    return TopicPolicies.FromString(wire(settings))


def differing(a: Settings | None, b: Settings | None, known: frozenset[str] | None = None) -> list[Setting]:
    """The settings in which two documents differ, among those whose family is ``known`` (None: all)."""
    if a is b:
        return []
    left: Settings = a or {}
    right: Settings = b or {}
    changed = [name for name, value in right.items() if left.get(name) != value]
    changed += [name for name in left if name not in right]
    if known is not None:
        changed = [name for name in changed if family(name) in known]
    return changed


def merged(head: Settings | None, document: Settings | None, settings: Iterable[Setting]) -> dict[Setting, bytes]:
    """``head`` with the named settings as ``document`` has them; absent there means removed."""
    result = dict(head or {})
    source: Settings = document or {}
    for setting in settings:
        value = source.get(setting)
        if value is None:
            result.pop(setting, None)
        else:
            result[setting] = value
    return result


def digest(value: bytes | None) -> str:
    """A short digest of a setting's bytes; of an unset one, the empty string."""
    return "" if value is None else hashlib.blake2b(value, digest_size=8).hexdigest()


WHOLE: Setting = "*"
"""Stands for all settings of a document where single ones are named with their digests."""


def whole_digest(settings: Settings | None) -> str:
    """A short digest of a whole document; of no document, the empty string."""
    if settings is None:
        return ""
    return hashlib.blake2b(repr(sorted(settings.items())).encode(), digest_size=8).hexdigest()


def elements(value: bytes) -> list[bytes]:
    """The records of a list setting, one per element, in order."""
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
    """A list setting with the operand's elements added at its end, those that were not there yet, once each."""
    return b"".join(dict.fromkeys(elements(value or b"") + elements(operand)))


def subtract(value: bytes | None, operand: bytes) -> bytes | None:
    """A list setting without the operand's elements; None when nothing is left."""
    gone = frozenset(elements(operand))
    return b"".join(record for record in elements(value or b"") if record not in gone) or None


_LAST_SHIFT = 63
"""Of the bits of a number's tenth byte, which is the last one, and has one."""
_SHORT = tuple(bytes((number,)) for number in range(0x80))
"""The numbers that have one byte."""


def varint(number: int) -> bytes:
    """A number as Protobuf writes it."""
    if number < 0x4000:
        return _SHORT[number] if number < 0x80 else bytes((number & 0x7F | 0x80, number >> 7))
    result = bytearray()
    while number >= 0x80:
        result.append(number & 0x7F | 0x80)
        number >>= 7
    result.append(number)
    return bytes(result)


def record(number: int, body: bytes) -> bytes:
    """A field with a length as Protobuf writes it."""
    return varint(number << 3 | 2) + varint(len(body)) + body


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """The number that stands at ``at`` as Protobuf writes it, and where it ends.

    Raises:
        IndexError: there is none, or it has more than 64 bits.
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
