"""The effective policies of a topic, and the level that sets each of them."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from .enums import OpenEnum
from .reprs import repr_with_fields
from .v1 import service_pb2
from .v1.policies_pb2 import TopicPolicies


class EffectiveView(enum.IntEnum):
    """How the levels are combined. The numbers are those of ``topicpolicies.v1.EffectiveView``."""

    ENFORCED = 1
    """As brokers enforce them: each field is that of the first level that sets it: topic LOCAL, topic GLOBAL, namespace, broker."""
    APPLIED_LOCAL = 2
    """As the brokers' admin API answers with ``applied=true``: of the topic's documents only the LOCAL one counts."""
    APPLIED_GLOBAL = 3
    """As the admin API answers with ``applied=true`` and ``isGlobal=true``: of the topic's documents only the GLOBAL one counts."""

    @property
    def number(self) -> service_pb2.EffectiveView.ValueType:
        """The view as the enum of the generated code."""
        return service_pb2.EffectiveView.ValueType(self.value)


class PolicySource(OpenEnum):
    """The level that an effective value comes from. The numbers are those of ``topicpolicies.v1.PolicySource``."""

    UNSPECIFIED = 0
    """Not said: this client is older than the service."""
    TOPIC_LOCAL = 1
    """The topic's LOCAL document."""
    TOPIC_GLOBAL = 2
    """The topic's GLOBAL document."""
    NAMESPACE = 3
    """The namespace's policies."""
    BROKER = 4
    """The brokers' configuration."""


@dataclass(frozen=True, slots=True, repr=False)
class EffectivePolicies:
    """The effective policies of a topic, and the level that sets each of them."""

    topic: str
    """The topic's full name."""
    policies: TopicPolicies
    """The effective values. A field that is unset has no value on any level."""
    sources: Mapping[str, PolicySource]
    """The level of each value, by path: a field, an entry of a map, or a leaf of the offload policies."""
    local_version: str
    """The LOCAL document's version."""
    global_version: str
    """The GLOBAL document's version."""
    disabled: bool = False
    """Whether topic policies are disabled for this topic, by a property of the topic or its namespace; then its documents do not count."""
    unconfirmed_since: datetime | None = None
    """Since when the server can't reach the change log, so that there may be newer documents; in UTC. None: the answer is confirmed."""

    def __repr__(self) -> str:
        shown = ("topic", "policies", "sources", "local_version", "global_version", "disabled")
        return repr_with_fields(self, shown if self.unconfirmed_since is None else (*shown, "unconfirmed_since"))

    @classmethod
    def of(cls, message: service_pb2.GetEffectivePolicyResponse, unconfirmed_since: datetime | None = None) -> EffectivePolicies:
        """Makes effective policies from their message. ``unconfirmed_since``: see the attribute."""
        sources = {each.path: PolicySource(each.source) for each in message.sources}
        versions = message.local_version, message.global_version
        return cls(message.topic, message.policies, sources, *versions, message.disabled, unconfirmed_since)
