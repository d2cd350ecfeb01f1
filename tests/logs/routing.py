"""The message key and the partition of a policy key, as brokers choose them that tell scopes apart by the key."""

from __future__ import annotations

from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.logs.avro.codec import GLOBAL_PREFIX, java_hash


def message_key(key: PolicyKey) -> str:
    """The message key under which a policy key's events stand: the topic's name, prefixed for GLOBAL."""
    return GLOBAL_PREFIX + key.topic if key.scope is Scope.GLOBAL else key.topic


def partition_of(key: PolicyKey, partitions: int) -> int:
    """The partition of a log that holds the events of a policy key."""
    return java_hash(message_key(key)) % partitions if partitions > 1 else 0
