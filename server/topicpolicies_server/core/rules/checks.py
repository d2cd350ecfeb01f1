"""The checks of all rules: each looks at a document after a change, and yields a problem for each violation.

**A single setting** (``PersistentTopicsBase``, ``AdminResource``).

**Retention and backlog quotas**: a quota must be below retention (``AdminResource.checkBacklogQuota``). A quota that is set is compared
with the retention of the same document, else with that of the namespace. If a quota is removed, the brokers' default quota is compared
instead. Retention that is set is compared with each quota of the same document, else with that of the namespace, else with the brokers'
default. Both limits of a quota are compared, whatever its type.

**Replication clusters** (``PersistentTopicsBase.internalSetReplicationClusters``). The first two rules protect data: a broker that reads a
LOCAL list without its own cluster deletes the topic. So while the local cluster's name is not known, LOCAL lists are refused.

**Shadow topics, and fields that exist in the LOCAL scope only** (``PersistentTopicsBase.internalSetShadowTopic``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import TypeAlias

from topicpolicies.masks import format_path
from topicpolicies.v1.policies_pb2 import BacklogQuota, OffloadPolicies, RetentionPolicies, TopicPolicies

from ..errors import PolicyError
from ..names import PERSISTENT, PolicyKey, Scope, parse_topic
from ..policies.documents import Setting, Settings, family, join
from ..policies.facts import Facts

_COMPARED = ("retention_policies", "back_log_quota_map/destination_storage", "back_log_quota_map/message_age")
"""Settings that rules compare: if one of them changed, all are parsed."""


class Judged:
    """A document after a change, parsed as far as rules need it."""

    def __init__(self, key: PolicyKey, changed: Sequence[Setting], after: Settings, facts: Facts) -> None:
        """Parses only the settings that rules will look at.

        Args:
            key: the policy key of the document.
            changed: the settings that the change alters, among those that have rules.
            after: the document after the change.
            facts: what is known of the cluster.
        """
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

    def keys(self, field: str) -> list[str]:
        """Returns the keys of a map field's entries that changed and are present."""
        present = getattr(self.policies, field)
        return [setting.partition("/")[2] for setting in sorted(self.changed) if family(setting) == field and _key(setting) in present]


def blamed(*path: str) -> str:
    """Returns the request's field of a path in the document, for a violation."""
    return f"policies.{format_path(path)}"


def _key(setting: Setting) -> str:
    return setting.partition("/")[2]


Problem: TypeAlias = tuple[str, str]
"""The request's field that violates a rule, and a sentence that says what is wrong and what to do."""
Check: TypeAlias = Callable[[Judged], Iterator[Problem]]

# --- a single setting ---

DRIVERS = ("S3", "aws-s3", "google-cloud-storage", "filesystem", "azureblob", "aliyun-oss")
"""The offload drivers that every broker knows (``OffloadPoliciesImpl.INTERNAL_SUPPORTED_DRIVER``)."""
_BUCKET_OF = {
    "s3": "s3_managed_ledger_offload_bucket",
    "aws-s3": "s3_managed_ledger_offload_bucket",
    "google-cloud-storage": "gcs_managed_ledger_offload_bucket",
}
_PERSISTENCE = (
    ("bookkeeper_ensemble", "max_ensemble"),
    ("bookkeeper_write_quorum", "max_write_quorum"),
    ("bookkeeper_ack_quorum", "max_ack_quorum"),
)


def not_negative(field: str) -> Check:
    """Returns a check that a number is 0 or more."""

    def check(judged: Judged) -> Iterator[Problem]:
        value = getattr(judged.policies, field)
        if value < 0:
            yield blamed(field), f"{field} is {value}: give 0 or more, or clear it."

    return check


def message_size_fits(judged: Judged) -> Iterator[Problem]:
    """Checks that the largest message is not larger than the brokers' maximum."""
    most = judged.facts.broker.max_message_size if judged.facts.broker is not None else None
    size = judged.policies.max_message_size
    if most is not None and size > most:
        yield (
            blamed("max_message_size"),
            f"max_message_size is {size}, and the brokers accept at most {most} bytes: give no more than that.",
        )


def retention_limits(judged: Judged) -> Iterator[Problem]:
    """Checks that each limit of retention is -1 or more."""
    if judged.policies.HasField("retention_policies"):
        retention = judged.policies.retention_policies
        for leaf in ("retention_time_in_minutes", "retention_size_in_mb"):
            if getattr(retention, leaf) < -1:
                yield blamed("retention_policies", leaf), f"{leaf} is {getattr(retention, leaf)}: give -1 for no limit, 0, or more."


