"""All rules: each is a check, with its field, reason, error kind and statement, and the facts that it needs.

A check looks at a document after a change in which its field is set, and yields a problem for each violation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import NamedTuple, TypeAlias

from topicpolicies.masks import format_path
from topicpolicies.v1.policies_pb2 import BacklogQuota, OffloadPolicies, RetentionPolicies, TopicPolicies

from ..errors import Kind, PolicyError, Violation
from ..names import PERSISTENT, PolicyKey, Scope, parse_topic
from ..policies.documents import LISTS, MAPS, Document, Setting, join
from ..policies.facts import Facts, Need
from ..policies.resolution import limits_dispatch
from ..reasons import ViolationReason

MOST_VIOLATIONS = 1_000
"""The most violations of one rule that are looked for: an error names far fewer, and making very many would hold up the event loop."""
_RETENTION, _QUOTAS, _CLUSTERS, _SHADOWS = "retention_policies", "back_log_quota_map", "replication_clusters", "shadow_topics"
_QUOTA_KINDS = ("destination_storage", "message_age")
_COMPARED = (_RETENTION, *(f"{_QUOTAS}/{kind}" for kind in _QUOTA_KINDS))
"""Settings that rules compare: if one of them changed, all are parsed."""


class Judged:
    """A document after a change, parsed as far as rules need it."""

    def __init__(self, key: PolicyKey, changed: Sequence[Setting], after: Document, facts: Facts) -> None:
        """Parses only the settings that rules will look at. ``changed``: those that the change alters, among those that have rules."""
        self.key = key
        self.changed = frozenset(changed)
        self.facts = facts
        looked_at = dict.fromkeys((*changed, *(_COMPARED if not self.changed.isdisjoint(_COMPARED) else ())))
        self.policies: TopicPolicies = join({setting: after[setting] for setting in looked_at if setting in after})

    @property
    def local(self) -> bool:
        """Whether this is the LOCAL document."""
        return self.key.scope is Scope.LOCAL

    @cached_property
    def tenant(self) -> str:
        """The topic's tenant."""
        return parse_topic(self.key.topic).tenant

    def has(self, field: str) -> bool:
        """Returns whether a field is set."""
        if field in LISTS or field in MAPS:
            return bool(getattr(self.policies, field))
        return self.policies.HasField(field)  # type: ignore[arg-type]


Problem: TypeAlias = tuple[str, str]
"""The request's field that violates a rule, and a sentence that says what is wrong and what to do."""
Check: TypeAlias = Callable[[Judged], Iterator[Problem]]


class Rule(NamedTuple):
    """One rule."""

    field: str
    """The field of ``TopicPolicies`` that the rule is about."""
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
    of_absence: bool = False
    """Whether the rule is also about a document without the field."""

    def violations(self, judged: Judged) -> Iterator[Violation]:
        """Yields the violations of this rule by a document, at most ``MOST_VIOLATIONS``."""
        if self.of_absence or judged.has(self.field):
            for field, description in islice(self.check(judged), MOST_VIOLATIONS):
                yield Violation(field, self.reason, description)


_RULES: list[Rule] = []


def _rule(
    field: str, reason: ViolationReason, statement: str, needs: Need | None = None, *, of_absence: bool = False
) -> Callable[[Check], Check]:
    """Makes a check a rule. ``needs``: None if violations do not depend on the cluster."""

    def add(check: Check) -> Check:
        kind = Kind.INVALID_ARGUMENT if needs is None else Kind.FAILED_PRECONDITION
        _RULES.append(Rule(field, reason, kind, statement, check, needs or Need.NOTHING, of_absence))
        return check

    return add


def _blamed(*path: str) -> str:
    return f"policies.{format_path(path)}"


# --- a single setting (``PersistentTopicsBase``, ``AdminResource``) ---

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
_DRIVERS = ("S3", "aws-s3", "google-cloud-storage", "filesystem", "azureblob", "aliyun-oss")
"""The offload drivers that every broker knows (``OffloadPoliciesImpl.INTERNAL_SUPPORTED_DRIVER``)."""
_BUCKET_OF = {
    "s3": "s3_managed_ledger_offload_bucket",
    "aws-s3": "s3_managed_ledger_offload_bucket",
    "google-cloud-storage": "gcs_managed_ledger_offload_bucket",
}
_QUORUMS = (
    ("bookkeeper_ensemble", "max_ensemble"),
    ("bookkeeper_write_quorum", "max_write_quorum"),
    ("bookkeeper_ack_quorum", "max_ack_quorum"),
)


