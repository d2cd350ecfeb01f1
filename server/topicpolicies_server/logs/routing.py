"""The message key of a policy key, and the partition that a message key belongs to.

Brokers expect all events of a topic in one partition, and choose it as Pulsar's Java client does (``JavaStringHash``,
``RoundRobinPartitionMessageRouterImpl``). Every other writer of the log must choose the same one.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from ..core.names import PolicyKey, Scope

GLOBAL_PREFIX = "__G__"
"""The prefix of the message keys of GLOBAL policies (``TopicPoliciesService.GLOBAL_POLICIES_MSG_KEY_PREFIX``, Pulsar 4.0.6 and later)."""


def message_key(key: PolicyKey) -> str:
    """The message key under which a policy key's events stand: the topic's name, prefixed for GLOBAL."""
    return GLOBAL_PREFIX + key.topic if key.scope is Scope.GLOBAL else key.topic


def java_hash(text: str) -> int:
    """Java's ``String.hashCode`` without its sign bit (Pulsar's ``JavaStringHash``): over UTF-16 code units, modulo 2**31."""
    if text.isascii():
        units: Iterable[int] = text.encode()
    else:
        units = (unit for (unit,) in struct.iter_unpack("<H", text.encode("utf-16-le", "surrogatepass")))
    value = 0
    for unit in units:
        value = (value * 31 + unit) & 0x7FFFFFFF
    return value


def partition_of(key: PolicyKey, partitions: int) -> int:
    """The partition of a log that holds the events of a policy key."""
    return java_hash(message_key(key)) % partitions if partitions > 1 else 0
