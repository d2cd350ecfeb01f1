"""Two whole documents: every field of the policies is set, and differs in the two."""

from __future__ import annotations

from typing import Any

from topicpolicies.v1 import policies_pb2 as pb
from topicpolicies.v1.policies_pb2 import TopicPolicies

REDACTED = "********"
SECRETS = ("s3_managed_ledger_offload_credential_id", "s3_managed_ledger_offload_credential_secret")
FIELDS = [each.name for each in TopicPolicies.DESCRIPTOR.fields]


def _offload(number: int) -> pb.OffloadPolicies:
    made = pb.OffloadPolicies()
    for field in made.DESCRIPTOR.fields:
        if field.type == field.TYPE_STRING and not field.is_repeated:
            setattr(made, field.name, f"{field.name}-{number}")
        elif field.type in (field.TYPE_INT32, field.TYPE_INT64):
            setattr(made, field.name, 1_000 + number)
    made.managed_ledger_offload_driver = "aws-s3"
    made.managed_ledger_offloaded_read_priority = pb.OFFLOADED_READ_PRIORITY_BOOKKEEPER_FIRST
    made.managed_ledger_extra_configurations["region.hint"] = f"hint-{number}"
    return made


def whole(number: int) -> TopicPolicies:
    """Returns a document in which every field is set.

    Args:
        number: 1 or 2; the two documents differ in each field.
    """
    other = number == 2
    rates: dict[str, Any] = {"dispatch_throttling_rate_in_byte": 100 * number, "dispatch_throttling_rate_in_msg": 10 * number}
    rate = pb.DispatchRate(**rates, rate_period_in_second=number, relative_to_publish_rate=other)
    policy = pb.BACKLOG_QUOTA_POLICY_PRODUCER_EXCEPTION if other else pb.BACKLOG_QUOTA_POLICY_PRODUCER_REQUEST_HOLD
    made = TopicPolicies(
        auto_subscription_creation_override=pb.AutoSubscriptionCreationOverride(allow_auto_subscription_creation=other),
        back_log_quota_map={"destination_storage": pb.BacklogQuota(limit_size=1_000 * number, limit_time=-1, policy=policy)},
        deduplication_enabled=other,
        delayed_delivery_enabled=other,
        dispatch_rate=rate,
        dispatcher_pause_on_ack_state_persistent_enabled=other,
        entry_filters=pb.EntryFilters(entry_filter_names=f"filter-{number}"),
        inactive_topic_policies=pb.InactiveTopicPolicies(
            delete_while_inactive=other,
            inactive_topic_delete_mode=pb.INACTIVE_TOPIC_DELETE_MODE_DELETE_WHEN_NO_SUBSCRIPTIONS,
            max_inactive_duration_seconds=60 * number,
        ),
        offload_policies=_offload(number),
        persistence=pb.PersistencePolicies(
            bookkeeper_ack_quorum=1,
            bookkeeper_ensemble=1 + number,
            bookkeeper_write_quorum=2,
            managed_ledger_max_mark_delete_rate=0.5 * number,
            managed_ledger_storage_class_name=f"class-{number}",
        ),
        publish_rate=pb.PublishRate(publish_throttling_rate_in_byte=7 * number, publish_throttling_rate_in_msg=8 * number),
        replication_clusters=["standalone", "eu"] if other else ["standalone"],
        replicator_dispatch_rate=rate,
        retention_policies=pb.RetentionPolicies(retention_size_in_mb=100 * number, retention_time_in_minutes=50 * number),
        schema_compatibility_strategy=pb.SCHEMA_COMPATIBILITY_STRATEGY_FULL if other else pb.SCHEMA_COMPATIBILITY_STRATEGY_FORWARD,
        schema_validation_enforced=other,
        shadow_topics=[f"persistent://public/shadow/of-{number}"],
        subscribe_rate=pb.SubscribeRate(rate_period_in_second=number, subscribe_throttling_rate_per_consumer=number),
        subscription_dispatch_rate=rate,
        subscription_policies={
            f"sub-{number}": pb.SubscriptionPolicies(dispatch_rate=rate),
            "both": pb.SubscriptionPolicies(dispatch_rate=rate),
        },
        subscription_types_enabled=[pb.SUBSCRIPTION_TYPE_SHARED, pb.SUBSCRIPTION_TYPE_FAILOVER][: 3 - number],
    )
    for field in made.DESCRIPTOR.fields:
        if field.type in (field.TYPE_INT32, field.TYPE_INT64) and not field.is_repeated:
            setattr(made, field.name, 10 * field.number + number)
    return made


def shown(policies: TopicPolicies) -> TopicPolicies:
    """Returns a document as answers show it: with the secrets redacted."""
    made = TopicPolicies.FromString(policies.SerializeToString())
    for name in SECRETS:
        if made.offload_policies.HasField(name):  # type: ignore[arg-type]
            setattr(made.offload_policies, name, REDACTED)
    return made


def only(policies: TopicPolicies, *names: str) -> TopicPolicies:
    """Returns a document that has only these fields of another one."""
    made = TopicPolicies.FromString(policies.SerializeToString())
    for name in FIELDS:
        if name not in names:
            made.ClearField(name)  # type: ignore[arg-type]
    return made


def without(policies: TopicPolicies, *names: str) -> TopicPolicies:
    """Returns a document without these fields of another one."""
    return only(policies, *(name for name in FIELDS if name not in names))


OFFLOAD = {
    "managedLedgerOffloadDriver": "aws-s3",
    "managedLedgerOffloadBucket": "bucket",
    "managedLedgerOffloadRegion": "eu-west-1",
    "s3ManagedLedgerOffloadBucket": "bucket",
    "s3ManagedLedgerOffloadRegion": "eu-west-1",
    "s3ManagedLedgerOffloadCredentialId": "id",
    "s3ManagedLedgerOffloadCredentialSecret": "hush",
}
"""Offload policies with a secret, as the admin API takes them."""