def retention_both_zero(judged: Judged) -> Iterator[Problem]:
    """Checks that both limits of retention are 0, or none is."""
    if judged.policies.HasField("retention_policies"):
        retention = judged.policies.retention_policies
        if (retention.retention_time_in_minutes == 0) != (retention.retention_size_in_mb == 0):
            problem = "One limit of retention is 0 and the other is not: give -1 for no limit, or set both to 0 to keep nothing."
            yield blamed("retention_policies"), problem


def quorums_positive(judged: Judged) -> Iterator[Problem]:
    """Checks that ensemble and quorums are above 0."""
    if judged.policies.HasField("persistence"):
        for leaf, _ in _PERSISTENCE:
            value = getattr(judged.policies.persistence, leaf)
            if value <= 0:
                yield blamed("persistence", leaf), f"{leaf} is {value}: at least 1 is needed."


def quorums_ordered(judged: Judged) -> Iterator[Problem]:
    """Checks that the ensemble is at least the write quorum, and the write quorum at least the ack quorum."""
    if judged.policies.HasField("persistence"):
        one = judged.policies.persistence
        if not one.bookkeeper_ensemble >= one.bookkeeper_write_quorum >= one.bookkeeper_ack_quorum:
            figures = f"{one.bookkeeper_ensemble}, {one.bookkeeper_write_quorum} and {one.bookkeeper_ack_quorum}"
            problem = f"Ensemble, write quorum and ack quorum are {figures}: none of them may be greater than the one before."
            yield blamed("persistence"), problem


def quorums_fit(judged: Judged) -> Iterator[Problem]:
    """Checks that ensemble and quorums are not above the brokers' maxima."""
    broker = judged.facts.broker
    if broker is not None and judged.policies.HasField("persistence"):
        for leaf, maximum in _PERSISTENCE:
            value, most = getattr(judged.policies.persistence, leaf), getattr(broker, maximum)
            if most is not None and value > most:
                yield blamed("persistence", leaf), f"{leaf} is {value}, and the brokers allow at most {most}: give no more than that."


def entry_filters_named(judged: Judged) -> Iterator[Problem]:
    """Checks that at least one entry filter is named."""
    if judged.policies.HasField("entry_filters") and not _filters(judged):
        yield (
            blamed("entry_filters", "entry_filter_names"),
            "No entry filter is named: name some, separated by commas, or clear entry_filters.",
        )


def entry_filters_known(judged: Judged) -> Iterator[Problem]:
    """Checks that the entry filters are installed, if it is known which are."""
    broker = judged.facts.broker
    if broker is not None and broker.entry_filters is not None:
        for name in _filters(judged):
            if name not in broker.entry_filters:
                problem = f'The entry filter "{name}" is not installed on the brokers: install it, or leave it out.'
                yield blamed("entry_filters", "entry_filter_names"), problem


def offload_driver(judged: Judged) -> Iterator[Problem]:
    """Checks that brokers know the offload driver."""
    if judged.policies.HasField("offload_policies"):
        driver = judged.policies.offload_policies.managed_ledger_offload_driver
        if driver.lower() not in map(str.lower, DRIVERS):
            told = f'"{driver}" is not an offload driver' if driver else "No offload driver is named"
            problem = f"{told}: give one of {', '.join(DRIVERS)}."
            yield blamed("offload_policies", "managed_ledger_offload_driver"), problem


def offload_bucket(judged: Judged) -> Iterator[Problem]:
    """Checks that there is a bucket to offload to, unless the driver is ``filesystem``."""
    if judged.policies.HasField("offload_policies"):
        offload = judged.policies.offload_policies
        driver = offload.managed_ledger_offload_driver.lower()
        if driver in map(str.lower, DRIVERS) and driver != "filesystem" and not _has_bucket(offload, driver):
            problem = f'The offload driver "{driver}" needs a bucket: give managed_ledger_offload_bucket.'
            yield blamed("offload_policies", "managed_ledger_offload_bucket"), problem


