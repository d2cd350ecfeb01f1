"""A broker's configuration: maxima for the rules, and the defaults for topics, which are the lowest of the four levels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from topicpolicies.v1 import policies_pb2 as pb
from topicpolicies.v1.policies_pb2 import TopicPolicies

from ..core.policies.facts import BrokerFacts
from .levels import enum_number, strategy_number, subscription_types
from .source import ClusterFacts

DEFAULTS: Mapping[str, Any] = {
    "allowAutoSubscriptionCreation": True,
    "allowOverrideEntryFilters": False,
    "backlogQuotaDefaultLimitBytes": -1,
    "backlogQuotaDefaultLimitGB": -1.0,
    "backlogQuotaDefaultLimitSecond": -1,
    "backlogQuotaDefaultRetentionPolicy": "producer_request_hold",
    "brokerDeduplicationEnabled": False,
    "brokerDeduplicationSnapshotIntervalSeconds": 120,
    "brokerDeleteInactiveTopicsEnabled": True,
    "brokerDeleteInactiveTopicsFrequencySeconds": 60,
    "brokerDeleteInactiveTopicsMaxInactiveDurationSeconds": None,
    "brokerDeleteInactiveTopicsMode": "delete_when_no_subscriptions",
    "brokerServiceCompactionThresholdInBytes": 0,
    "defaultRetentionSizeInMB": 0,
    "defaultRetentionTimeInMinutes": 0,
    "delayedDeliveryEnabled": True,
    "delayedDeliveryMaxDelayInMillis": 0,
    "delayedDeliveryTickTimeMillis": 1000,
    "dispatchThrottlingRatePerReplicatorInByte": 0,
    "dispatchThrottlingRatePerReplicatorInMsg": 0,
    "dispatchThrottlingRatePerSubscriptionInByte": 0,
    "dispatchThrottlingRatePerSubscriptionInMsg": 0,
    "dispatchThrottlingRatePerTopicInByte": 0,
    "dispatchThrottlingRatePerTopicInMsg": 0,
    "dispatcherPauseOnAckStatePersistentEnabled": False,
    "entryFilterNames": [],
    "isSchemaValidationEnforced": False,
    "managedLedgerDefaultAckQuorum": 2,
    "managedLedgerDefaultEnsembleSize": 2,
    "managedLedgerDefaultMarkDeleteRateLimit": 1.0,
    "managedLedgerDefaultWriteQuorum": 2,
    "managedLedgerMaxAckQuorum": 5,
    "managedLedgerMaxEnsembleSize": 5,
    "managedLedgerMaxWriteQuorum": 5,
    "maxConsumersPerSubscription": 0,
    "maxConsumersPerTopic": 0,
    "maxMessageSize": 5 * 1024 * 1024,
    "maxProducersPerTopic": 0,
    "maxPublishRatePerTopicInBytes": 0,
    "maxPublishRatePerTopicInMessages": 0,
    "maxSubscriptionsPerTopic": 0,
    "maxUnackedMessagesPerConsumer": 50_000,
    "maxUnackedMessagesPerSubscription": 200_000,
    "schemaCompatibilityStrategy": "FULL",
    "subscribeRatePeriodPerConsumerInSecond": 30,
    "subscribeThrottlingRatePerConsumer": 0,
    "subscriptionExpirationTimeMinutes": 0,
    "subscriptionTypesEnabled": ["Exclusive", "Shared", "Failover", "Key_Shared"],
    "topicLevelPoliciesEnabled": True,
    "ttlDurationDefaultInSeconds": 0,
}
"""The settings of ``ServiceConfiguration`` (Pulsar 4.2.4) that are used here, with their defaults."""
_OFFLOAD = {
    "managedLedgerOffloadDriver": ("managed_ledger_offload_driver", ""),
    "managedLedgerOffloadMaxThreads": ("managed_ledger_offload_max_threads", 2),
    "managedLedgerOffloadReadThreads": ("managed_ledger_offload_read_threads", 2),
    "managedLedgerOffloadPrefetchRounds": ("managed_ledger_offload_prefetch_rounds", 1),
    "managedLedgerOffloadThresholdInSeconds": ("managed_ledger_offload_threshold_in_seconds", -1),
    "managedLedgerOffloadAutoTriggerSizeThresholdBytes": ("managed_ledger_offload_threshold_in_bytes", -1),
    "managedLedgerOffloadDeletionLagMs": ("managed_ledger_offload_deletion_lag_in_millis", 14_400_000),
    "offloadersDirectory": ("offloaders_directory", "./offloaders"),
}
"""Offload settings of the configuration, with their fields and defaults. Brokers read these from their file, but the API does not show
which values are in the file; so a default counts as not set, as it does in a file that leaves it out."""
_SCALARS = {
    "brokerDeduplicationEnabled": "deduplication_enabled",
    "brokerDeduplicationSnapshotIntervalSeconds": "deduplication_snapshot_interval_seconds",
    "brokerServiceCompactionThresholdInBytes": "compaction_threshold",
    "delayedDeliveryEnabled": "delayed_delivery_enabled",
    "delayedDeliveryMaxDelayInMillis": "delayed_delivery_max_delay_in_millis",
    "delayedDeliveryTickTimeMillis": "delayed_delivery_tick_time_millis",
    "dispatcherPauseOnAckStatePersistentEnabled": "dispatcher_pause_on_ack_state_persistent_enabled",
    "isSchemaValidationEnforced": "schema_validation_enforced",
    "maxConsumersPerSubscription": "max_consumers_per_subscription",
    "maxConsumersPerTopic": "max_consumer_per_topic",
    "maxMessageSize": "max_message_size",
    "maxProducersPerTopic": "max_producer_per_topic",
    "maxSubscriptionsPerTopic": "max_subscriptions_per_topic",
    "maxUnackedMessagesPerConsumer": "max_unacked_messages_on_consumer",
    "maxUnackedMessagesPerSubscription": "max_unacked_messages_on_subscription",
    "subscriptionExpirationTimeMinutes": "subscription_expiration_time_in_minutes",
    "ttlDurationDefaultInSeconds": "message_ttl_in_seconds",
}
SETTINGS = frozenset({*DEFAULTS, *_OFFLOAD, "installedEntryFilters"})
"""All that is used here."""
_DISPATCH = {"Topic": "dispatch_rate", "Subscription": "subscription_dispatch_rate", "Replicator": "replicator_dispatch_rate"}
_KINDS = ("destination_storage", "message_age")
_GIGABYTE = 1024**3


def cluster_facts(cluster: str, configuration: Mapping[str, Any]) -> ClusterFacts:
    """Returns what the rules and the effective policies need of a broker's configuration: values or their texts, by name.

    ``cluster`` is the cluster's name. A missing setting has Pulsar's default.

    Raises:
        ValueError: a setting is no value of its type.
    """
    settings = {name: _typed(configuration.get(name), default) for name, default in DEFAULTS.items()}
    filters = configuration.get("installedEntryFilters")  # a cluster file may name them; brokers do not report them
    level = _level(settings)
    for name, (field, default) in _OFFLOAD.items():
        value = _typed(configuration.get(name), default)
        if value != default:
            setattr(level.offload_policies, field, value)
    facts = BrokerFacts(
        level,
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
    for name, field in _SCALARS.items():
        setattr(level, field, settings[name])
    for name, field in _DISPATCH.items():
        rate = getattr(level, field)
        rate.dispatch_throttling_rate_in_msg = settings[f"dispatchThrottlingRatePer{name}InMsg"]
        rate.dispatch_throttling_rate_in_byte = settings[f"dispatchThrottlingRatePer{name}InByte"]
        rate.rate_period_in_second, rate.relative_to_publish_rate = 1, False
    level.publish_rate.publish_throttling_rate_in_msg = settings["maxPublishRatePerTopicInMessages"]
    level.publish_rate.publish_throttling_rate_in_byte = settings["maxPublishRatePerTopicInBytes"]
    level.subscribe_rate.subscribe_throttling_rate_per_consumer = settings["subscribeThrottlingRatePerConsumer"]
    level.subscribe_rate.rate_period_in_second = settings["subscribeRatePeriodPerConsumerInSecond"]
    level.retention_policies.retention_time_in_minutes = settings["defaultRetentionTimeInMinutes"]
    level.retention_policies.retention_size_in_mb = settings["defaultRetentionSizeInMB"]
    level.persistence.bookkeeper_ensemble = settings["managedLedgerDefaultEnsembleSize"]
    level.persistence.bookkeeper_write_quorum = settings["managedLedgerDefaultWriteQuorum"]
    level.persistence.bookkeeper_ack_quorum = settings["managedLedgerDefaultAckQuorum"]
    level.persistence.managed_ledger_max_mark_delete_rate = settings["managedLedgerDefaultMarkDeleteRateLimit"]
    inactive = level.inactive_topic_policies
    inactive.delete_while_inactive = settings["brokerDeleteInactiveTopicsEnabled"]
    longest = settings["brokerDeleteInactiveTopicsMaxInactiveDurationSeconds"]
    inactive.max_inactive_duration_seconds = settings["brokerDeleteInactiveTopicsFrequencySeconds"] if longest is None else longest
    mode = enum_number(pb.InactiveTopicDeleteMode.DESCRIPTOR, settings["brokerDeleteInactiveTopicsMode"])
    inactive.inactive_topic_delete_mode = pb.InactiveTopicDeleteMode.ValueType(mode)
    gigabytes = settings["backlogQuotaDefaultLimitGB"]
    for kind in _KINDS:
        quota = level.back_log_quota_map[kind]
        quota.limit_size = int(gigabytes * _GIGABYTE) if gigabytes > 0 else settings["backlogQuotaDefaultLimitBytes"]
        quota.limit_time = settings["backlogQuotaDefaultLimitSecond"]
        policy = enum_number(pb.BacklogQuotaPolicy.DESCRIPTOR, settings["backlogQuotaDefaultRetentionPolicy"])
        quota.policy = pb.BacklogQuotaPolicy.ValueType(policy)
    level.schema_compatibility_strategy = strategy_number(settings["schemaCompatibilityStrategy"])
    level.subscription_types_enabled.extend(subscription_types(settings["subscriptionTypesEnabled"]))
    level.entry_filters.entry_filter_names = ",".join(settings["entryFilterNames"])
    level.auto_subscription_creation_override.allow_auto_subscription_creation = settings["allowAutoSubscriptionCreation"]
    return level


def _typed(value: Any, default: Any) -> Any:
    """Converts a setting, a value or the text that brokers answer with, to the type of its default."""
    if value is None or (value == "" and not isinstance(default, str)):
        return default
    if not isinstance(value, str) or isinstance(default, str):
        return value
    if isinstance(default, bool):
        if value not in ("true", "false"):
            raise ValueError(f"{value!r} is neither true nor false")
        return value == "true"
    if isinstance(default, list):
        return [name.strip() for name in value.strip("[]").split(",") if name.strip()]
    return float(value) if isinstance(default, float) else int(value)
