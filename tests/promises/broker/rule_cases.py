"""Updates that the rules of the admin API accept or refuse, each as a call of the admin API and as an update over gRPC.

The statuses are those of Pulsar 4.2.4; the reasons are the service's own. Where the two differ on purpose, ``difference`` says why, and
``docs/rules.md`` lists it.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any, NamedTuple

from google.protobuf import text_format

from tests.promises.broker.policy_case import Scope
from topicpolicies.v1.policies_pb2 import TopicPolicies

TAKEN = 204
"""The status of a call that succeeded."""


class Where(enum.Enum):
    """The namespace of a case."""

    PLAIN = "plain"
    RETAINED = "retained"
    """It has a retention of 10 minutes and 100 MB."""
    QUOTED = "quoted"
    """It has a backlog quota of 100 MB and 600 s."""
    REPLICATED = "replicated"
    """It is replicated to a second cluster. A third cluster exists, and a fourth one that is a peer of the second."""
    NOWHERE = "nowhere"
    """It does not exist."""


class RuleCase(NamedTuple):
    """One update over both APIs."""

    title: str
    call: tuple[str, str, Any]
    """The admin API's method, path below the topic, and body. The path may have a query."""
    policies: TopicPolicies
    """The masked document of the same update over gRPC."""
    mask: tuple[str, ...]
    status: int
    """The status of the admin API's answer."""
    reasons: frozenset[str] = frozenset()
    """The possible reasons of the service's refusal; empty: the update is accepted."""
    where: Where = Where.PLAIN
    scope: Scope = Scope.LOCAL
    before: tuple[tuple[str, str, Any], ...] = ()
    """Calls of the admin API that prepare the topics of both updates."""
    local: str = ""
    """A suffix of the topic's name."""
    exists: bool = True
    difference: str = ""
    """Why the two APIs differ; empty: they agree."""


def _case(title: str, call: tuple[str, str, Any], text: str, mask: str, status: int, *reasons: str, **rest: Any) -> RuleCase:
    policies = text_format.Parse(text, TopicPolicies())
    return RuleCase(title, call, policies, tuple(mask.split()), status, frozenset(reasons), **rest)


_NUMBERS = {
    "message_ttl_in_seconds": "messageTTL?messageTTL=",
    "subscription_expiration_time_in_minutes": "subscriptionExpirationTime?subscriptionExpirationTime=",
    "max_producer_per_topic": "maxProducers",
    "max_consumer_per_topic": "maxConsumers",
    "max_consumers_per_subscription": "maxConsumersPerSubscription",
    "max_subscriptions_per_topic": "maxSubscriptionsPerTopic",
    "max_unacked_messages_on_consumer": "maxUnackedMessagesOnConsumer",
    "max_unacked_messages_on_subscription": "maxUnackedMessagesOnSubscription",
    "max_message_size": "maxMessageSize",
    "compaction_threshold": "compactionThreshold",
    "deduplication_snapshot_interval_seconds": "deduplicationSnapshotInterval",
}


def _number(field: str, value: int, status: int, *reasons: str) -> RuleCase:
    path = _NUMBERS[field]
    call = ("POST", f"{path}{value}", None) if path.endswith("=") else ("POST", path, value)
    return _case(f"{field} {value}", call, f"{field}: {value}", field, status, *reasons)


def _retention(minutes: int, megabytes: int, status: int, *reasons: str, **rest: Any) -> RuleCase:
    body = {"retentionTimeInMinutes": minutes, "retentionSizeInMB": megabytes}
    text = f"retention_policies {{ retention_time_in_minutes: {minutes} retention_size_in_mb: {megabytes} }}"
    title = rest.pop("title", "")
    name = f"retention of {minutes} min and {megabytes} MB {title}".strip()
    return _case(name, ("POST", "retention", body), text, "retention_policies", status, *reasons, **rest)


def _keep(minutes: int, megabytes: int) -> tuple[str, str, Any]:
    return "POST", "retention", {"retentionTimeInMinutes": minutes, "retentionSizeInMB": megabytes}


def _limit(kind: str, size: int, seconds: int) -> tuple[str, str, Any]:
    body = {"limit": size, "limitSize": size, "limitTime": seconds, "policy": "producer_exception"}
    return "POST", f"backlogQuota?backlogQuotaType={kind}", body


def _quota(kind: str, size: int, seconds: int, status: int, *reasons: str, **rest: Any) -> RuleCase:
    value = f'key: "{kind}" value {{ limit_size: {size} limit_time: {seconds} policy: BACKLOG_QUOTA_POLICY_PRODUCER_EXCEPTION }}'
    name = f"quota {kind} of {size} bytes and {seconds} s {rest.pop('title', '')}".strip()
    return _case(
        name, _limit(kind, size, seconds), f"back_log_quota_map {{ {value} }}", f"back_log_quota_map.{kind}", status, *reasons, **rest
    )


