"""A namespace's policies as a document: one of the four levels that make a topic's effective policies.

The document has what the namespace says, as it is: ``core/policies/resolution`` decides what counts as unset. The names on the left of the
tables are those of ``org.apache.pulsar.common.policies.data.Policies``.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message

from topicpolicies.v1.policies_pb2 import SchemaCompatibilityStrategy, SubscriptionType, TopicPolicies
from topicpolicies.values import map_value

_NAMESPACE_SCALARS = {
    "message_ttl_in_seconds": "message_ttl_in_seconds",
    "subscription_expiration_time_minutes": "subscription_expiration_time_in_minutes",
    "max_producers_per_topic": "max_producer_per_topic",
    "max_consumers_per_topic": "max_consumer_per_topic",
    "max_consumers_per_subscription": "max_consumers_per_subscription",
    "max_subscriptions_per_topic": "max_subscriptions_per_topic",
    "max_unacked_messages_per_consumer": "max_unacked_messages_on_consumer",
    "max_unacked_messages_per_subscription": "max_unacked_messages_on_subscription",
    "compaction_threshold": "compaction_threshold",
    "deduplicationEnabled": "deduplication_enabled",
    "deduplicationSnapshotIntervalSeconds": "deduplication_snapshot_interval_seconds",
    "schema_validation_enforced": "schema_validation_enforced",
    "dispatcherPauseOnAckStatePersistentEnabled": "dispatcher_pause_on_ack_state_persistent_enabled",
}
_NAMESPACE_OBJECTS = {
    "retention_policies": "retention_policies",
    "persistence": "persistence",
    "inactive_topic_policies": "inactive_topic_policies",
    "entryFilters": "entry_filters",
    "autoSubscriptionCreationOverride": "auto_subscription_creation_override",
    "offload_policies": "offload_policies",
}
_NAMESPACE_RATES = {
    "topicDispatchRate": "dispatch_rate",
    "subscriptionDispatchRate": "subscription_dispatch_rate",
    "replicatorDispatchRate": "replicator_dispatch_rate",
    "clusterSubscribeRate": "subscribe_rate",
    "publishMaxMessageRate": "publish_rate",
}
"""Rates that a namespace has by cluster."""
_OLD_DISPATCH_RATE = "clusterDispatchRate"
"""Where brokers look for a dispatch rate that is not in ``topicDispatchRate``."""
_NAMESPACE_DELAYED = {
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
_AUTO_UPDATE = {
    "Backward": "BACKWARD",
    "Forward": "FORWARD",
    "Full": "FULL",
    "AlwaysCompatible": "ALWAYS_COMPATIBLE",
    "ForwardTransitive": "FORWARD_TRANSITIVE",
    "BackwardTransitive": "BACKWARD_TRANSITIVE",
    "FullTransitive": "FULL_TRANSITIVE",
}
"""The older form of a strategy (``SchemaCompatibilityStrategy.fromAutoUpdatePolicy``); other values mean ALWAYS_INCOMPATIBLE."""
_UNUSED = (
    *("allowed_clusters", "auth_policies", "autoTopicCreationOverride", "bundles", "deleted", "encryption_required"),
    *("is_allow_auto_update_schema", "latency_stats_sample_rate", "max_topics_per_namespace", "migrated", "resource_group_name"),
    "subscription_auth_mode",
)
NAMESPACE_POLICIES = frozenset(
    {
        *(_NAMESPACE_SCALARS | _NAMESPACE_OBJECTS | _NAMESPACE_RATES | _OLD_OFFLOAD),
        *(_OLD_DISPATCH_RATE, "backlog_quota_map", "delayed_delivery_policies", "replication_clusters", "subscription_types_enabled"),
        *("schema_compatibility_strategy", "schema_auto_update_compatibility_strategy", "properties", *_UNUSED),
    }
)
"""All that the admin API answers of a namespace's policies."""
_STRATEGY = SchemaCompatibilityStrategy.DESCRIPTOR
_TYPES = SubscriptionType.DESCRIPTOR