def _not_negative(field: str) -> Check:
    def check(judged: Judged) -> Iterator[Problem]:
        value = getattr(judged.policies, field)
        if value < 0:
            yield _blamed(field), f"{field} is {value}: give 0 or more, or clear it."

    return check


for _field in _NUMBERS:
    _rule(_field, ViolationReason.NEGATIVE, "0 or more")(_not_negative(_field))


@_rule("max_message_size", ViolationReason.ABOVE_BROKER_MAXIMUM, "at most the brokers' maxMessageSize", Need.BROKER)
def _message_size_fits(judged: Judged) -> Iterator[Problem]:
    most = judged.facts.broker.max_message_size if judged.facts.broker is not None else None
    size = judged.policies.max_message_size
    if most is not None and size > most:
        problem = f"max_message_size is {size}, and the brokers accept at most {most} bytes: give no more than that."
        yield _blamed("max_message_size"), problem


@_rule("persistence", ViolationReason.NOT_POSITIVE, "ensemble and quorums are above 0")
def _quorums_positive(judged: Judged) -> Iterator[Problem]:
    for leaf, _ in _QUORUMS:
        value = getattr(judged.policies.persistence, leaf)
        if value <= 0:
            yield _blamed("persistence", leaf), f"{leaf} is {value}: at least 1 is needed."


@_rule("persistence", ViolationReason.QUORUM_ORDER, "ensemble >= write quorum >= ack quorum")
def _quorums_ordered(judged: Judged) -> Iterator[Problem]:
    one = judged.policies.persistence
    if not one.bookkeeper_ensemble >= one.bookkeeper_write_quorum >= one.bookkeeper_ack_quorum:
        figures = f"{one.bookkeeper_ensemble}, {one.bookkeeper_write_quorum} and {one.bookkeeper_ack_quorum}"
        problem = f"Ensemble, write quorum and ack quorum are {figures}: none of them may be greater than the one before."
        yield _blamed("persistence"), problem


@_rule("persistence", ViolationReason.ABOVE_BROKER_MAXIMUM, "at most the brokers' maxima", Need.BROKER)
def _quorums_fit(judged: Judged) -> Iterator[Problem]:
    for leaf, maximum in _QUORUMS if judged.facts.broker is not None else ():
        value, most = getattr(judged.policies.persistence, leaf), getattr(judged.facts.broker, maximum)
        if most is not None and value > most:
            yield _blamed("persistence", leaf), f"{leaf} is {value}, and the brokers allow at most {most}: give no more than that."


@_rule("entry_filters", ViolationReason.BLANK, "names at least one filter")
def _entry_filters_named(judged: Judged) -> Iterator[Problem]:
    if not _filters(judged):
        problem = "No entry filter is named: name some, separated by commas, or clear entry_filters."
        yield _blamed("entry_filters", "entry_filter_names"), problem


@_rule("entry_filters", ViolationReason.UNKNOWN_ENTRY_FILTER, "filters that are installed", Need.BROKER)
def _entry_filters_known(judged: Judged) -> Iterator[Problem]:
    broker = judged.facts.broker
    if broker is not None and broker.entry_filters is not None:
        for name in _filters(judged):
            if name not in broker.entry_filters:
                problem = f'The entry filter "{name}" is not installed on the brokers: install it, or leave it out.'
                yield _blamed("entry_filters", "entry_filter_names"), problem


def _filters(judged: Judged) -> list[str]:
    names = map(str.strip, judged.policies.entry_filters.entry_filter_names.split(","))
    return list(filter(None, dict.fromkeys(names)))


