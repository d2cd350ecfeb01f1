"""The table of all rules: each has its field, reason, error kind, statement and check function, and the facts that it needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import NamedTuple

from ..errors import Kind, Violation
from ..policies.facts import Need
from ..reasons import ViolationReason
from . import checks
from .checks import Check, Judged


class Rule(NamedTuple):
    """One rule."""

    field: str
    """The field of ``TopicPolicies`` (or the group of settings) that the rule is about."""
    reason: ViolationReason
    """The machine-readable reason of violations."""
    kind: Kind
    """INVALID_ARGUMENT if a violation does not depend on the cluster, else FAILED_PRECONDITION."""
    statement: str
    """What the rule demands, in words."""
    check: Check
    """Yields a problem for each violation."""
    needs: Need = Need.NOTHING
    """The facts that the rule needs to be judged."""

    def violations(self, judged: Judged) -> Iterator[Violation]:
        """Yields the violations of this rule by a document, at most ``MOST_VIOLATIONS``."""
        for field, description in islice(self.check(judged), MOST_VIOLATIONS):
            yield Violation(field, self.reason, description)


MOST_VIOLATIONS = 1_000
"""The most violations of one rule that are looked for: an error names far fewer, and making very many would hold up the event loop."""
_WRONG, _NOT_HERE = Kind.INVALID_ARGUMENT, Kind.FAILED_PRECONDITION
_NUMBERS = (
    "message_ttl_in_seconds",
    "subscription_expiration_time_in_minutes",
    "max_producer_per_topic",
    "max_consumer_per_topic",
    "max_consumers_per_subscription",
    "max_subscriptions_per_topic",
    "max_unacked_messages_on_consumer",
    "max_unacked_messages_on_subscription",
    "max_message_size",
    "compaction_threshold",
    "deduplication_snapshot_interval_seconds",
)
_PERSISTENCE, _RETENTION, _QUOTAS = "persistence", "retention_policies", "back_log_quota_map"
_CLUSTERS, _SHADOWS, _FILTERS, _OFFLOAD = "replication_clusters", "shadow_topics", "entry_filters", "offload_policies"
_STRATEGY = "schema_compatibility_strategy"
_TOGETHER = Need.NAMESPACE | Need.BROKER

RULES: tuple[Rule, ...] = (
    *(Rule(field, ViolationReason.NEGATIVE, _WRONG, "0 or more", checks.not_negative(field)) for field in _NUMBERS),
    Rule(
        "max_message_size",
        ViolationReason.ABOVE_BROKER_MAXIMUM,
        _NOT_HERE,
        "at most the brokers' maxMessageSize",
        checks.message_size_fits,
        Need.BROKER,
    ),
    Rule(_RETENTION, ViolationReason.BELOW_MINUS_ONE, _WRONG, "each limit is -1 or more", checks.retention_limits),
    Rule(_RETENTION, ViolationReason.HALF_ZERO, _WRONG, "both limits are 0 or none is", checks.retention_both_zero),
    Rule(
        _RETENTION,
        ViolationReason.RETENTION_BELOW_QUOTA,
        _NOT_HERE,
        "larger than each backlog quota",
        checks.retention_above_quota,
        _TOGETHER,
    ),
    Rule(_QUOTAS, ViolationReason.QUOTA_ABOVE_RETENTION, _NOT_HERE, "smaller than retention", checks.quota_below_retention, _TOGETHER),
    Rule(_PERSISTENCE, ViolationReason.NOT_POSITIVE, _WRONG, "ensemble and quorums are above 0", checks.quorums_positive),
    Rule(_PERSISTENCE, ViolationReason.QUORUM_ORDER, _WRONG, "ensemble >= write quorum >= ack quorum", checks.quorums_ordered),
    Rule(_PERSISTENCE, ViolationReason.ABOVE_BROKER_MAXIMUM, _NOT_HERE, "at most the brokers' maxima", checks.quorums_fit, Need.BROKER),
    Rule(
        _CLUSTERS,
        ViolationReason.LOCAL_CLUSTER_UNKNOWN,
        _NOT_HERE,
        "LOCAL: the local cluster's name is known",
        checks.local_cluster_known,
        Need.CLUSTER,
    ),
    Rule(
        _CLUSTERS,
        ViolationReason.LOCAL_CLUSTER_MISSING,
        _NOT_HERE,
        "LOCAL: names the local cluster",
        checks.local_cluster_named,
        Need.CLUSTER,
    ),
    Rule(
        _CLUSTERS,
        ViolationReason.NAMESPACE_NOT_REPLICATED,
        _NOT_HERE,
        "GLOBAL: the namespace has two clusters or more",
        checks.namespace_replicated,
        Need.NAMESPACE,
    ),
    Rule(
        _CLUSTERS,
        ViolationReason.CLUSTER_NOT_IN_NAMESPACE,
        _NOT_HERE,
        "GLOBAL: only clusters of the namespace",
        checks.clusters_of_namespace,
        Need.NAMESPACE,
    ),
    Rule(_CLUSTERS, ViolationReason.UNKNOWN_CLUSTER, _NOT_HERE, "only clusters that exist", checks.clusters_exist, Need.CLUSTERS),
    Rule(_CLUSTERS, ViolationReason.PEER_CLUSTERS, _NOT_HERE, "no two clusters that are peers", checks.no_peers, Need.CLUSTERS),
    Rule(
        _CLUSTERS,
        ViolationReason.CLUSTER_NOT_ALLOWED,
        _NOT_HERE,
        "only clusters that the tenant may use",
        checks.clusters_allowed,
        Need.TENANT,
    ),
    Rule(_SHADOWS, ViolationReason.LOCAL_SCOPE_ONLY, _WRONG, "LOCAL scope only", checks.local_only(_SHADOWS)),
    Rule(_SHADOWS, ViolationReason.NOT_PERSISTENT, _WRONG, "the topic itself is persistent", checks.source_persistent),
    Rule(_SHADOWS, ViolationReason.MALFORMED_NAME, _WRONG, "names of topics", checks.names_valid),
    Rule(_SHADOWS, ViolationReason.SHADOW_NOT_PERSISTENT, _WRONG, "persistent topics", checks.shadows_persistent),
    Rule(_SHADOWS, ViolationReason.SHADOW_NOT_FOUND, _NOT_HERE, "topics that exist", checks.shadows_exist, Need.SHADOWS),
    Rule(_STRATEGY, ViolationReason.LOCAL_SCOPE_ONLY, _WRONG, "LOCAL scope only", checks.local_only(_STRATEGY)),
    Rule(_FILTERS, ViolationReason.BLANK, _WRONG, "names at least one filter", checks.entry_filters_named),
    Rule(_FILTERS, ViolationReason.UNKNOWN_ENTRY_FILTER, _NOT_HERE, "filters that are installed", checks.entry_filters_known, Need.BROKER),
    Rule(_OFFLOAD, ViolationReason.UNKNOWN_DRIVER, _WRONG, "a driver that brokers know", checks.offload_driver),
    Rule(_OFFLOAD, ViolationReason.NO_BUCKET, _WRONG, "a bucket, unless the driver is filesystem", checks.offload_bucket),
    Rule("subscription_policies", ViolationReason.NO_LIMIT, _WRONG, "a rate limits something", checks.subscription_rate_says_something),
)
"""All rules. Checks that follow from a field's type come before (``core/changes/completion``)."""

RULES_OF: Mapping[str, tuple[Rule, ...]] = {
    name: tuple(rule for rule in RULES if rule.field == name) for name in {rule.field for rule in RULES}
}
"""The rules of each field. A comparison of two fields is two rules, one of each field."""
COUNTS: frozenset[str] = frozenset(
    name for name, rules in RULES_OF.items() if [rule.reason for rule in rules] == [ViolationReason.NEGATIVE]
)
"""The fields whose only rule is that a number is not negative. Each is a setting of its own."""
SHORTEST_NEGATIVE = 11
"""The size, in bytes, of the shortest setting that is a negative number: ten bytes for the number, and at least one for the field's tag."""
RULED: frozenset[str] = frozenset(RULES_OF)
"""The fields that have a rule."""
