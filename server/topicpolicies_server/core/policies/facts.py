"""Facts: what is known of the cluster, and Pulsar's rules and the effective policies depend on besides the documents.

Facts are gathered before a request enters the sequencer (``cluster/``), and travel with the request. A fact that is None is not known, and
rules that need it are skipped, because nothing is guessed; the one exception is a rule that refuses then (``changes/rule_table``). Where
facts come from a broker, a request whose facts can't be had is refused as UNAVAILABLE before it comes here.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import NamedTuple

from topicpolicies.v1.policies_pb2 import TopicPolicies


class Need(enum.Flag):
    """The kinds of facts that rules need."""

    NOTHING = 0
    CLUSTER = enum.auto()
    """The local cluster's name."""
    CLUSTERS = enum.auto()
    """The clusters that exist, and their peers."""
    TENANT = enum.auto()
    """The clusters that the tenant may use."""
    NAMESPACE = enum.auto()
    """The namespace's own policies."""
    BROKER = enum.auto()
    """The limits and defaults in the brokers' configuration."""
    SHADOWS = enum.auto()
    """Whether the request's shadow topics exist."""


class BrokerFacts(NamedTuple):
    """The configuration of the brokers, as far as it is known."""

    policies: TopicPolicies
    """The brokers' defaults, as a document (``resolution``). Must not be changed."""
    max_ensemble: int | None = None
    """The largest ensemble of a ledger, in bookies (``managedLedgerMaxEnsembleSize``)."""
    max_write_quorum: int | None = None
    """The largest write quorum: copies of an entry (``managedLedgerMaxWriteQuorum``)."""
    max_ack_quorum: int | None = None
    """The largest ack quorum: acknowledgements to wait for (``managedLedgerMaxAckQuorum``)."""
    max_message_size: int | None = None
    """The largest message, in bytes (``maxMessageSize``)."""
    entry_filters: frozenset[str] | None = None
    """The entry filters that are installed. Brokers do not report them; a configuration file may name them."""
    filters_overridable: bool = True
    """Whether namespaces and topics may have other entry filters than the broker (``allowOverrideEntryFilters``)."""


class Facts(NamedTuple):
    """The facts for one request."""

    cluster: str = ""
    """The local cluster's name; "": not known."""
    clusters: Mapping[str, frozenset[str]] | None = None
    """The clusters that exist, each with its peer clusters."""
    allowed_clusters: frozenset[str] | None = None
    """The clusters that the tenant may use."""
    namespace: TopicPolicies | None = None
    """The namespace's own policies, as a document. Must not be changed."""
    broker: BrokerFacts | None = None
    missing_topics: frozenset[str] = frozenset()
    """The request's shadow topics that are known not to exist, by full name."""


UNKNOWN = Facts()
"""No fact is known."""
