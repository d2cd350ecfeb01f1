"""Facts about the cluster from a broker's admin API, and those of many topics at once from a namespace's lists.

A client that changes the policies of thousands of topics in turn would wait for as many answers of brokers, which takes longer than the
changes. So once ``_MANY`` requests of one namespace have no answer, its topics are listed. The lists answer for topics that exist and have
no metadata of their own and, where topics need not exist, for those that do not; all others are requested one by one as before, because
they may have been created since. Where topics can't be listed, each is requested.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from topicpolicies.names import namespace_of

from ..core.errors import Kind, PolicyError
from ..core.names import PERSISTENT
from ..core.reasons import Reason
from ..logs.change_log import LogError
from ..logs.pulsar.admin import Admin, names_of, segments_of, understood
from ..logs.pulsar.facts import cluster_name, configuration
from .cache import Cache
from .levels import ClusterFacts, NamespaceFacts, TopicFacts, cluster_facts, namespace_level

_LOG = logging.getLogger(__name__)
_SECONDS = 5.0
_PSEUDO_CLUSTER = "global"
_MANY = 16
_FRESH_SECONDS = 2.0
"""How long lists are used; in the second half of that time they are requested anew."""
_MOST = 8
_REFUSED = "The brokers' limits and defaults can't be read: give the sidecar the role of a superuser of the brokers."
_PLAIN, _MISSING = TopicFacts(True, {}), TopicFacts(False, {})


class Lists(NamedTuple):
    """A namespace's topics of the domain "persistent", by their full names; the lists have no others."""

    topics: frozenset[str]
    """The topics that exist and hold messages; of a partitioned topic, its partitions."""
    partitioned: frozenset[str]
    complete: bool = True
    """Whether these are all topics; if not, they could not be listed."""


class AdminSource:
    """A source of facts that asks brokers. It is bound to the event loop on which it is first used.

    Every method raises ``LogError`` (UNAVAILABLE) if there is no answer in time.
    """

    def __init__(
        self,
        admin: Admin,
        service_url: str,
        *,
        missing_topics: bool = False,
        refuses: Callable[[], PolicyError | None] = lambda: None,
    ) -> None:
        """Sends no request yet.

        ``service_url``: where brokers are reached; if there are several clusters, it may tell which one this is. ``missing_topics``:
        whether topics that do not exist (yet) are accepted. ``refuses`` returns the error with which requests are refused now.
        """
        self._admin = admin
        self._service_url = service_url
        self._refuses = refuses
        self.name = ""
        """The local cluster's name, once it was asked for; it stays."""
        self._missing_topics = missing_topics
        self._unanswered: Counter[str] = Counter()
        """How many requests for topics of a namespace have no answer."""
        self._cached_lists = Cache(self._list, fresh_seconds=_FRESH_SECONDS, most=_MOST, now=time.monotonic)

    @understood
    async def cluster(self) -> ClusterFacts:
        """Returns the facts of the cluster and its brokers; nothing of the brokers if they refuse their configuration to the sidecar."""
        settings = await configuration(self._ask)
        self.name = await cluster_name(settings or {}, self._admin, self._service_url)
        return ClusterFacts(self.name, refused=_REFUSED) if settings is None else cluster_facts(self.name, settings)

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
        """Returns the facts of a namespace.

        Raises:
            LogError: the namespace does not exist (NOT_FOUND), or there is no answer.
        """
        if not self.name:
            await self.cluster()
        policies = await self._ask("namespaces", *namespace.split("/"))
        if policies is None or policies.get("deleted"):
            raise LogError(Reason.NAMESPACE_NOT_FOUND, f"The namespace {namespace} does not exist.", kind=Kind.NOT_FOUND)
        return NamespaceFacts(namespace_level(policies, self.name), _properties(policies))

    async def topic(self, topic: str) -> TopicFacts:
        """Returns the facts of a topic. Only its metadata is read, which loads no topic; many requests at once are answered from lists."""
        namespace = namespace_of(topic)
        lists = await self._cached_lists.get(namespace) if self._unanswered[namespace] >= _MANY else self._cached_lists.peek(namespace)
        facts = self._listed(topic, lists) if lists is not None else None
        if facts is not None:
            return facts
        self._unanswered[namespace] += 1
        try:
            return await self._one(topic)
        finally:
            self._unanswered[namespace] -= 1
            if not self._unanswered[namespace]:
                del self._unanswered[namespace]

    async def topics(self, namespace: str) -> frozenset[str]:
        """Returns the topics of a namespace, those of the domain "persistent"."""
        lists = await self._lists(namespace)
        return lists.topics | lists.partitioned

    async def close(self) -> None:
        """Ends the requests under way."""
        await self._cached_lists.close()

    @understood
    async def _one(self, topic: str) -> TopicFacts:
        answer = await self._ask(*segments_of(topic), "partitions")
        return TopicFacts(answer is not None, _properties(answer or {}))

    def _listed(self, topic: str, lists: Lists) -> TopicFacts | None:
        """Returns what the lists say about a topic; None: the topic has to be requested."""
        if topic in lists.topics and topic not in lists.partitioned:
            return _PLAIN
        known = self._missing_topics and lists.complete and topic.startswith(PERSISTENT) and topic not in lists.partitioned
        return _MISSING if known else None

    async def _list(self, namespace: str) -> Lists:
        try:
            return await self._lists(namespace)
        except PolicyError as error:
            _LOG.info("%s: its topics can't be listed, so each is requested alone: %s", namespace, error.message)
            return Lists(frozenset(), frozenset(), complete=False)

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