def _persistence(ensemble: int, write: int, ack: int, status: int, *reasons: str) -> RuleCase:
    body = {
        "bookkeeperEnsemble": ensemble,
        "bookkeeperWriteQuorum": write,
        "bookkeeperAckQuorum": ack,
        "managedLedgerMaxMarkDeleteRate": 1.0,
    }
    text = (
        f"persistence {{ bookkeeper_ensemble: {ensemble} bookkeeper_write_quorum: {write} bookkeeper_ack_quorum: {ack}"
        " managed_ledger_max_mark_delete_rate: 1 }"
    )
    return _case(f"persistence {ensemble}/{write}/{ack}", ("POST", "persistence", body), text, "persistence", status, *reasons)


def _clusters(names: list[str], status: int, *reasons: str, scope: Scope = Scope.LOCAL, **rest: Any) -> RuleCase:
    path = "replication?isGlobal=true" if scope is Scope.GLOBAL else "replication"
    text = " ".join(f'replication_clusters: "{name}"' for name in names)
    title = f"{scope.name} clusters {names} {rest.get('where', Where.PLAIN).value}"
    return _case(title, ("POST", path, names), text, "replication_clusters", status, *reasons, scope=scope, **rest)


def _shadows(names: list[str], status: int, *reasons: str, **rest: Any) -> RuleCase:
    text = " ".join(f'shadow_topics: "{name}"' for name in names)
    return _case(f"shadow topics {names}", ("PUT", "shadowTopics", names), text, "shadow_topics", status, *reasons, **rest)


def _offload(members: dict[str, str], text: str, status: int, *reasons: str) -> RuleCase:
    title = f"offload {members}"
    return _case(title, ("POST", "offloadPolicies", members), f"offload_policies {{ {text} }}", "offload_policies", status, *reasons)


def _filters(names: str, status: int, *reasons: str, **rest: Any) -> RuleCase:
    text = f'entry_filters {{ entry_filter_names: "{names}" }}'
    call = ("POST", "entryFilters", {"entryFilterNames": names})
    return _case(f"entry filters {names!r}", call, text, "entry_filters", status, *reasons, **rest)


_MEGABYTES_100 = 100 * 1024 * 1024
_NO_LIMIT = {"dispatchThrottlingRateInMsg": -1, "dispatchThrottlingRateInByte": 0, "ratePeriodInSecond": 1, "relativeToPublishRate": False}
_RATE = "dispatch_throttling_rate_in_msg: -1 dispatch_throttling_rate_in_byte: 0 rate_period_in_second: 1 relative_to_publish_rate: false"
_EMPTY_IS_UNSET = "An empty list means unset, as brokers read it; nothing changes where it is unset."

