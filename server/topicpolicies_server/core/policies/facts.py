"""What is known of the cluster around the change log: what Pulsar's rules and the effective policies depend on besides the documents.

Facts are gathered before a request enters the sequencer (``cluster/``) and travel with it. What is None is not known: a rule that needs it
is not judged, because nothing is guessed; the one exception refuses (``rules.replication``). Where facts come from a broker, what is
needed is known, or the request is refused as UNAVAILABLE before it comes here.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import NamedTuple

from topicpolicies.v1.policies_pb2 import TopicPolicies


class Need(enum.Flag):
    """The kinds of facts that a rule may need."""

    NOTHING = 0
    CLUSTER = enum.auto()
    """The local cluster's name."""
    CLUSTERS = enum.auto()
    """Which clusters there are, and their peers."""
    TENANT = enum.auto()
    """The clusters that the tenant may use."""
    NAMESPACE = enum.auto()
    """The namespace's own policies."""
    BROKER = enum.auto()
    """The brokers' maxima and defaults."""
    SHADOWS = enum.auto()
    """Which of the request's shadow topics exist."""


class BrokerFacts(NamedTuple):
    """What the brokers' configuration says."""

    policies: TopicPolicies
    """Their defaults, as a document (``resolution``). Never changed."""
    max_ensemble: int | None = None
    """Most bookies of a ledger (``managedLedgerMaxEnsembleSize``)."""
    max_write_quorum: int | None = None
    """Most copies of an entry (``managedLedgerMaxWriteQuorum``)."""
    max_ack_quorum: int | None = None
    """Most acknowledgements to wait for (``managedLedgerMaxAckQuorum``)."""
    max_message_size: int | None = None
    """Largest message, in bytes (``maxMessageSize``)."""
    entry_filters: frozenset[str] | None = None
    """The entry filters that are installed. Brokers do not tell; a configuration file may."""
    filters_overridable: bool = True
    """Whether namespaces and topics may have other entry filters than the broker (``allowOverrideEntryFilters``)."""


class Facts(NamedTuple):
    """What is known for one request."""

    cluster: str = ""
    """The local cluster's name; "" is not known."""
    clusters: Mapping[str, frozenset[str]] | None = None
    """The clusters that exist, each with its peer clusters."""
    allowed_clusters: frozenset[str] | None = None
    """The clusters that the tenant may use."""
    namespace: TopicPolicies | None = None
    """The namespace's own policies, as a document. Never changed."""
    broker: BrokerFacts | None = None
    missing_topics: frozenset[str] = frozenset()
    """Of the request's shadow topics those that are known not to exist, by full name."""


UNKNOWN = Facts()
"""Nothing is known."""
