"""The interface to what is known of a cluster. Two things implement it: a broker's admin API, and a file.

None in an answer means that the source does not know, and never will: rules that need it are not judged. A source that should know and
can't tell now raises instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from topicpolicies.v1.policies_pb2 import TopicPolicies

from ..core.policies.facts import BrokerFacts


class ClusterFacts(NamedTuple):
    """The cluster and its brokers."""

    name: str
    """The local cluster's name; "" is not known."""
    broker: BrokerFacts | None = None
    topic_policies_enabled: bool = True
    """``topicLevelPoliciesEnabled`` of the brokers."""
    refused: str = ""
    """Why nothing is known of the brokers although they could tell; empty otherwise."""


class NamespaceFacts(NamedTuple):
    """A namespace."""

    policies: TopicPolicies | None
    """Its own policies, as a document (``levels``). Never changed."""
    properties: Mapping[str, str]


class TopicFacts(NamedTuple):
    """A topic."""

    exists: bool | None
    properties: Mapping[str, str]
    """Of a partitioned topic's metadata."""


class ClusterSource(Protocol):
    """Where facts come from. Every method raises ``LogError`` (UNAVAILABLE) if the source can't be reached in time."""

    async def cluster(self) -> ClusterFacts:
        """The cluster and its brokers."""

    async def clusters(self) -> Mapping[str, frozenset[str]] | None:
        """The clusters that exist, each with its peer clusters."""

    async def tenant(self, tenant: str) -> frozenset[str] | None:
        """The clusters that a tenant may use."""

    async def namespace(self, namespace: str) -> NamespaceFacts:
        """A namespace, ``tenant/namespace``.

        Raises:
            LogError: it does not exist (NOT_FOUND), or there is no answer.
        """

    async def partitioned(self, namespace: str) -> frozenset[str]:
        """The topics of a namespace that may have properties, by their full names. There can be many more that have none."""

    async def topic(self, topic: str) -> TopicFacts:
        """A topic, by its full name. Asking creates nothing."""

    async def close(self) -> None:
        """Gives up what is held."""
