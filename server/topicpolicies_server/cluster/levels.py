"""Facts about a cluster, which come from a broker's admin API (``admin``) or from a file (``file``).

None in place of a fact means that the source does not know it, and never will: rules that need it are not judged.

The levels below a topic's own policies are documents: what its namespace says, and its broker's defaults; and the broker's maxima.

The documents have what is said, as it is: ``core/policies/resolution`` decides what counts as unset. The names on the left of the tables
are those of ``org.apache.pulsar.common.policies.data.Policies`` and of ``ServiceConfiguration`` (Pulsar 4.2.4).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from google.protobuf.descriptor import EnumDescriptor
from google.protobuf.message import Message

from topicpolicies.v1.policies_pb2 import SchemaCompatibilityStrategy, SubscriptionType, TopicPolicies
from topicpolicies.values import map_value

from ..core.policies.facts import BrokerFacts

PROPERTY = "__topic_policies_disabled"
"""A property of a namespace, or of a partitioned topic's metadata, which takes precedence over its namespace's."""


def disabled(properties: Mapping[str, str]) -> bool | None:
    """Whether properties disable topic policies; None: they do not say, as a value other than ``true`` and ``false`` does not."""
    return {"true": True, "false": False}.get(properties.get(PROPERTY, ""))


class ClusterFacts(NamedTuple):
    """Facts about the cluster and its brokers."""

    name: str
    """The local cluster's name; "": not known."""
    broker: BrokerFacts | None = None
    topic_policies_enabled: bool = True
    """``topicLevelPoliciesEnabled`` of the brokers."""
    refused: str = ""
    """Why nothing is known of the brokers although they exist; "": it is known, or there are no brokers."""


class NamespaceFacts(NamedTuple):
    """Facts about a namespace."""

    policies: TopicPolicies | None
    """The namespace's own policies, as a document (``levels``). Must not be changed."""
    properties: Mapping[str, str]


class TopicFacts(NamedTuple):
    """Facts about a topic."""

    exists: bool | None
    properties: Mapping[str, str]
    """The properties of a partitioned topic's metadata."""


