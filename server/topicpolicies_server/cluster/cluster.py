"""What is known of the cluster: the facts that the rules of a request need, and whether a topic has policies at all.

Changes are admitted before they are sequenced: the facts are gathered here and travel with the request, so no later step awaits any. Recent
answers are cached, so that most requests pass at once. Updates need fresh facts and are refused without them; reads accept older ones.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from ..config import PulsarLogConfig, ServerConfig
from ..core.chains.request import Request
from ..core.changes import rules
from ..core.changes.rule_table import full_name
from ..core.errors import Kind, PolicyError
from ..core.names import PolicyKey, parse_topic
from ..core.policies.facts import Facts, Need
from ..core.reasons import Reason
from ..files import Reloader
from .cache import Cache
from .levels import PROPERTY, ClusterFacts, Levels, NamespaceFacts, TopicFacts, disabled

if TYPE_CHECKING:
    from ..logs.pulsar.admin import Admin
    from .admin import AdminSource
    from .file import FileSource

_HERE = ""
_MOST, _MOST_TENANTS = 100_000, 1_000
"""How many topics, how many namespaces, and how many tenants facts are kept of."""
_TOPICS_AT_ONCE = 16
_POLLS_PER_SECOND = 50
_CLUSTER_SECONDS, _NAMESPACE_SECONDS, _TOPIC_SECONDS = 60.0, 10.0, 60.0
"""How long facts of brokers are fresh."""
_EXISTENCE_SECONDS = 1.0
"""How long it is fresh that a topic exists: changes of a topic that was deleted are refused from then on, as the topic of that name that
comes next would get them. A topic that is changed more often waits for no answer: it is asked about while the last answer is in use."""
_FILE_SECONDS = 1.0
_Facts = TypeVar("_Facts")


class Disabled(frozenset[str]):
    """What is disabled of a selection that is watched in a namespace: those of its topics, or the namespace itself if it names none."""

    def all_of(self, topics: frozenset[str] | None) -> bool:
        """Whether everything that is watched is disabled; None: the selection is the namespace."""
        return bool(self) if topics is None else len(self) == len(topics)

    @property
    def digest(self) -> str:
        """A digest of the names, for tokens; "": nothing is disabled."""
        return hashlib.blake2b("\n".join(sorted(self)).encode(), digest_size=8).hexdigest() if self else ""


class Cluster:
    """What is known of the cluster. It is bound to one event loop."""

    def __init__(
        self,
        source: AdminSource | FileSource,
        now: Callable[[], float],
        *,
        most_seconds: float = math.inf,
        missing_topics: bool = False,
    ) -> None:
        """Knows nothing yet, and sends no request. Closes ``source`` with itself.

        ``most_seconds``: how long facts are fresh at most. ``missing_topics``: whether updates of topics that do not exist are accepted.
        """
        self.polled = 0
        """How many selections of watches are polled for what is disabled of them."""
        self._namespace_seconds = min(_NAMESPACE_SECONDS, most_seconds)
        self._source = source
        self._missing_topics = missing_topics
        self._existence_seconds = None if missing_topics else _EXISTENCE_SECONDS
        long, brief = min(_CLUSTER_SECONDS, most_seconds), self._namespace_seconds
        self._cluster: Cache[str, ClusterFacts] = Cache(lambda _: source.cluster(), fresh_seconds=long, most=1, now=now)
        self._clusters: Cache[str, Any] = Cache(lambda _: source.clusters(), fresh_seconds=long, most=1, now=now)
        self._tenants: Cache[str, Any] = Cache(source.tenant, fresh_seconds=long, most=_MOST_TENANTS, now=now)
        self._namespaces: Cache[str, NamespaceFacts] = Cache(source.namespace, fresh_seconds=brief, most=_MOST, now=now)
        self._topics: Cache[str, TopicFacts] = Cache(
            source.topic,
            fresh_seconds=min(_TOPIC_SECONDS, most_seconds),
            most=_MOST,
            now=now,
            keep=lambda facts: missing_topics or facts.exists is not False,
        )
        self._caches = (self._cluster, self._clusters, self._tenants, self._namespaces, self._topics)

    @property
    def poll_seconds(self) -> float:
        """Seconds between two polls of a selection: at most ``_POLLS_PER_SECOND`` of all together ask brokers."""
        return max(self._namespace_seconds / 2, self.polled / _POLLS_PER_SECOND)

    @property
    def name(self) -> str:
        """The cluster's name; "": it is not known, or not yet."""
        return self._source.name

    def admit(self, namespace: str, request: Request) -> Awaitable[None] | None:
        """Admits a request, and sets the facts that it needs. Returns None if all of them are known, else an awaitable that admits it.

        Raises:
            PolicyError: the cluster does not answer in time, or refuses the brokers' configuration (UNAVAILABLE); the topic
                (``TOPIC_NOT_FOUND``) or its namespace does not exist (NOT_FOUND); topic policies are off for all topics
                (FAILED_PRECONDITION, ``TOPIC_POLICIES_ELSEWHERE``) or for this one (FAILED_PRECONDITION, ``TOPIC_POLICIES_DISABLED``).
        """
        needs = rules.needs(request.change.plan) if request.change is not None else Need.NOTHING
        cluster, around = self._cluster.peek(_HERE), self._namespaces.peek(namespace)
        topic = self._topics.peek(request.key.topic, self._within(request))
        if cluster is None or around is None or topic is None or needs & (Need.CLUSTERS | Need.TENANT | Need.SHADOWS):
            return self._admit_later(namespace, request, needs)
        self._check(request, cluster, around, topic)
        if needs is not Need.NOTHING:
            request.facts = _facts(needs, cluster, around)
        return None

    async def _admit_later(self, namespace: str, request: Request, needs: Need) -> None:
        cluster, around, topic = await self._about(namespace, request.key.topic, self._within(request))
        self._check(request, cluster, around, topic)
        if request.change is None or needs is Need.NOTHING:
            return
        facts = _facts(needs, cluster, around)
        if needs & Need.CLUSTERS:
            facts = facts._replace(clusters=await self._clusters.get(_HERE))
        if needs & Need.TENANT:
            facts = facts._replace(allowed_clusters=await self._tenants.get(namespace.partition("/")[0]))
        if needs & Need.SHADOWS:
            facts = facts._replace(missing_topics=await self._missing(request.change.given.shadow_topics))
        request.facts = facts

    async def disabled(self, namespace: str, topic: str = "") -> bool:
        """Whether a topic's own policies are disabled; for reads, which accept old facts.

        ``topic`` "": whether the namespace's property disables those of topics that do not have it themselves.

        Raises:
            PolicyError: this is not known, and can't be found out.
        """
        around = self._namespaces.peek(namespace) or await self._namespaces.get(namespace, stale=True)
        if not topic:
            return bool(disabled(around.properties))
        return _disabled(around, self._topics.peek(topic) or await self._topics.get(topic, stale=True))

    async def all_topics(self, namespace: str) -> frozenset[str]:
        """Returns the topics of a namespace, by full names without partitions, as far as the source knows.

        Raises:
            PolicyError: the brokers do not answer.
        """
        return frozenset([str(parse_topic(name)) for name in await self._source.topics(namespace)])

    async def disabled_of(self, namespace: str, topics: frozenset[str] | None, *, stale: bool = False) -> Disabled:
        """Returns what is disabled of a selection that is watched (``topics`` None: the namespace).

        Where brokers do not answer, old facts are used; a topic of which there are none counts as having no property of its own.
        ``stale``: whether they are used at once, while new ones are asked for.

        Raises:
            PolicyError: what the namespace's property says is not known, and can't be found out.
        """
        around = await _latest(self._namespaces, namespace, stale=stale)
        if topics is None:
            return Disabled([namespace] if disabled(around.properties) else [])
        names, found = list(topics), []
        for begin in range(0, len(names), _TOPICS_AT_ONCE):
            some = names[begin : begin + _TOPICS_AT_ONCE]
            owns = await asyncio.gather(*(_latest(self._topics, topic, stale=stale) for topic in some), return_exceptions=True)
            known = [own if isinstance(own, TopicFacts) else TopicFacts(None, {}) for own in owns]
            found += [topic for topic, own in zip(some, known, strict=True) if _disabled(around, own)]
        return Disabled(found)

    async def levels(self, namespace: str, key: PolicyKey) -> Levels:
        """Returns what applies to a topic besides its own policies.

        Raises:
            PolicyError: the cluster does not answer (UNAVAILABLE), or the topic or namespace does not exist (NOT_FOUND).
        """
        cluster, around, topic = await self._about(namespace, key.topic, self._existence_seconds)
        if topic.exists is False and not self._missing_topics:
            raise _no_topic(key.topic)
        return Levels(_disabled(around, topic), around.policies, cluster.broker)

    async def close(self) -> None:
        """Ends the requests under way, and closes the source."""
        await asyncio.gather(*(cache.close() for cache in self._caches))
        await self._source.close()

    async def _about(self, namespace: str, topic: str, within: float | None) -> tuple[ClusterFacts, NamespaceFacts, TopicFacts]:
        return await asyncio.gather(self._cluster.get(_HERE), self._namespaces.get(namespace), self._topics.get(topic, within=within))

    def _check(self, request: Request, cluster: ClusterFacts, around: NamespaceFacts, topic: TopicFacts) -> None:
        if not cluster.topic_policies_enabled:
            raise PolicyError(
                Kind.FAILED_PRECONDITION,
                Reason.TOPIC_POLICIES_ELSEWHERE,
                "The brokers have topic policies disabled: set topicLevelPoliciesEnabled=true there.",
            )
        if _disabled(around, topic):
            problem = f'set the property {PROPERTY} to "false" on the topic or its namespace.'
            problem = f"The topic policies of {request.key.topic} are disabled: {problem}"
            raise PolicyError(Kind.FAILED_PRECONDITION, Reason.TOPIC_POLICIES_DISABLED, problem)
        if topic.exists is False and request.change is not None and not self._missing_topics:
            raise _no_topic(request.key.topic)

    def _within(self, request: Request) -> float | None:
        """Returns how old the facts of a request's topic may be: a deletion of its policies does not need the topic to exist."""
        return self._existence_seconds if request.change is not None else None

    async def _missing(self, topics: Sequence[str]) -> frozenset[str]:
        names = [name for name in map(full_name, topics) if name is not None]
        found = await asyncio.gather(*(self._topics.get(name, within=self._existence_seconds) for name in names))
        return frozenset(name for name, facts in zip(names, found, strict=True) if facts.exists is False)