@_rule("offload_policies", ViolationReason.UNKNOWN_DRIVER, "a driver that brokers know")
def _offload_driver(judged: Judged) -> Iterator[Problem]:
    driver = judged.policies.offload_policies.managed_ledger_offload_driver
    if driver.lower() not in map(str.lower, _DRIVERS):
        told = f'"{driver}" is not an offload driver' if driver else "No offload driver is named"
        yield _blamed("offload_policies", "managed_ledger_offload_driver"), f"{told}: give one of {', '.join(_DRIVERS)}."


@_rule("offload_policies", ViolationReason.NO_BUCKET, "a bucket, unless the driver is filesystem")
def _offload_bucket(judged: Judged) -> Iterator[Problem]:
    offload = judged.policies.offload_policies
    driver = offload.managed_ledger_offload_driver.lower()
    if driver in map(str.lower, _DRIVERS) and driver != "filesystem" and not _has_bucket(offload, driver):
        problem = f'The offload driver "{driver}" needs a bucket: give managed_ledger_offload_bucket.'
        yield _blamed("offload_policies", "managed_ledger_offload_bucket"), problem


def _has_bucket(offload: OffloadPolicies, driver: str) -> bool:
    own = _BUCKET_OF.get(driver)
    return bool(offload.managed_ledger_offload_bucket or (own is not None and getattr(offload, own)))


@_rule("subscription_policies", ViolationReason.NO_LIMIT, "a rate limits something")
def _subscription_rate_limits(judged: Judged) -> Iterator[Problem]:
    entries = judged.policies.subscription_policies
    for name in sorted(entries):
        if entries[name].HasField("dispatch_rate") and not limits_dispatch(entries[name].dispatch_rate):
            problem = "A subscription's rate without any limit is ignored by brokers: give a limit above 0, or clear the entry."
            yield _blamed("subscription_policies", name, "dispatch_rate"), problem


@_rule("schema_compatibility_strategy", ViolationReason.LOCAL_SCOPE_ONLY, "LOCAL scope only")
def _strategy_local(judged: Judged) -> Iterator[Problem]:
    if not judged.local and judged.policies.schema_compatibility_strategy:
        yield _blamed("schema_compatibility_strategy"), "schema_compatibility_strategy exists in the LOCAL scope only: set it there."


# --- retention and backlog quotas: a quota must be below retention (``AdminResource.checkBacklogQuota``) ---
#
# A quota that is set is compared with the retention of the same document, else with that of the namespace. If a quota is removed, the
# brokers' default quota is compared instead. Retention that is set is compared with each quota of the same document, else with that of the
# namespace, else with the brokers' default. Both limits of a quota are compared, whatever its type.

_MEGABYTE = 1024 * 1024
_TOGETHER = Need.NAMESPACE | Need.BROKER


@_rule(_RETENTION, ViolationReason.BELOW_MINUS_ONE, "each limit is -1 or more")
def _retention_limits(judged: Judged) -> Iterator[Problem]:
    for leaf in ("retention_time_in_minutes", "retention_size_in_mb"):
        value = getattr(judged.policies.retention_policies, leaf)
        if value < -1:
            yield _blamed(_RETENTION, leaf), f"{leaf} is {value}: give -1 for no limit, 0, or more."


@_rule(_RETENTION, ViolationReason.HALF_ZERO, "both limits are 0 or none is")
def _retention_both_zero(judged: Judged) -> Iterator[Problem]:
    retention = judged.policies.retention_policies
    if (retention.retention_time_in_minutes == 0) != (retention.retention_size_in_mb == 0):
        problem = "One limit of retention is 0 and the other is not: give -1 for no limit, or set both to 0 to keep nothing."
        yield _blamed(_RETENTION), problem


@_rule(_RETENTION, ViolationReason.RETENTION_BELOW_QUOTA, "larger than each backlog quota", _TOGETHER)
def _retention_above_quota(judged: Judged) -> Iterator[Problem]:
    if _RETENTION not in judged.changed:
        return
    for kind in _QUOTA_KINDS:
        if f"{_QUOTAS}/{kind}" not in judged.changed:  # else ``_quota_below_retention`` reports it
            quota = _quota(kind, judged.policies, judged.facts.namespace, _default(judged))
            if quota is not None and (clash := _clash(quota, judged.policies.retention_policies)):
                yield _blamed(_RETENTION), f"The backlog quota {kind} {clash}: raise retention, or lower the quota first."


