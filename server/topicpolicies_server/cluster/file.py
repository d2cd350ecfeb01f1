"""Facts about the cluster from a file (TOML), beside the embedded log; it is read again when it changes.

docs/rules.md has an example. What is left out is not known, and rules that need it are not judged. The tables ``broker`` and ``namespaces``
have settings as ``broker.conf`` and the admin API have them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from topicpolicies.names import namespace_of

from .. import files
from ..files import Reloader
from .levels import NAMESPACE_POLICIES, SETTINGS, ClusterFacts, NamespaceFacts, TopicFacts, cluster_facts, namespace_level

_TABLES = ("clusters", "tenants", "broker", "namespaces", "topics")
_OF_TOPICS = frozenset({"partitions", "deleted", "properties"})


class _Contents(NamedTuple):
    cluster: ClusterFacts
    clusters: Mapping[str, frozenset[str]] | None
    tenants: Mapping[str, frozenset[str]]
    namespaces: Mapping[str, NamespaceFacts]
    topics: Mapping[str, TopicFacts]
    all_topics: bool


class FileSource:
    """A source of facts that reads a file, with the methods of ``AdminSource``. What the file leaves out is None."""

    def __init__(self, path: Path, reloader: Reloader) -> None:
        """Reads the file, and has ``reloader`` read it again when it changes.

        Raises:
            RuntimeError: the file can't be used.
        """
        reloader.follow("cluster file", path, lambda content: parse(content.decode()), self._take)

    @property
    def name(self) -> str:
        """The local cluster's name."""
        return self._contents.cluster.name

    async def cluster(self) -> ClusterFacts:
        """Returns the facts of the cluster and its brokers."""
        return self._contents.cluster

    async def clusters(self) -> Mapping[str, frozenset[str]] | None:
        """Returns the clusters that exist, each with its peer clusters."""
        return self._contents.clusters

    async def tenant(self, tenant: str) -> frozenset[str] | None:
        """Returns the clusters that a tenant may use."""
        return self._contents.tenants.get(tenant)

    async def namespace(self, namespace: str) -> NamespaceFacts:
        """Returns the facts of a namespace."""
        return self._contents.namespaces.get(namespace) or NamespaceFacts(None, {})

    async def topic(self, topic: str) -> TopicFacts:
        """Returns the facts of a topic."""
        return self._contents.topics.get(topic) or TopicFacts(False if self._contents.all_topics else None, {})

    async def topics(self, namespace: str) -> frozenset[str]:
        """Returns the topics of a namespace that the file names."""
        return frozenset(topic for topic in self._contents.topics if namespace_of(topic) == namespace)

    async def close(self) -> None:
        """Does nothing: the source holds no resources."""

    def _take(self, contents: _Contents) -> None:
        self._contents = contents


def parse(text: str) -> _Contents:
    """Parses the text of a cluster file.

    Raises:
        ValueError: the text is no TOML, or something in it has the wrong type.
    """
    document = files.toml(text)
    unknown = sorted(set(document) - {"cluster", "all_topics", *_TABLES})
    if unknown:
        raise ValueError(f"it has unknown keys: {', '.join(unknown)}")
    for name in _TABLES:
        if not isinstance(document.get(name, {}), dict):
            raise ValueError(f"{name} is not a table")
    parts = [("broker", document.get("broker", {}), frozenset(SETTINGS))]
    for table, known in (("namespaces", NAMESPACE_POLICIES), ("topics", _OF_TOPICS)):
        parts += [(f'{table}."{name}"', each, known) for name, each in document.get(table, {}).items() if isinstance(each, dict)]
    wrong = [f"{where}.{key} is an unknown key" for where, part, known in parts for key in part if key not in known]
    if wrong:
        raise ValueError("; ".join(wrong))
    try:
        return _contents(document)
    except (TypeError, AttributeError, KeyError) as error:
        raise ValueError(f"something in it is of the wrong kind ({error})") from error


def _contents(document: Mapping[str, Any]) -> _Contents:
    name = document.get("cluster", "")
    if not isinstance(name, str):
        raise ValueError("cluster is not a text")
    namespaces = {
        key: NamespaceFacts(namespace_level(policies, name), dict(policies.get("properties", {})))
        for key, policies in document.get("namespaces", {}).items()
    }
    topics = {key: TopicFacts(True, dict(facts.get("properties", {}))) for key, facts in document.get("topics", {}).items()}
    return _Contents(
        cluster_facts(name, document["broker"]) if "broker" in document else ClusterFacts(name),
        {key: frozenset(peers) for key, peers in document["clusters"].items()} if "clusters" in document else None,
        {key: frozenset(allowed) for key, allowed in document.get("tenants", {}).items()},
        namespaces,
        topics,
        bool(document.get("all_topics", False)),
    )