_FIELDS = {
    "autoSubscriptionCreationOverride": "auto_subscription_creation_override",
    "compaction_threshold": "compaction_threshold",
    "deduplicationEnabled": "deduplication_enabled",
    "deduplicationSnapshotIntervalSeconds": "deduplication_snapshot_interval_seconds",
    "dispatcherPauseOnAckStatePersistentEnabled": "dispatcher_pause_on_ack_state_persistent_enabled",
    "entryFilters": "entry_filters",
    "inactive_topic_policies": "inactive_topic_policies",
    "max_consumers_per_subscription": "max_consumers_per_subscription",
    "max_consumers_per_topic": "max_consumer_per_topic",
    "max_producers_per_topic": "max_producer_per_topic",
    "max_subscriptions_per_topic": "max_subscriptions_per_topic",
    "max_unacked_messages_per_consumer": "max_unacked_messages_on_consumer",
    "max_unacked_messages_per_subscription": "max_unacked_messages_on_subscription",
    "message_ttl_in_seconds": "message_ttl_in_seconds",
    "offload_policies": "offload_policies",
    "persistence": "persistence",
    "retention_policies": "retention_policies",
    "schema_validation_enforced": "schema_validation_enforced",
    "subscription_expiration_time_minutes": "subscription_expiration_time_in_minutes",
}
_RATES = {
    "clusterDispatchRate": "dispatch_rate",  # where brokers look for one that is not in the next
    "topicDispatchRate": "dispatch_rate",
    "subscriptionDispatchRate": "subscription_dispatch_rate",
    "replicatorDispatchRate": "replicator_dispatch_rate",
    "clusterSubscribeRate": "subscribe_rate",
    "publishMaxMessageRate": "publish_rate",
}
"""Rates that a namespace has by cluster."""
_DELAYED = {
    "active": "delayed_delivery_enabled",
    "tickTime": "delayed_delivery_tick_time_millis",
    "maxDeliveryDelayInMillis": "delayed_delivery_max_delay_in_millis",
}
_OLD_OFFLOAD = {
    "offload_threshold": ("managed_ledger_offload_threshold_in_bytes", -1),
    "offload_threshold_in_seconds": ("managed_ledger_offload_threshold_in_seconds", -1),
    "offload_deletion_lag_ms": ("managed_ledger_offload_deletion_lag_in_millis", None),
}
"""Offload settings outside of the offload policies: the field, and the value that counts as unset
(``OffloadPoliciesImpl.oldPoliciesCompatible``)."""
_UNUSED = (
    *("allowed_clusters", "auth_policies", "autoTopicCreationOverride", "bundles", "deleted", "encryption_required"),
    *("is_allow_auto_update_schema", "latency_stats_sample_rate", "max_topics_per_namespace", "migrated", "resource_group_name"),
    "subscription_auth_mode",
)
NAMESPACE_POLICIES = frozenset(
    {
        *(_FIELDS | _RATES | _OLD_OFFLOAD),
        *("backlog_quota_map", "delayed_delivery_policies", "replication_clusters", "subscription_types_enabled"),
        *("schema_compatibility_strategy", "schema_auto_update_compatibility_strategy", "properties", *_UNUSED),
    }
)
"""All that the admin API answers of a namespace's policies."""
SETTINGS: Mapping[str, tuple[Any, str]] = {
    "allowAutoSubscriptionCreation": (True, "auto_subscription_creation_override.allow_auto_subscription_creation"),
    "allowOverrideEntryFilters": (False, ""),
    "backlogQuotaDefaultLimitBytes": (-1, ""),
    "backlogQuotaDefaultLimitGB": (-1.0, ""),
    "backlogQuotaDefaultLimitSecond": (-1, ""),
    "backlogQuotaDefaultRetentionPolicy": ("producer_request_hold", ""),
    "brokerDeduplicationEnabled": (False, "deduplication_enabled"),
    "brokerDeduplicationSnapshotIntervalSeconds": (120, "deduplication_snapshot_interval_seconds"),
    "brokerDeleteInactiveTopicsEnabled": (True, "inactive_topic_policies.delete_while_inactive"),
    "brokerDeleteInactiveTopicsFrequencySeconds": (60, "inactive_topic_policies.max_inactive_duration_seconds"),
    "brokerDeleteInactiveTopicsMaxInactiveDurationSeconds": (None, "inactive_topic_policies.max_inactive_duration_seconds"),
    "brokerDeleteInactiveTopicsMode": ("delete_when_no_subscriptions", "inactive_topic_policies.inactive_topic_delete_mode"),
    "brokerServiceCompactionThresholdInBytes": (0, "compaction_threshold"),
    "defaultRetentionSizeInMB": (0, "retention_policies.retention_size_in_mb"),
    "defaultRetentionTimeInMinutes": (0, "retention_policies.retention_time_in_minutes"),
    "delayedDeliveryEnabled": (True, "delayed_delivery_enabled"),
    "delayedDeliveryMaxDelayInMillis": (0, "delayed_delivery_max_delay_in_millis"),
    "delayedDeliveryTickTimeMillis": (1000, "delayed_delivery_tick_time_millis"),
    "dispatchThrottlingRatePerReplicatorInByte": (0, "replicator_dispatch_rate.dispatch_throttling_rate_in_byte"),
    "dispatchThrottlingRatePerReplicatorInMsg": (0, "replicator_dispatch_rate.dispatch_throttling_rate_in_msg"),
    "dispatchThrottlingRatePerSubscriptionInByte": (0, "subscription_dispatch_rate.dispatch_throttling_rate_in_byte"),
    "dispatchThrottlingRatePerSubscriptionInMsg": (0, "subscription_dispatch_rate.dispatch_throttling_rate_in_msg"),
    "dispatchThrottlingRatePerTopicInByte": (0, "dispatch_rate.dispatch_throttling_rate_in_byte"),
    "dispatchThrottlingRatePerTopicInMsg": (0, "dispatch_rate.dispatch_throttling_rate_in_msg"),
    "dispatcherPauseOnAckStatePersistentEnabled": (False, "dispatcher_pause_on_ack_state_persistent_enabled"),
    "entryFilterNames": ([], ""),
    "installedEntryFilters": (None, ""),  # a cluster file may have it; brokers do not report it
    "isSchemaValidationEnforced": (False, "schema_validation_enforced"),
    "managedLedgerDefaultAckQuorum": (2, "persistence.bookkeeper_ack_quorum"),
    "managedLedgerDefaultEnsembleSize": (2, "persistence.bookkeeper_ensemble"),
    "managedLedgerDefaultMarkDeleteRateLimit": (1.0, "persistence.managed_ledger_max_mark_delete_rate"),
    "managedLedgerDefaultWriteQuorum": (2, "persistence.bookkeeper_write_quorum"),
    "managedLedgerMaxAckQuorum": (5, ""),
    "managedLedgerMaxEnsembleSize": (5, ""),
    "managedLedgerMaxWriteQuorum": (5, ""),
    "managedLedgerOffloadAutoTriggerSizeThresholdBytes": (-1, "offload_policies.managed_ledger_offload_threshold_in_bytes"),
    "managedLedgerOffloadDeletionLagMs": (14_400_000, "offload_policies.managed_ledger_offload_deletion_lag_in_millis"),
    "managedLedgerOffloadDriver": ("", "offload_policies.managed_ledger_offload_driver"),
    "managedLedgerOffloadMaxThreads": (2, "offload_policies.managed_ledger_offload_max_threads"),
    "managedLedgerOffloadPrefetchRounds": (1, "offload_policies.managed_ledger_offload_prefetch_rounds"),
    "managedLedgerOffloadReadThreads": (2, "offload_policies.managed_ledger_offload_read_threads"),
    "managedLedgerOffloadThresholdInSeconds": (-1, "offload_policies.managed_ledger_offload_threshold_in_seconds"),
    "maxConsumersPerSubscription": (0, "max_consumers_per_subscription"),
    "maxConsumersPerTopic": (0, "max_consumer_per_topic"),
    "maxMessageSize": (5 * 1024 * 1024, "max_message_size"),
    "maxProducersPerTopic": (0, "max_producer_per_topic"),
    "maxPublishRatePerTopicInBytes": (0, "publish_rate.publish_throttling_rate_in_byte"),
    "maxPublishRatePerTopicInMessages": (0, "publish_rate.publish_throttling_rate_in_msg"),
    "maxSubscriptionsPerTopic": (0, "max_subscriptions_per_topic"),
    "maxUnackedMessagesPerConsumer": (50_000, "max_unacked_messages_on_consumer"),
    "maxUnackedMessagesPerSubscription": (200_000, "max_unacked_messages_on_subscription"),
    "offloadersDirectory": ("./offloaders", "offload_policies.offloaders_directory"),
    "schemaCompatibilityStrategy": ("FULL", "schema_compatibility_strategy"),
    "subscribeRatePeriodPerConsumerInSecond": (30, "subscribe_rate.rate_period_in_second"),
    "subscribeThrottlingRatePerConsumer": (0, "subscribe_rate.subscribe_throttling_rate_per_consumer"),
    "subscriptionExpirationTimeMinutes": (0, "subscription_expiration_time_in_minutes"),
    "subscriptionTypesEnabled": (["Exclusive", "Shared", "Failover", "Key_Shared"], ""),
    "topicLevelPoliciesEnabled": (True, ""),
    "ttlDurationDefaultInSeconds": (0, "message_ttl_in_seconds"),
}
"""A broker's settings that are used here: default, and the field that has it in a topic's policies."""
_OFFLOAD = "offload_policies."
"""Brokers read these from their file, but the API does not show which values are in the file; so a default counts as not set, as it does in
a file that leaves it out."""
_GIGABYTE = 1024**3
_CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")