@_rule(_QUOTAS, ViolationReason.QUOTA_ABOVE_RETENTION, "smaller than retention", _TOGETHER, of_absence=True)
def _quota_below_retention(judged: Judged) -> Iterator[Problem]:
    namespace = judged.facts.namespace
    retention = _retention(judged.policies) or (_retention(namespace) if namespace is not None else None)
    for kind in _QUOTA_KINDS if retention is not None else ():
        if f"{_QUOTAS}/{kind}" in judged.changed:
            quota = _quota(kind, judged.policies, _default(judged))
            if quota is not None and retention is not None and (clash := _clash(quota, retention)):
                yield _blamed(_QUOTAS, kind), f"The backlog quota {kind} {clash}: lower the quota, or raise retention first."


def _retention(policies: TopicPolicies) -> RetentionPolicies | None:
    return policies.retention_policies if policies.HasField("retention_policies") else None


def _default(judged: Judged) -> TopicPolicies | None:
    return judged.facts.broker.policies if judged.facts.broker is not None else None


def _quota(kind: str, *levels: TopicPolicies | None) -> BacklogQuota | None:
    return next((level.back_log_quota_map[kind] for level in levels if level is not None and kind in level.back_log_quota_map), None)


def _clash(quota: BacklogQuota, retention: RetentionPolicies) -> str:
    """Returns how a quota conflicts with retention, as part of a sentence; "" if it does not."""
    megabytes, minutes = retention.retention_size_in_mb, retention.retention_time_in_minutes
    if megabytes > 0 and quota.limit_size >= megabytes * _MEGABYTE:
        return f"of {quota.limit_size} bytes is not below the retention of {megabytes} MB"
    if minutes > 0 and quota.limit_time >= minutes * 60:
        return f"of {quota.limit_time} s is not below the retention of {minutes} minutes"
    return ""


# --- replication clusters (``PersistentTopicsBase.internalSetReplicationClusters``) ---
#
# The first two rules protect data: a broker that reads a LOCAL list without its own cluster deletes the topic. So while the local cluster's
# name is not known, LOCAL lists are refused.

_REPLICATED = 2
"""How many clusters a replicated namespace has at least."""


@_rule(_CLUSTERS, ViolationReason.LOCAL_CLUSTER_UNKNOWN, "LOCAL: the local cluster's name is known", Need.CLUSTER)
def _local_cluster_known(judged: Judged) -> Iterator[Problem]:
    if judged.local and not judged.facts.cluster:
        problem = (
            "Brokers delete the topic if a LOCAL list does not name their own cluster, and this server does not know that cluster's name:"
            " configure it (serve --cluster-file)."
        )
        yield _blamed(_CLUSTERS), problem


@_rule(_CLUSTERS, ViolationReason.LOCAL_CLUSTER_MISSING, "LOCAL: names the local cluster", Need.CLUSTER)
def _local_cluster_named(judged: Judged) -> Iterator[Problem]:
    local = judged.facts.cluster
    if judged.local and local and local not in judged.policies.replication_clusters:
        problem = f'The list does not name the local cluster "{local}", so brokers would delete the topic: add it, or clear the list.'
        yield _blamed(_CLUSTERS), problem


@_rule(_CLUSTERS, ViolationReason.NAMESPACE_NOT_REPLICATED, "GLOBAL: the namespace has two clusters or more", Need.NAMESPACE)
def _namespace_replicated(judged: Judged) -> Iterator[Problem]:
    namespace = judged.facts.namespace
    if not judged.local and namespace is not None and len(namespace.replication_clusters) < _REPLICATED:
        yield _blamed(_CLUSTERS), "The namespace is not replicated, so a GLOBAL list would have no effect: replicate the namespace first."


@_rule(_CLUSTERS, ViolationReason.CLUSTER_NOT_IN_NAMESPACE, "GLOBAL: only clusters of the namespace", Need.NAMESPACE)
def _clusters_of_namespace(judged: Judged) -> Iterator[Problem]:
    namespace = judged.facts.namespace
    if not judged.local and namespace is not None and len(namespace.replication_clusters) >= _REPLICATED:
        replicated = frozenset(namespace.replication_clusters)
        for name in judged.policies.replication_clusters:
            if name not in replicated:
                yield _blamed(_CLUSTERS), f'The namespace is not replicated to "{name}", so a GLOBAL list can\'t name it: leave it out.'


