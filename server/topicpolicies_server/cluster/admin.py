"""Facts about the cluster from a broker's admin API."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

from ..core.errors import Kind, PolicyError
from ..core.reasons import LogState, Reason
from ..logs.change_log import LogError
from ..logs.pulsar.admin import Admin, names_of, understood
from ..logs.pulsar.facts import learn
from .brokers import Configuration, broker_facts
from .levels import namespace_level
from .listing import Lists, TopicLookups
from .source import ClusterFacts, NamespaceFacts, TopicFacts

_SECONDS = 5.0
"""How long a request is repeated while brokers do not answer."""
_PSEUDO_CLUSTER = "global"


class AdminSource:
    """A source of facts that asks brokers (``source.ClusterSource``). It is bound to the event loop on which it is first used."""

    def __init__(
        self,
        admin: Admin,
        service_url: str,
        *,
        missing_topics: bool = False,
        refuses: Callable[[], PolicyError | None] = lambda: None,
    ) -> None:
        """Creates the source; sends no request yet.

        Args:
            admin: the brokers' admin API. It is closed with the source.
            service_url: where brokers are reached; if there are several clusters, it may tell which one this is.
            missing_topics: whether topics that do not exist (yet) are accepted.
            refuses: returns the error with which requests are refused now; None: they can be sent.
        """
        self._admin = admin
        self._service_url = service_url
        self._refuses = refuses
        self._name = ""
        self._lookups = TopicLookups(self._one, self._lists, time.monotonic, missing_topics=missing_topics)

    async def cluster(self) -> ClusterFacts:
        """Returns the facts of the cluster and its brokers; nothing of the brokers if they refuse their configuration to the sidecar."""
        self._name = (await learn(self._admin, self._service_url)).name
        try:
            settings = await self._ask("brokers", "configuration", "runtime")
        except LogError as error:
            if error.state is not LogState.ADMIN_REFUSED:
                raise
            problem = f"The brokers' limits and defaults can't be read: give the sidecar a role that may read them ({error.message})"
            return ClusterFacts(self._name, refused=problem)
        try:
            configuration = Configuration(settings)
            return ClusterFacts(self._name, broker_facts(configuration), configuration["topicLevelPoliciesEnabled"])
        except (ValueError, TypeError, AttributeError) as error:
            raise LogError(LogState.ADMIN_UNREACHABLE, f"The brokers' configuration can't be understood: {error}.") from error

    @understood
    async def clusters(self) -> Mapping[str, frozenset[str]] | None:
        """Returns the clusters that exist, each with its peer clusters."""
        names = [name for name in names_of(await self._ask("clusters")) if name != _PSEUDO_CLUSTER]
        found = await asyncio.gather(*(self._ask("clusters", name) for name in names))
        return {name: frozenset(names_of((data or {}).get("peerClusterNames"))) for name, data in zip(names, found, strict=True)}

    @understood
    async def tenant(self, tenant: str) -> frozenset[str] | None:
        """Returns the clusters that a tenant may use."""
        return frozenset(names_of((await self._ask("tenants", tenant) or {}).get("allowedClusters")))

    @understood
    async def namespace(self, namespace: str) -> NamespaceFacts:
        """Returns the facts of a namespace (see ``source.ClusterSource.namespace``)."""
        if not self._name:
            await self.cluster()
        policies = await self._ask("namespaces", *namespace.split("/"))
        if policies is None or policies.get("deleted"):
            raise LogError(Reason.NAMESPACE_NOT_FOUND, f"The namespace {namespace} does not exist.", kind=Kind.NOT_FOUND)
        return NamespaceFacts(namespace_level(policies, self._name), _properties(policies))

    async def topic(self, topic: str) -> TopicFacts:
        """Returns the facts of a topic. Only its metadata is read, which loads no topic; many requests at once are answered from lists."""
        return await self._lookups.topic(topic)

    async def close(self) -> None:
        """Ends the requests under way and closes the connections."""
        await self._lookups.close()
        await self._admin.close()

    @understood
    async def _one(self, topic: str) -> TopicFacts:
        domain, _, rest = topic.partition("://")
        answer = await self._ask(domain, *rest.split("/", 2), "partitions")
        return TopicFacts(answer is not None, _properties(answer or {}))

    @understood
    async def _lists(self, namespace: str) -> Lists:
        path = ("persistent", *namespace.split("/"))
        topics, partitioned = await asyncio.gather(self._ask(*path), self._ask(*path, "partitioned"))
        return Lists(frozenset(names_of(topics)), frozenset(names_of(partitioned)))

    async def _ask(self, *path: str) -> Any:
        if (error := self._refuses()) is not None:
            raise error
        return await self._admin.get(*path, seconds=_SECONDS)


def _properties(answer: Any) -> Mapping[str, Any]:
    properties = answer.get("properties") or {}
    if not isinstance(properties, dict):
        raise TypeError("no properties")
    return properties