def subscription_rate_says_something(judged: Judged) -> Iterator[Problem]:
    """Checks that a subscription's own dispatch rate limits something."""
    for name in judged.keys("subscription_policies"):
        rate = judged.policies.subscription_policies[name].dispatch_rate
        if judged.policies.subscription_policies[name].HasField("dispatch_rate") and not (
            rate.dispatch_throttling_rate_in_msg > 0 or rate.dispatch_throttling_rate_in_byte > 0
        ):
            problem = "A subscription's rate without any limit is ignored by brokers: give a limit above 0, or clear the entry."
            yield blamed("subscription_policies", name, "dispatch_rate"), problem


def _filters(judged: Judged) -> list[str]:
    """Returns the names of the entry filters, each once."""
    names = map(str.strip, judged.policies.entry_filters.entry_filter_names.split(","))
    return list(filter(None, dict.fromkeys(names)))


def _has_bucket(offload: OffloadPolicies, driver: str) -> bool:
    own = _BUCKET_OF.get(driver)
    return bool(offload.managed_ledger_offload_bucket or (own is not None and getattr(offload, own)))


# --- retention and backlog quotas ---

_QUOTAS = "back_log_quota_map"
_QUOTA_KINDS = ("destination_storage", "message_age")
_MEGABYTE = 1024 * 1024
_Levels: TypeAlias = tuple[TopicPolicies | None, ...]


def quota_below_retention(judged: Judged) -> Iterator[Problem]:
    """Checks that a quota that changed is smaller than the retention that applies."""
    retention = _retention(judged.policies) or (_retention(judged.facts.namespace) if judged.facts.namespace is not None else None)
    if retention is None:
        return
    for kind in _QUOTA_KINDS:
        if f"{_QUOTAS}/{kind}" in judged.changed:
            quota = _quota(kind, (judged.policies, _default(judged)))
            if quota is not None and (clash := _clash(quota, retention)):
                yield blamed(_QUOTAS, kind), f"The backlog quota {kind} {clash}: lower the quota, or raise retention first."


def retention_above_quota(judged: Judged) -> Iterator[Problem]:
    """Checks that retention that changed is larger than the quotas that apply."""
    retention = _retention(judged.policies)
    if retention is None or "retention_policies" not in judged.changed:
        return
    for kind in _QUOTA_KINDS:
        if f"{_QUOTAS}/{kind}" not in judged.changed:  # else ``quota_below_retention`` reports it
            quota = _quota(kind, (judged.policies, judged.facts.namespace, _default(judged)))
            if quota is not None and (clash := _clash(quota, retention)):
                yield blamed("retention_policies"), f"The backlog quota {kind} {clash}: raise retention, or lower the quota first."


def _retention(policies: TopicPolicies) -> RetentionPolicies | None:
    return policies.retention_policies if policies.HasField("retention_policies") else None


def _default(judged: Judged) -> TopicPolicies | None:
    return judged.facts.broker.policies if judged.facts.broker is not None else None


def _quota(kind: str, levels: _Levels) -> BacklogQuota | None:
    return next((level.back_log_quota_map[kind] for level in levels if level is not None and kind in level.back_log_quota_map), None)


def _clash(quota: BacklogQuota, retention: RetentionPolicies) -> str:
    """Returns how a quota conflicts with retention, as part of a sentence; "" if it does not."""
    megabytes, minutes = retention.retention_size_in_mb, retention.retention_time_in_minutes
    if megabytes > 0 and quota.limit_size >= megabytes * _MEGABYTE:
        return f"of {quota.limit_size} bytes is not below the retention of {megabytes} MB"
    if minutes > 0 and quota.limit_time >= minutes * 60:
        return f"of {quota.limit_time} s is not below the retention of {minutes} minutes"
    return ""


# --- replication clusters ---

_CLUSTERS = "replication_clusters"
_REPLICATED = 2
"""How many clusters a replicated namespace has at least."""


def local_cluster_known(judged: Judged) -> Iterator[Problem]:
    """Checks that the local cluster's name is known, without which a LOCAL list can't be judged."""
    if judged.local and judged.policies.replication_clusters and not judged.facts.cluster:
        problem = (
            "Brokers delete the topic if a LOCAL list does not name their own cluster, and this server does not know that cluster's name:"
            " configure it (serve --cluster-file)."
        )
        yield blamed(_CLUSTERS), problem


def local_cluster_named(judged: Judged) -> Iterator[Problem]:
    """Checks that a LOCAL list names the local cluster."""
    clusters, local = judged.policies.replication_clusters, judged.facts.cluster
    if judged.local and clusters and local and local not in clusters:
        problem = f'The list does not name the local cluster "{local}", so brokers would delete the topic: add it, or clear the list.'
        yield blamed(_CLUSTERS), problem