@_rule(_CLUSTERS, ViolationReason.UNKNOWN_CLUSTER, "only clusters that exist", Need.CLUSTERS)
def _clusters_exist(judged: Judged) -> Iterator[Problem]:
    if judged.facts.clusters is not None:
        for name in judged.policies.replication_clusters:
            if name not in judged.facts.clusters:
                yield _blamed(_CLUSTERS), f'The cluster "{name}" does not exist: create it, or leave it out.'


@_rule(_CLUSTERS, ViolationReason.PEER_CLUSTERS, "no two clusters that are peers", Need.CLUSTERS)
def _no_peers(judged: Judged) -> Iterator[Problem]:
    peers = judged.facts.clusters or {}
    named = frozenset(judged.policies.replication_clusters)  # made once: a list may have thousands of clusters
    for name in judged.policies.replication_clusters:
        for peer in sorted(peers.get(name, frozenset()) & named):
            yield _blamed(_CLUSTERS), f'"{peer}" is a peer cluster of "{name}", so both can\'t be in one list: leave one out.'


@_rule(_CLUSTERS, ViolationReason.CLUSTER_NOT_ALLOWED, "only clusters that the tenant may use", Need.TENANT)
def _clusters_allowed(judged: Judged) -> Iterator[Problem]:
    allowed = judged.facts.allowed_clusters
    if allowed is not None:
        for name in judged.policies.replication_clusters:
            if name not in allowed:
                yield _blamed(_CLUSTERS), f'The tenant {judged.tenant} may not use the cluster "{name}": allow it, or leave it out.'


# --- shadow topics (``PersistentTopicsBase.internalSetShadowTopic``) ---


@_rule(_SHADOWS, ViolationReason.LOCAL_SCOPE_ONLY, "LOCAL scope only")
def _shadows_local(judged: Judged) -> Iterator[Problem]:
    if not judged.local:
        yield _blamed(_SHADOWS), "shadow_topics exists in the LOCAL scope only: set it there."


@_rule(_SHADOWS, ViolationReason.NOT_PERSISTENT, "the topic itself is persistent")
def _source_persistent(judged: Judged) -> Iterator[Problem]:
    if not judged.key.topic.startswith(PERSISTENT):
        yield _blamed(_SHADOWS), "A topic that is not persistent can't have shadow topics: clear the list."


@_rule(_SHADOWS, ViolationReason.MALFORMED_NAME, "names of topics")
def _names_valid(judged: Judged) -> Iterator[Problem]:
    for name in judged.policies.shadow_topics:
        if full_name(name) is None:
            yield _blamed(_SHADOWS), f'"{name[:200]}" is not a topic: write persistent://tenant/namespace/topic.'


@_rule(_SHADOWS, ViolationReason.SHADOW_NOT_PERSISTENT, "persistent topics")
def _shadows_persistent(judged: Judged) -> Iterator[Problem]:
    for name in judged.policies.shadow_topics:
        full = full_name(name)
        if full is not None and not full.startswith(PERSISTENT):
            yield _blamed(_SHADOWS), f'The shadow topic "{name}" is not persistent: give a persistent topic.'


@_rule(_SHADOWS, ViolationReason.SHADOW_NOT_FOUND, "topics that exist", Need.SHADOWS)
def _shadows_exist(judged: Judged) -> Iterator[Problem]:
    for name in judged.policies.shadow_topics if judged.facts.missing_topics else ():
        full = full_name(name)
        if full in judged.facts.missing_topics and str(full).startswith(PERSISTENT):
            yield _blamed(_SHADOWS), f'The shadow topic "{name}" does not exist: create it first.'


def full_name(text: str) -> str | None:
    """Returns the full name of a topic; None if the text is not the name of a topic."""
    try:
        return str(parse_topic(text))
    except PolicyError:
        return None


RULES: tuple[Rule, ...] = tuple(_RULES)
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
