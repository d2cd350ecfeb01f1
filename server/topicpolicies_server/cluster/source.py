"""The interface of a source of facts about a cluster. It has two implementations: a broker's admin API, and a file.

None in an answer means that the source does not know, and never will: rules that need the fact are not judged. A source that should know
but can't answer now raises instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from topicpolicies.v1.policies_pb2 import TopicPolicies

from ..core.policies.facts import BrokerFacts

PROPERTY = "__topic_policies_disabled"
"""A property of a namespace, or of a partitioned topic's metadata, which takes precedence over its namespace's."""


def disabled(properties: Mapping[str, str]) -> bool | None:
    """Whether properties disable topic policies; None: they do not say, as a value other than ``true`` and ``false`` does not."""
    return {"true": True, "false": False}.get(properties.get(PROPERTY, ""))


class ClusterFacts(NamedTuple):
    """Facts about the cluster and its brokers."""

    name: str
    """The local cluster's name; "": not known."""
    broker: BrokerFacts | None = None
    topic_policies_enabled: bool = True
    """``topicLevelPoliciesEnabled`` of the brokers."""
    refused: str = ""
    """Why nothing is known of the brokers although they exist; "": it is known, or there are no brokers."""


class NamespaceFacts(NamedTuple):
    """Facts about a namespace."""

    policies: TopicPolicies | None
    """The namespace's own policies, as a document (``levels``). Must not be changed."""
    properties: Mapping[str, str]


class TopicFacts(NamedTuple):
    """Facts about a topic."""

    exists: bool | None
    properties: Mapping[str, str]
    """The properties of a partitioned topic's metadata."""


class ClusterSource(Protocol):
    """A source of facts. Every method raises ``LogError`` (UNAVAILABLE) if the source can't be reached in time."""

    @property
    def name(self) -> str:
        """The local cluster's name, as the source knows it without asking; "": it does not."""

    async def cluster(self) -> ClusterFacts:
        """Returns the facts of the cluster and its brokers."""

    async def clusters(self) -> Mapping[str, frozenset[str]] | None:
        """Returns the clusters that exist, each with its peer clusters."""

    async def tenant(self, tenant: str) -> frozenset[str] | None:
        """Returns the clusters that a tenant may use."""

    async def namespace(self, namespace: str) -> NamespaceFacts:
        """Returns the facts of a namespace, ``tenant/namespace``.

        Raises:
            LogError: the namespace does not exist (NOT_FOUND), or there is no answer.
        """

    async def topic(self, topic: str) -> TopicFacts:
        """Returns the facts of a topic, by its full name. Creates nothing."""

    async def topics(self, namespace: str) -> frozenset[str]:
        """Returns the topics of a namespace, by full names, partitions among them; empty: they are not known."""

    async def close(self) -> None:
        """Releases the source's resources."""
