"""What holds for a topic, and which level says so."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from .enums import OpenEnum
from .showing import fields
from .v1 import service_pb2
from .v1.policies_pb2 import TopicPolicies


class EffectiveView(enum.IntEnum):
    """Whose reading of all levels. The numbers are those of ``topicpolicies.v1.EffectiveView``."""

    ENFORCED = 1
    """What brokers enforce: per field the first of topic LOCAL, topic GLOBAL, namespace and broker that says something."""
    APPLIED_LOCAL = 2
    """What the brokers' admin API answers with ``applied=true``: it looks at the LOCAL document only."""
    APPLIED_GLOBAL = 3
    """What it answers with ``applied=true`` and ``isGlobal=true``: it looks at the GLOBAL document only."""

    @property
    def number(self) -> service_pb2.EffectiveView.ValueType:
        """As messages take it."""
        return service_pb2.EffectiveView.ValueType(self.value)


class PolicySource(OpenEnum):
    """Which level an effective value comes from. The numbers are those of ``topicpolicies.v1.PolicySource``."""

    UNSPECIFIED = 0
    """Not said: this client is older than the service."""
    TOPIC_LOCAL = 1
    """The topic's LOCAL document."""
    TOPIC_GLOBAL = 2
    """The topic's GLOBAL document."""
    NAMESPACE = 3
    BROKER = 4
    """The brokers' configuration."""


@dataclass(frozen=True, slots=True, repr=False)
class EffectivePolicies:
    """What holds for a topic, and why."""

    topic: str
    """The topic's full name."""
    policies: TopicPolicies
    """The values that hold. A field that is unset has no value on any level."""
    sources: Mapping[str, PolicySource]
    """Where they come from, by path: a field, an entry of a map, or a leaf of the offload policies."""
    local_version: str
    """The LOCAL document's version."""
    global_version: str
    """The GLOBAL document's version."""
    disabled: bool = False
    """Whether the topic's own policies are disabled, by its property or its namespace's."""
    unconfirmed_since: datetime | None = None
    """Since when the server can't reach the change log, so that newer documents may hold; in UTC. None: it can."""

    def __repr__(self) -> str:
        told = ("topic", "policies", "sources", "local_version", "global_version", "disabled")
        return fields(self, told if self.unconfirmed_since is None else (*told, "unconfirmed_since"))

    @classmethod
    def of(cls, message: service_pb2.GetEffectivePolicyResponse, unconfirmed_since: datetime | None = None) -> EffectivePolicies:
        """From its message."""
        sources = {each.path: PolicySource(each.source) for each in message.sources}
        versions = message.local_version, message.global_version
        return cls(message.topic, message.policies, sources, *versions, message.disabled, unconfirmed_since)