def namespace_level(policies: Mapping[str, Any], cluster: str) -> TopicPolicies:
    """Returns the answer to ``GET /admin/v2/namespaces/{tenant}/{namespace}`` as a document, with the rates of the local cluster."""
    level = TopicPolicies()
    for name, field in _NAMESPACE_SCALARS.items():
        if policies.get(name) is not None:
            setattr(level, field, policies[name])
    for name, field in _NAMESPACE_OBJECTS.items():
        if policies.get(name) is not None:
            getattr(level, field).SetInParent()
            _fill(getattr(level, field), policies[name])
    for name, field in _NAMESPACE_RATES.items():
        rate = (policies.get(name) or {}).get(cluster)
        if rate is None and field == "dispatch_rate":
            rate = (policies.get(_OLD_DISPATCH_RATE) or {}).get(cluster)
        if rate is not None:
            getattr(level, field).SetInParent()
            _fill(getattr(level, field), rate)
    for kind, quota in (policies.get("backlog_quota_map") or {}).items():
        _fill(level.back_log_quota_map[kind], quota)
    _put_together(level, policies)
    level.replication_clusters.extend(sorted(policies.get("replication_clusters") or ()))
    level.subscription_types_enabled.extend(subscription_types(policies.get("subscription_types_enabled") or ()))
    return level


def _put_together(level: TopicPolicies, policies: Mapping[str, Any]) -> None:
    """Sets the fields that Pulsar keeps in several places, or in several forms."""
    for member, field in _NAMESPACE_DELAYED.items():
        value = (policies.get("delayed_delivery_policies") or {}).get(member)
        if value is not None:
            setattr(level, field, value)
    for name, (field, nothing) in _OLD_OFFLOAD.items():
        value = policies.get(name)
        if value not in (None, nothing) and not level.offload_policies.HasField(field):  # type: ignore[arg-type]
            setattr(level.offload_policies, field, value)
    strategy = policies.get("schema_compatibility_strategy")
    if strategy in (None, "UNDEFINED"):
        older = policies.get("schema_auto_update_compatibility_strategy")
        strategy = _AUTO_UPDATE.get(older, "ALWAYS_INCOMPATIBLE") if older else None
    if strategy is not None:
        level.schema_compatibility_strategy = strategy_number(strategy)


def subscription_types(names: Any) -> list[SubscriptionType.ValueType]:
    """Returns the numbers of these types, in order, without unknown ones."""
    numbers = sorted(enum_number(_TYPES, name) for name in names)
    return [SubscriptionType.ValueType(number) for number in numbers if number]


def strategy_number(name: str) -> SchemaCompatibilityStrategy.ValueType:
    """Returns the number of a strategy."""
    return SchemaCompatibilityStrategy.ValueType(enum_number(_STRATEGY, name))


def _fill(message: Message, members: Mapping[str, Any]) -> None:
    """Sets fields from a JSON object's members, by their Java names (our JSON names), without those that are null or unknown."""
    fields = _by_java_name(message.DESCRIPTOR)
    for name, value in members.items():
        field = fields.get(name)
        if field is not None and value is not None:
            _put(message, field, value)


def enum_number(enum: EnumDescriptor, symbol: str) -> int:
    """Returns the number of a Java enum's symbol, in upper or lower case; 0 (UNSPECIFIED): it is unknown."""
    prefix = re.sub(r"(?<!^)(?=[A-Z])", "_", enum.name).upper()
    value = enum.values_by_name.get(f"{prefix}_{re.sub(r'[^A-Za-z0-9]', '_', symbol).upper()}")
    return int(value.number) if value is not None else 0


def _put(message: Message, field: FieldDescriptor, value: Any) -> None:
    place = getattr(message, field.name)
    if isinstance(value, Mapping) and map_value(field) is not None:
        place.update({str(key): str(each) for key, each in value.items() if each is not None})
    elif isinstance(value, Mapping):
        place.SetInParent()
        _fill(place, value)
    elif field.enum_type is not None:
        setattr(message, field.name, enum_number(field.enum_type, str(value)))
    else:
        setattr(message, field.name, value)


@functools.cache
def _by_java_name(descriptor: Descriptor) -> Mapping[str, FieldDescriptor]:
    return {field.json_name: field for field in descriptor.fields}