def namespace_replicated(judged: Judged) -> Iterator[Problem]:
    """Checks that the namespace of a GLOBAL list is replicated."""
    namespace = judged.facts.namespace
    if judged.local or namespace is None or not judged.policies.replication_clusters:
        return
    if len(namespace.replication_clusters) < _REPLICATED:
        yield blamed(_CLUSTERS), "The namespace is not replicated, so a GLOBAL list would have no effect: replicate the namespace first."


def clusters_of_namespace(judged: Judged) -> Iterator[Problem]:
    """Checks that a GLOBAL list names only clusters of the namespace."""
    namespace = judged.facts.namespace
    if not judged.local and namespace is not None and len(namespace.replication_clusters) >= _REPLICATED:
        replicated = frozenset(namespace.replication_clusters)
        for name in judged.policies.replication_clusters:
            if name not in replicated:
                yield blamed(_CLUSTERS), f'The namespace is not replicated to "{name}", so a GLOBAL list can\'t name it: leave it out.'


def clusters_exist(judged: Judged) -> Iterator[Problem]:
    """Checks that all clusters exist."""
    if judged.facts.clusters is not None:
        for name in judged.policies.replication_clusters:
            if name not in judged.facts.clusters:
                yield blamed(_CLUSTERS), f'The cluster "{name}" does not exist: create it, or leave it out.'


def no_peers(judged: Judged) -> Iterator[Problem]:
    """Checks that no two clusters are peers of each other."""
    peers = judged.facts.clusters
    if peers is None:
        return
    named = frozenset(judged.policies.replication_clusters)  # made once: a list may have thousands of clusters
    for name in judged.policies.replication_clusters:
        for peer in sorted(peers.get(name, frozenset()) & named):
            yield blamed(_CLUSTERS), f'"{peer}" is a peer cluster of "{name}", so both can\'t be in one list: leave one out.'


def clusters_allowed(judged: Judged) -> Iterator[Problem]:
    """Checks that the tenant may use all clusters."""
    allowed = judged.facts.allowed_clusters
    if allowed is not None:
        for name in judged.policies.replication_clusters:
            if name not in allowed:
                yield blamed(_CLUSTERS), f'The tenant {judged.tenant} may not use the cluster "{name}": allow it, or leave it out.'


# --- shadow topics and scopes ---

_SHADOWS = "shadow_topics"


def local_only(field: str) -> Check:
    """Returns a check that a field is not set in the GLOBAL scope."""

    def check(judged: Judged) -> Iterator[Problem]:
        if not judged.local and getattr(judged.policies, field):
            yield blamed(field), f"{field} exists in the LOCAL scope only: set it there."

    return check


def source_persistent(judged: Judged) -> Iterator[Problem]:
    """Checks that a topic with shadow topics is persistent."""
    if judged.policies.shadow_topics and not judged.key.topic.startswith(PERSISTENT):
        yield blamed(_SHADOWS), "A topic that is not persistent can't have shadow topics: clear the list."


def names_valid(judged: Judged) -> Iterator[Problem]:
    """Checks that the names of shadow topics are valid."""
    for name in judged.policies.shadow_topics:
        if full_name(name) is None:
            yield blamed(_SHADOWS), f'"{name[:200]}" is not a topic: write persistent://tenant/namespace/topic.'


def shadows_persistent(judged: Judged) -> Iterator[Problem]:
    """Checks that shadow topics are persistent."""
    for name in judged.policies.shadow_topics:
        full = full_name(name)
        if full is not None and not full.startswith(PERSISTENT):
            yield blamed(_SHADOWS), f'The shadow topic "{name}" is not persistent: give a persistent topic.'


def shadows_exist(judged: Judged) -> Iterator[Problem]:
    """Checks that shadow topics exist."""
    if judged.facts.missing_topics:
        for name in judged.policies.shadow_topics:
            full = full_name(name)
            if full in judged.facts.missing_topics and str(full).startswith(PERSISTENT):
                yield blamed(_SHADOWS), f'The shadow topic "{name}" does not exist: create it first.'


def full_name(text: str) -> str | None:
    """Returns the full name of a topic; None if the text is not the name of a topic."""
    try:
        return str(parse_topic(text))
    except PolicyError:
        return None
