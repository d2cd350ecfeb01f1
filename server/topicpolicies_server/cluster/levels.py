"""A namespace's policies as a document: one of the four levels that make a topic's effective policies.

The document has what the namespace says, as it is: ``core/policies/resolution`` decides what counts as unset. The names on the left of the
tables are those of ``org.apache.pulsar.common.policies.data.Policies``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from google.protobuf.descriptor import EnumDescriptor
from google.protobuf.message import Message

from topicpolicies.v1.policies_pb2 import SchemaCompatibilityStrategy, SubscriptionType, TopicPolicies
from topicpolicies.values import map_value

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
_CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")


def namespace_level(policies: Mapping[str, Any], cluster: str) -> TopicPolicies:
    """Returns the answer to ``GET /admin/v2/namespaces/{tenant}/{namespace}`` as a document, with the rates of the local cluster."""
    level = TopicPolicies()
    for name, field in _FIELDS.items():
        put(level, field, policies.get(name))
    for name, field in _RATES.items():
        put(level, field, (policies.get(name) or {}).get(cluster))
    for kind, quota in (policies.get("backlog_quota_map") or {}).items():
        _fill(level.back_log_quota_map[kind], quota)
    for member, field in _DELAYED.items():
        put(level, field, (policies.get("delayed_delivery_policies") or {}).get(member))
    for name, (field, nothing) in _OLD_OFFLOAD.items():
        value = policies.get(name)
        if value != nothing and not level.offload_policies.HasField(field):  # type: ignore[arg-type]
            put(level, f"offload_policies.{field}", value)
    strategy = policies.get("schema_compatibility_strategy")
    if strategy in (None, "UNDEFINED"):
        strategy = _CAPITAL.sub("_", policies.get("schema_auto_update_compatibility_strategy") or "") or None
        if strategy is not None and not enum_number(SchemaCompatibilityStrategy.DESCRIPTOR, strategy):
            strategy = "ALWAYS_INCOMPATIBLE"  # ``SchemaCompatibilityStrategy.fromAutoUpdatePolicy``
    put(level, "schema_compatibility_strategy", strategy)
    level.replication_clusters.extend(sorted(policies.get("replication_clusters") or ()))
    level.subscription_types_enabled.extend(subscription_types(policies.get("subscription_types_enabled") or ()))
    return level


def subscription_types(names: Any) -> list[SubscriptionType.ValueType]:
    """Returns the numbers of these types, in order, without unknown ones."""
    numbers = sorted(enum_number(SubscriptionType.DESCRIPTOR, name) for name in names)
    return [SubscriptionType.ValueType(number) for number in numbers if number]


def put(message: Message, path: str, value: Any) -> None:
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
        setattr(message, name, enum_number(field.enum_type, str(value)))
    else:
        try:
            setattr(message, name, value)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{path} can't be {value!r}") from error


def _fill(message: Message, members: Mapping[str, Any]) -> None:
    """Sets fields from a JSON object's members, without those that are null or unknown."""
    for field in message.DESCRIPTOR.fields:
        put(message, field.name, members.get(field.json_name))


def enum_number(enum: EnumDescriptor, symbol: str) -> int:
    """Returns the number of a Java enum's symbol, in upper or lower case; 0 (UNSPECIFIED): it is unknown."""
    prefix = _CAPITAL.sub("_", enum.name).upper()
    value = enum.values_by_name.get(f"{prefix}_{re.sub(r'[^A-Za-z0-9]', '_', symbol).upper()}")
    return int(value.number) if value is not None else 0
