"""A broker's configuration: maxima for the rules, and the defaults for topics, which are the lowest of the four levels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from topicpolicies.v1.policies_pb2 import TopicPolicies

from ..core.policies.facts import BrokerFacts
from .levels import put, subscription_types
from .source import ClusterFacts

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
"""The settings of ``ServiceConfiguration`` (Pulsar 4.2.4) that are used here: default, and the field that has it in a topic's policies."""
_OFFLOAD = "offload_policies."
"""Brokers read these from their file, but the API does not show which values are in the file; so a default counts as not set, as it does in
a file that leaves it out."""
_GIGABYTE = 1024**3


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
            put(level, path, value)
    for rate in (level.dispatch_rate, level.subscription_dispatch_rate, level.replicator_dispatch_rate):
        rate.rate_period_in_second, rate.relative_to_publish_rate = 1, False
    gigabytes = settings["backlogQuotaDefaultLimitGB"]
    for kind in ("destination_storage", "message_age"):
        quota = level.back_log_quota_map[kind]
        quota.limit_size = int(gigabytes * _GIGABYTE) if gigabytes > 0 else settings["backlogQuotaDefaultLimitBytes"]
        quota.limit_time = settings["backlogQuotaDefaultLimitSecond"]
        put(quota, "policy", settings["backlogQuotaDefaultRetentionPolicy"])
    level.subscription_types_enabled.extend(subscription_types(settings["subscriptionTypesEnabled"]))
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