def _disabled(around: NamespaceFacts, own: TopicFacts) -> bool:
    """Whether a topic's own policies are disabled, by its property or that of its namespace."""
    said = disabled(own.properties)
    return bool(disabled(around.properties) if said is None else said)


def _facts(needs: Need, cluster: ClusterFacts, around: NamespaceFacts) -> Facts:
    """Returns the facts of the cluster, the brokers and the namespace that rules need."""
    if cluster.refused and needs & Need.BROKER:
        raise PolicyError(Kind.UNAVAILABLE, Reason.CLUSTER_UNAVAILABLE, cluster.refused)
    return Facts(cluster=cluster.name, namespace=around.policies, broker=cluster.broker)


async def _latest(cache: Cache[str, _Facts], key: str, *, stale: bool) -> _Facts:
    """Returns a fresh fact; if there is none to be had, or ``stale``, the last one."""
    try:
        return await cache.get(key, stale=stale)
    except PolicyError:
        if (last := cache.last(key)) is None:
            raise
        return last


def _no_topic(topic: str) -> PolicyError:
    problem = f"{topic} does not exist: create it first."
    return PolicyError(Kind.NOT_FOUND, Reason.TOPIC_NOT_FOUND, problem, metadata={"topic": topic})


def open_cluster(
    config: ServerConfig, admin: Admin | None, reloader: Reloader, refuses: Callable[[], PolicyError | None]
) -> Cluster | None:
    """Returns what is known of the cluster: with Pulsar's log from the brokers, with the embedded log from a file, if one is configured.

    ``admin``: asks the brokers of Pulsar's log; ``refuses``: as in ``AdminSource``.

    Raises:
        RuntimeError: the file can't be used.
    """
    now, log, missing_topics = asyncio.get_running_loop().time, config.log, config.missing_topics
    if isinstance(log, PulsarLogConfig):
        from .admin import AdminSource  # noqa: PLC0415 - what a server does not use is not imported

        assert admin is not None, "a log of Pulsar has one"
        brokers = AdminSource(admin, log.service_url, missing_topics=missing_topics, refuses=refuses)
        return Cluster(brokers, now, missing_topics=missing_topics)
    if log.cluster_file is None:
        return None
    from .file import FileSource  # noqa: PLC0415

    return Cluster(FileSource(log.cluster_file, reloader), now, most_seconds=_FILE_SECONDS, missing_topics=missing_topics)
