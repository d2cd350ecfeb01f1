"""The Avro names of fields and enum symbols that have other names in Protobuf.

Fields need no table: a field's ``json_name`` is its Avro name, because ``policies.proto`` is written that way. Symbols of enums need one,
because Protobuf's style demands prefixes and upper case. A test checks that these names and the shipped schema cover each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b

from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor

SYMBOLS: Mapping[str, tuple[str, ...]] = {
    "topicpolicies.v1.BacklogQuotaPolicy": (
        "producer_request_hold",
        "producer_exception",
        "consumer_backlog_eviction",
    ),
    "topicpolicies.v1.InactiveTopicDeleteMode": (
        "delete_when_no_subscriptions",
        "delete_when_subscriptions_caught_up",
    ),
    "topicpolicies.v1.OffloadedReadPriority": (
        "BOOKKEEPER_FIRST",
        "TIERED_STORAGE_FIRST",
    ),
    "topicpolicies.v1.SchemaCompatibilityStrategy": (
        "ALWAYS_INCOMPATIBLE",
        "ALWAYS_COMPATIBLE",
        "BACKWARD",
        "FORWARD",
        "FULL",
        "BACKWARD_TRANSITIVE",
        "FORWARD_TRANSITIVE",
        "FULL_TRANSITIVE",
    ),
    "topicpolicies.v1.SubscriptionType": (
        "Exclusive",
        "Shared",
        "Failover",
        "Key_Shared",
    ),
}
"""The Avro symbols of each Protobuf enum, by the enum's full name, in the order of its numbers from 1."""

UNSET_SYMBOLS: frozenset[str] = frozenset({"UNDEFINED"})
"""Symbols that mean "not set" (``SchemaCompatibilityStrategy.UNDEFINED``)."""

FOREIGN = 1 << 30
"""Enum numbers from here on stand for symbols of a newer broker."""


def avro_name(field: FieldDescriptor) -> str:
    """The Avro name of a field of ``TopicPolicies`` or of a message in it."""
    return field.json_name


def number_of(enum: EnumDescriptor, symbol: str) -> int:
    """The number of a symbol in a document; 0 if the symbol means "not set".

    A symbol that is not in ``SYMBOLS`` belongs to a newer broker. Protobuf's enums are open, so a document holds it as a number that is a
    hash of its name; when the document is written, the symbol with that number is found in the newer broker's schema.
    """
    known = SYMBOLS[enum.full_name]
    if symbol in known:
        return known.index(symbol) + 1
    if symbol in UNSET_SYMBOLS:
        return 0
    return FOREIGN | int.from_bytes(blake2b(symbol.encode(), digest_size=4).digest(), "big") >> 2