CASES: tuple[RuleCase, ...] = (
    *(_number(field, -1, 412, "NEGATIVE") for field in _NUMBERS),
    *(_number(field, 0, TAKEN) for field in _NUMBERS),
    _number("max_message_size", 5 * 1024 * 1024, TAKEN),
    _number("max_message_size", 5 * 1024 * 1024 + 1, 412, "ABOVE_BROKER_MAXIMUM"),
    _retention(-1, -1, TAKEN),
    _retention(0, 0, TAKEN),
    _retention(-2, 5, 400, "BELOW_MINUS_ONE"),
    _retention(5, -2, 400, "BELOW_MINUS_ONE"),
    _retention(0, 5, 400, "HALF_ZERO"),
    _retention(5, 0, 400, "HALF_ZERO"),
    _quota("destination_storage", _MEGABYTES_100, -1, TAKEN),
    _quota("destination_storage", _MEGABYTES_100, -1, 412, "QUOTA_ABOVE_RETENTION", before=(_keep(10, 100),), title="above retention"),
    _quota("destination_storage", _MEGABYTES_100 - 1, -1, TAKEN, before=(_keep(10, 100),), title="below retention"),
    _quota("message_age", -1, 600, 412, "QUOTA_ABOVE_RETENTION", before=(_keep(10, -1),), title="above retention"),
    _quota("message_age", -1, 599, TAKEN, before=(_keep(10, -1),), title="below retention"),
    _quota("message_age", _MEGABYTES_100, -1, 412, "QUOTA_ABOVE_RETENTION", before=(_keep(10, 100),), title="with a size"),
    _quota("message_age", -1, 600, 412, "QUOTA_ABOVE_RETENTION", where=Where.RETAINED, title="above the namespace's retention"),
    _quota("message_age", -1, 600, TAKEN, where=Where.RETAINED, before=(_keep(20, 200),), title="below the topic's own retention"),
    _retention(10, 100, 412, "RETENTION_BELOW_QUOTA", before=(_limit("destination_storage", _MEGABYTES_100, -1),), title="and a quota"),
    _retention(10, 101, TAKEN, before=(_limit("destination_storage", _MEGABYTES_100, -1),), title="and a smaller quota"),
    _retention(10, 100, 412, "RETENTION_BELOW_QUOTA", where=Where.QUOTED, title="and the namespace's quota"),
    _retention(11, 101, TAKEN, where=Where.QUOTED, title="and the namespace's smaller quota"),
    _retention(-1, -1, TAKEN, where=Where.QUOTED, title="without limits"),
    _case(
        "quota without a policy",
        ("POST", "backlogQuota?backlogQuotaType=message_age", {"limitTime": 5}),
        'back_log_quota_map { key: "message_age" value { limit_time: 5 } }',
        "back_log_quota_map.message_age",
        400,
        "HALF_OBJECT",
    ),
    _persistence(5, 5, 5, TAKEN),
    _persistence(1, 1, 1, TAKEN),
    _persistence(6, 5, 5, 400, "ABOVE_BROKER_MAXIMUM"),
    _persistence(0, 0, 0, 400, "NOT_POSITIVE"),
    _persistence(2, 3, 1, 400, "QUORUM_ORDER"),
    _persistence(3, 2, 3, 400, "QUORUM_ORDER"),
    _clusters(["standalone"], TAKEN),
    _clusters(["standalone", "standalone"], TAKEN),
    _clusters(["nowhere"], 412, "LOCAL_CLUSTER_MISSING", "UNKNOWN_CLUSTER", "CLUSTER_NOT_ALLOWED"),
    _clusters(["standalone", "nowhere"], 403, "UNKNOWN_CLUSTER", "CLUSTER_NOT_ALLOWED"),
    _clusters(["standalone", "elsewhere"], 403, "CLUSTER_NOT_ALLOWED"),
    _clusters(["standalone", "elsewhere"], TAKEN, where=Where.REPLICATED),
    _clusters(["elsewhere"], 412, "LOCAL_CLUSTER_MISSING", where=Where.REPLICATED),
    _clusters(["standalone", "elsewhere", "peer"], 409, "PEER_CLUSTERS", where=Where.REPLICATED),
    _clusters(["standalone"], 412, "NAMESPACE_NOT_REPLICATED", scope=Scope.GLOBAL),
    _clusters(["standalone", "elsewhere"], TAKEN, scope=Scope.GLOBAL, where=Where.REPLICATED),
    _clusters(["elsewhere"], TAKEN, scope=Scope.GLOBAL, where=Where.REPLICATED),
    _clusters(["standalone", "third"], 412, "CLUSTER_NOT_IN_NAMESPACE", scope=Scope.GLOBAL, where=Where.REPLICATED),
    _clusters([], 412, difference=_EMPTY_IS_UNSET),
    _shadows(["persistent://public/default/shadow"], TAKEN),
    _shadows(["persistent://public/default/missing"], 412, "SHADOW_NOT_FOUND"),
    _shadows(["non-persistent://public/default/shadow"], 412, "SHADOW_NOT_PERSISTENT"),
    _shadows(["persistent://public"], 403, "MALFORMED_NAME"),
    _shadows([], 412, difference=_EMPTY_IS_UNSET),
    _case(
        "shadow topics, GLOBAL",
        ("PUT", "shadowTopics?isGlobal=true", ["persistent://public/default/shadow"]),
        'shadow_topics: "persistent://public/default/shadow"',
        "shadow_topics",
        TAKEN,
        "LOCAL_SCOPE_ONLY",
        scope=Scope.GLOBAL,
        difference="The admin API ignores isGlobal here and changes the LOCAL document; a request for one scope never changes the other.",
    ),
    _case(
        "schema compatibility, GLOBAL",
        ("PUT", "schemaCompatibilityStrategy?isGlobal=true", "FULL"),
        "schema_compatibility_strategy: SCHEMA_COMPATIBILITY_STRATEGY_FULL",
        "schema_compatibility_strategy",
        TAKEN,
        "LOCAL_SCOPE_ONLY",
        scope=Scope.GLOBAL,
        difference="The admin API ignores isGlobal here and changes the LOCAL document; a request for one scope never changes the other.",
    ),
    _filters(" ", 400, "BLANK"),
    _filters(",", 400, "BLANK"),
    _filters("not-installed", 400, difference="Brokers do not tell which entry filters are installed; a cluster file may."),
    _offload({"managedLedgerOffloadBucket": "b"}, 'managed_ledger_offload_bucket: "b"', 412, "UNKNOWN_DRIVER"),
    _offload({"managedLedgerOffloadDriver": "tape"}, 'managed_ledger_offload_driver: "tape"', 412, "UNKNOWN_DRIVER"),
    _offload({"managedLedgerOffloadDriver": "azureblob"}, 'managed_ledger_offload_driver: "azureblob"', 412, "NO_BUCKET"),
    _offload({"managedLedgerOffloadDriver": "filesystem"}, 'managed_ledger_offload_driver: "filesystem"', TAKEN),
    _offload(
        {"managedLedgerOffloadDriver": "S3", "s3ManagedLedgerOffloadBucket": "b"},
        'managed_ledger_offload_driver: "S3" s3_managed_ledger_offload_bucket: "b"',
        TAKEN,
    ),
    _offload(
        {"managedLedgerOffloadDriver": "google-cloud-storage", "s3ManagedLedgerOffloadBucket": "b"},
        'managed_ledger_offload_driver: "google-cloud-storage" s3_managed_ledger_offload_bucket: "b"',
        412,
        "NO_BUCKET",
    ),
    _case("dispatch rate without a limit", ("POST", "dispatchRate", _NO_LIMIT), f"dispatch_rate {{ {_RATE} }}", "dispatch_rate", TAKEN),
    _case(
        "a subscription's rate without a limit",
        ("POST", "billing/dispatchRate", _NO_LIMIT),
        f'subscription_policies {{ key: "billing" value {{ dispatch_rate {{ {_RATE} }} }} }}',
        "subscription_policies.billing",
        TAKEN,
        "NO_LIMIT",
        difference="The admin API says yes and changes nothing; who is told yes expects a change.",
    ),
    _case(
        "publish rate without a limit",
        ("POST", "publishRate", {"publishThrottlingRateInMsg": -5, "publishThrottlingRateInByte": -5}),
        "publish_rate { publish_throttling_rate_in_msg: -5 publish_throttling_rate_in_byte: -5 }",
        "publish_rate",
        TAKEN,
    ),
    _case(
        "subscribe rate without a limit",
        ("POST", "subscribeRate", {"subscribeThrottlingRatePerConsumer": -5, "ratePeriodInSecond": -5}),
        "subscribe_rate { subscribe_throttling_rate_per_consumer: -5 rate_period_in_second: -5 }",
        "subscribe_rate",
        TAKEN,
    ),
    _case(
        "inactive after a negative time",
        (
            "POST",
            "inactiveTopicPolicies",
            {"inactiveTopicDeleteMode": "delete_when_no_subscriptions", "maxInactiveDurationSeconds": -5, "deleteWhileInactive": False},
        ),
        "inactive_topic_policies { inactive_topic_delete_mode: INACTIVE_TOPIC_DELETE_MODE_DELETE_WHEN_NO_SUBSCRIPTIONS"
        " max_inactive_duration_seconds: -5 delete_while_inactive: false }",
        "inactive_topic_policies",
        TAKEN,
    ),
    _case(
        "a topic that does not exist",
        ("POST", "maxProducers", 1),
        "max_producer_per_topic: 1",
        "max_producer_per_topic",
        404,
        "TOPIC_NOT_FOUND",
        exists=False,
    ),
    _case(
        "a namespace that does not exist",
        ("POST", "maxProducers", 1),
        "max_producer_per_topic: 1",
        "max_producer_per_topic",
        404,
        "NAMESPACE_NOT_FOUND",
        exists=False,
        where=Where.NOWHERE,
    ),
    _case(
        "a partition's name",
        ("POST", "maxProducers", 1),
        "max_producer_per_topic: 1",
        "max_producer_per_topic",
        412,
        local="-partition-0",
        difference="A partition's name means its base topic here.",
    ),
)
"""Cases that each rule accepts, and cases that it refuses."""
DIFFERENCES: tuple[RuleCase, ...] = tuple(case for case in CASES if case.difference)

_PAIRS = "check of a retention's two parts"
NOT_IN_4_0_0: Mapping[str, str] = {
    "subscription_expiration_time_in_minutes -1": "subscription_expiration_time_in_minutes",
    "subscription_expiration_time_in_minutes 0": "subscription_expiration_time_in_minutes",
    "retention of -2 min and 5 MB": _PAIRS,
    "retention of 5 min and -2 MB": _PAIRS,
    "retention of 0 min and 5 MB": _PAIRS,
    "retention of 5 min and 0 MB": _PAIRS,
    "quota without a policy": "check of a quota's policy",
    "LOCAL clusters ['nowhere'] plain": "status 412 for unknown clusters, but 403",
    "LOCAL clusters ['elsewhere'] replicated": "check that the local cluster is among the clusters",
    "GLOBAL clusters ['standalone'] plain": "rules for GLOBAL clusters",
    "GLOBAL clusters ['standalone', 'third'] replicated": "rules for GLOBAL clusters",
}
"""Rules of the admin API that Pulsar 4.0.0 does not have, by the title of the case; the service has them beside every broker."""
