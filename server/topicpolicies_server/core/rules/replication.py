"""Rules about replication clusters (``PersistentTopicsBase.internalSetReplicationClusters``).

The first two rules protect data: a broker that reads a LOCAL list without its own cluster deletes the topic. So while the local cluster's
name is not known, LOCAL lists are refused.
"""

from __future__ import annotations

from collections.abc import Iterator

from .judging import Judged, blamed
from .values import Problem

_FIELD = "replication_clusters"
_REPLICATED = 2
"""How many clusters a replicated namespace has at least."""


def local_cluster_known(judged: Judged) -> Iterator[Problem]:
    """Checks that the local cluster's name is known, without which a LOCAL list can't be judged."""
    if judged.local and judged.policies.replication_clusters and not judged.facts.cluster:
        problem = (
            "Brokers delete the topic if a LOCAL list does not name their own cluster, and this server does not know that cluster's name:"
            " configure it (serve --cluster-file)."
        )
        yield blamed(_FIELD), problem


def local_cluster_named(judged: Judged) -> Iterator[Problem]:
    """Checks that a LOCAL list names the local cluster."""
    clusters, local = judged.policies.replication_clusters, judged.facts.cluster
    if judged.local and clusters and local and local not in clusters:
        problem = f'The list does not name the local cluster "{local}", so brokers would delete the topic: add it, or clear the list.'
        yield blamed(_FIELD), problem


def namespace_replicated(judged: Judged) -> Iterator[Problem]:
    """Checks that the namespace of a GLOBAL list is replicated."""
    namespace = judged.facts.namespace
    if judged.local or namespace is None or not judged.policies.replication_clusters:
        return
    if len(namespace.replication_clusters) < _REPLICATED:
        yield blamed(_FIELD), "The namespace is not replicated, so a GLOBAL list would have no effect: replicate the namespace first."


def clusters_of_namespace(judged: Judged) -> Iterator[Problem]:
    """Checks that a GLOBAL list names only clusters of the namespace."""
    namespace = judged.facts.namespace
    if not judged.local and namespace is not None and len(namespace.replication_clusters) >= _REPLICATED:
        replicated = frozenset(namespace.replication_clusters)
        for name in judged.policies.replication_clusters:
            if name not in replicated:
                yield blamed(_FIELD), f'The namespace is not replicated to "{name}", so a GLOBAL list can\'t name it: leave it out.'


def clusters_exist(judged: Judged) -> Iterator[Problem]:
    """Checks that all clusters exist."""
    if judged.facts.clusters is not None:
        for name in judged.policies.replication_clusters:
            if name not in judged.facts.clusters:
                yield blamed(_FIELD), f'The cluster "{name}" does not exist: create it, or leave it out.'


def no_peers(judged: Judged) -> Iterator[Problem]:
    """Checks that no two clusters are peers of each other."""
    peers = judged.facts.clusters
    if peers is None:
        return
    named = frozenset(judged.policies.replication_clusters)  # made once: a list may have thousands of clusters
    for name in judged.policies.replication_clusters:
        for peer in sorted(peers.get(name, frozenset()) & named):
            yield blamed(_FIELD), f'"{peer}" is a peer cluster of "{name}", so both can\'t be in one list: leave one out.'


def clusters_allowed(judged: Judged) -> Iterator[Problem]:
    """Checks that the tenant may use all clusters."""
    allowed = judged.facts.allowed_clusters
    if allowed is not None:
        for name in judged.policies.replication_clusters:
            if name not in allowed:
                yield blamed(_FIELD), f'The tenant {judged.tenant} may not use the cluster "{name}": allow it, or leave it out.'
