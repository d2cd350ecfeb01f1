"""Message keys of policy keys, and the partition that a message key belongs to.

Brokers look for all events of a topic in one partition, and find it as Pulsar's Java client does (``JavaStringHash``,
``RoundRobinPartitionMessageRouterImpl``). Whoever writes beside them must find the same one.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from ..core.names import PolicyKey, Scope

GLOBAL_PREFIX = "__G__"
"""Marks the message keys of GLOBAL policies (``TopicPoliciesService.GLOBAL_POLICIES_MSG_KEY_PREFIX``, Pulsar 4.0.6 and later)."""


def message_key(key: PolicyKey) -> str:
    """The message key under which a policy key's events stand: the topic's name, prefixed for GLOBAL."""
    return GLOBAL_PREFIX + key.topic if key.scope is Scope.GLOBAL else key.topic


def java_hash(text: str) -> int:
    """``String.hashCode`` of Java, without its sign bit (Pulsar's ``JavaStringHash``): over UTF-16 code units, modulo 2**31."""
    if text.isascii():
        units: Iterable[int] = text.encode()
    else:
        units = (unit for (unit,) in struct.iter_unpack("<H", text.encode("utf-16-le", "surrogatepass")))
    value = 0
    for unit in units:
        value = (value * 31 + unit) & 0x7FFFFFFF
    return value


def partition_of(key: PolicyKey, partitions: int) -> int:
    """Which of a log's partitions holds a policy key's events."""
    return java_hash(message_key(key)) % partitions if partitions > 1 else 0
