"""A source of facts that the test controls."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping

from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies_server.cluster.file import FileSource
from topicpolicies_server.cluster.levels import ClusterFacts, NamespaceFacts, TopicFacts
from topicpolicies_server.core.policies.facts import BrokerFacts
from topicpolicies_server.core.reasons import LogState
from topicpolicies_server.logs.change_log import LogError


class FakeSource(FileSource):
    """Answers as the test sets it, and counts the requests."""

    def __init__(self) -> None:  # it has no file
        self.facts = ClusterFacts("here", BrokerFacts(TopicPolicies(), max_message_size=1000))
        self.properties: dict[str, dict[str, str]] = {}
        self.missing: set[str] = set()
        self.asked: Counter[str] = Counter()
        self.down = False
        self.gates: dict[str, asyncio.Event] = {}
        """Requests about these wait for the event."""
        self.closed = False

    @property
    def name(self) -> str:
        return self.facts.name

    async def cluster(self) -> ClusterFacts:
        await self._answer("cluster")
        return self.facts

    async def clusters(self) -> Mapping[str, frozenset[str]] | None:
        await self._answer("clusters")
        return {"here": frozenset(), "there": frozenset()}

    async def tenant(self, tenant: str) -> frozenset[str] | None:
        await self._answer(tenant)
        return frozenset({"here"})

    async def namespace(self, namespace: str) -> NamespaceFacts:
        await self._answer(namespace)
        return NamespaceFacts(TopicPolicies(replication_clusters=["here"]), dict(self.properties.get(namespace, {})))

    async def topic(self, topic: str) -> TopicFacts:
        await self._answer(topic)
        return TopicFacts(topic not in self.missing, dict(self.properties.get(topic, {})))

    async def topics(self, namespace: str) -> frozenset[str]:
        await self._answer(namespace)
        return frozenset()

    async def close(self) -> None:
        self.closed = True

    async def _answer(self, about: str) -> None:
        self.asked[about] += 1
        if about in self.gates:
            await self.gates[about].wait()
        await asyncio.sleep(0)
        if self.down:
            raise LogError(LogState.ADMIN_UNREACHABLE, "The brokers do not answer.")
