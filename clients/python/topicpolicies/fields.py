"""The policies as keyword arguments, so that type checkers and editors know them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias, TypedDict

from .v1 import policies_pb2 as pb

Parts: TypeAlias = Mapping[str, Any]
"""An object, as a mapping from its fields' names to their values."""


class PolicyFields(TypedDict, total=False):
    """The fields of ``TopicPolicies``, by name. None clears a field. docs/api.md has the units and meanings of all fields."""

    auto_subscription_creation_override: pb.AutoSubscriptionCreationOverride | Parts | None
    back_log_quota_map: Mapping[str, pb.BacklogQuota | Parts] | None
    compaction_threshold: int | None
    deduplication_enabled: bool | None
    deduplication_snapshot_interval_seconds: int | None
    delayed_delivery_enabled: bool | None
    delayed_delivery_max_delay_in_millis: int | None
    delayed_delivery_tick_time_millis: int | None
    dispatch_rate: pb.DispatchRate | Parts | None
    dispatcher_pause_on_ack_state_persistent_enabled: bool | None
    entry_filters: pb.EntryFilters | Parts | None
    inactive_topic_policies: pb.InactiveTopicPolicies | Parts | None
    max_consumer_per_topic: int | None
    max_consumers_per_subscription: int | None
    max_message_size: int | None
    max_producer_per_topic: int | None
    max_subscriptions_per_topic: int | None
    max_unacked_messages_on_consumer: int | None
    max_unacked_messages_on_subscription: int | None
    message_ttl_in_seconds: int | None
    offload_policies: pb.OffloadPolicies | Parts | None
    persistence: pb.PersistencePolicies | Parts | None
    publish_rate: pb.PublishRate | Parts | None
    replication_clusters: Iterable[str] | None
    replicator_dispatch_rate: pb.DispatchRate | Parts | None
    retention_policies: pb.RetentionPolicies | Parts | None
    schema_compatibility_strategy: pb.SchemaCompatibilityStrategy.ValueType | str | None
    schema_validation_enforced: bool | None
    shadow_topics: Iterable[str] | None
    subscribe_rate: pb.SubscribeRate | Parts | None
    subscription_dispatch_rate: pb.DispatchRate | Parts | None
    subscription_expiration_time_in_minutes: int | None
    subscription_policies: Mapping[str, pb.SubscriptionPolicies | Parts] | None
    subscription_types_enabled: Iterable[pb.SubscriptionType.ValueType | str] | None