class Levels(NamedTuple):
    """What applies to a topic besides its own policies."""

    disabled: bool
    namespace: TopicPolicies | None
    broker: BrokerFacts | None


def namespace_level(policies: Mapping[str, Any], cluster: str) -> TopicPolicies:
    """Returns the answer to ``GET /admin/v2/namespaces/{tenant}/{namespace}`` as a document, with the rates of the local cluster."""
    level = TopicPolicies()
    for name, field in _FIELDS.items():
        _put(level, field, policies.get(name))
    for name, field in _RATES.items():
        _put(level, field, (policies.get(name) or {}).get(cluster))
    for kind, quota in (policies.get("backlog_quota_map") or {}).items():
        _fill(level.back_log_quota_map[kind], quota)
    for member, field in _DELAYED.items():
        _put(level, field, (policies.get("delayed_delivery_policies") or {}).get(member))
    for name, (field, nothing) in _OLD_OFFLOAD.items():
        value = policies.get(name)
        if value != nothing and not level.offload_policies.HasField(field):  # type: ignore[arg-type]
            _put(level, f"offload_policies.{field}", value)
    strategy = policies.get("schema_compatibility_strategy")
    if strategy in (None, "UNDEFINED"):
        strategy = _CAPITAL.sub("_", policies.get("schema_auto_update_compatibility_strategy") or "") or None
        if strategy is not None and not _enum_number(SchemaCompatibilityStrategy.DESCRIPTOR, strategy):
            strategy = "ALWAYS_INCOMPATIBLE"  # ``SchemaCompatibilityStrategy.fromAutoUpdatePolicy``
    _put(level, "schema_compatibility_strategy", strategy)
    level.replication_clusters.extend(sorted(policies.get("replication_clusters") or ()))
    level.subscription_types_enabled.extend(_subscription_types(policies.get("subscription_types_enabled") or ()))
    return level


