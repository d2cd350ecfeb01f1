"""How the schema names what Protobuf names otherwise.

Fields need no table: a field's ``json_name`` is its Avro name, which is how ``policies.proto`` is written. Symbols of enums do, because
Protobuf's style has prefixes and upper case. A test demands that these names and the shipped schema cover each other.
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
"""The Avro symbols of the Protobuf enums, by the enum's full name and in the order of its numbers, from 1."""

UNSET_SYMBOLS: frozenset[str] = frozenset({"UNDEFINED"})
"""Symbols that say that nothing is said (``SchemaCompatibilityStrategy.UNDEFINED``)."""

FOREIGN = 1 << 30
"""Enum numbers from here on stand for symbols of a newer broker."""


def avro_name(field: FieldDescriptor) -> str:
    """The Avro name of a field of ``TopicPolicies`` or of a message in it."""
    return field.json_name


def number_of(enum: EnumDescriptor, symbol: str) -> int:
    """The number that a symbol has in a document; 0 if it says nothing.

    A symbol that is not in ``SYMBOLS`` belongs to a newer broker. Protobuf's enums are open, so it travels as a number that is made of its
    name; whoever writes it back finds the symbol of that number in the newer broker's schema.
    """
    known = SYMBOLS[enum.full_name]
    if symbol in known:
        return known.index(symbol) + 1
    if symbol in UNSET_SYMBOLS:
        return 0
    return FOREIGN | int.from_bytes(blake2b(symbol.encode(), digest_size=4).digest(), "big") >> 2