def cluster_facts(cluster: str, configuration: Mapping[str, Any]) -> ClusterFacts:
    """Returns what the rules and the effective policies need of a broker's configuration: values or their texts, by name.

    ``cluster`` is the cluster's name. A missing setting has Pulsar's default.

    Raises:
        ValueError: a setting is no value of its type.
    """
    settings = {name: _typed(name, configuration.get(name), default) for name, (default, _) in SETTINGS.items()}
    filters = settings["installedEntryFilters"]
    facts = BrokerFacts(
        _level(settings),
        settings["managedLedgerMaxEnsembleSize"],
        settings["managedLedgerMaxWriteQuorum"],
        settings["managedLedgerMaxAckQuorum"],
        settings["maxMessageSize"],
        frozenset(filters) if filters is not None else None,
        settings["allowOverrideEntryFilters"],
    )
    return ClusterFacts(cluster, facts, settings["topicLevelPoliciesEnabled"])


def _level(settings: Mapping[str, Any]) -> TopicPolicies:
    """Returns a broker's defaults for topics as a document (``AbstractTopic.updateTopicPolicyByBrokerConfig``)."""
    level = TopicPolicies()
    for name, (default, path) in SETTINGS.items():
        value = settings[name]
        if path and value is not None and not (path.startswith(_OFFLOAD) and value == default):
            _put(level, path, value)
    for rate in (level.dispatch_rate, level.subscription_dispatch_rate, level.replicator_dispatch_rate):
        rate.rate_period_in_second, rate.relative_to_publish_rate = 1, False
    gigabytes = settings["backlogQuotaDefaultLimitGB"]
    for kind in ("destination_storage", "message_age"):
        quota = level.back_log_quota_map[kind]
        quota.limit_size = int(gigabytes * _GIGABYTE) if gigabytes > 0 else settings["backlogQuotaDefaultLimitBytes"]
        quota.limit_time = settings["backlogQuotaDefaultLimitSecond"]
        _put(quota, "policy", settings["backlogQuotaDefaultRetentionPolicy"])
    level.subscription_types_enabled.extend(_subscription_types(settings["subscriptionTypesEnabled"]))
    level.entry_filters.entry_filter_names = ",".join(settings["entryFilterNames"])
    return level


def _typed(name: str, value: Any, default: Any) -> Any:
    """Converts a setting, a value or the text that brokers answer with, to the type of its default."""
    if value is None or (value == "" and not isinstance(default, str)):
        return default
    if not isinstance(value, str) or isinstance(default, str):
        return value
    if isinstance(default, list):
        return [name.strip() for name in value.strip("[]").split(",") if name.strip()]
    try:
        if isinstance(default, bool):
            return {"true": True, "false": False}[value]
        return float(value) if isinstance(default, float) else int(value)
    except (ValueError, LookupError) as error:
        raise ValueError(f"{name} can't be {value!r}") from error


def _subscription_types(names: Any) -> list[SubscriptionType.ValueType]:
    """Returns the numbers of these types, in order, without unknown ones."""
    numbers = sorted(_enum_number(SubscriptionType.DESCRIPTOR, name) for name in names)
    return [SubscriptionType.ValueType(number) for number in numbers if number]


def _put(message: Message, path: str, value: Any) -> None:
    """Sets a field, by its path, to a value of JSON: an object of Java names (our JSON names), or a scalar. None sets nothing.

    Raises:
        ValueError: the field can't have the value.
    """
    if value is None:
        return
    *above, name = path.split(".")
    for each in above:
        message = getattr(message, each)
    field: Any = message.DESCRIPTOR.fields_by_name[name]
    if isinstance(value, Mapping) and map_value(field) is not None:
        getattr(message, name).update({str(key): str(each) for key, each in value.items() if each is not None})
    elif isinstance(value, Mapping):
        message.ClearField(name)
        getattr(message, name).SetInParent()
        _fill(getattr(message, name), value)
    elif field.enum_type is not None:
        setattr(message, name, _enum_number(field.enum_type, str(value)))
    else:
        try:
            setattr(message, name, value)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{path} can't be {value!r}") from error


def _fill(message: Message, members: Mapping[str, Any]) -> None:
    """Sets fields from a JSON object's members, without those that are null or unknown."""
    for field in message.DESCRIPTOR.fields:
        _put(message, field.name, members.get(field.json_name))


def _enum_number(enum: EnumDescriptor, symbol: str) -> int:
    """Returns the number of a Java enum's symbol, in upper or lower case; 0 (UNSPECIFIED): it is unknown."""
    prefix = _CAPITAL.sub("_", enum.name).upper()
    value = enum.values_by_name.get(f"{prefix}_{re.sub(r'[^A-Za-z0-9]', '_', symbol).upper()}")
    return int(value.number) if value is not None else 0
