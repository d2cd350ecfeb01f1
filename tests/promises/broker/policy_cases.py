"""Every policy with two realistic values, and how the admin API sets, reads and removes it.

The two values of a case differ in each leaf, so that a test that sets the first and then the second sees every leaf change; ``leaf_paths``
names the leaves, for tests of masks. The JSON is written by hand: it has the broker's form, and no code of this project made it.

Measured on Pulsar 4.2.4. Every policy has an endpoint; these are the exceptions:

- ``entryFilters`` accepts only filters that are installed on the broker, but also shows others that came through the log (``settable``).
- ``schemaValidationEnforced`` has no DELETE: over REST it can be set to false, not unset.
- ``dispatcherPauseOnAckStatePersistent`` takes no value: setting means true, removing means false.
- Both of these answer false when they are not set (``unset``); only the log shows whether they are set.
- ``schemaCompatibilityStrategy``, ``schemaValidationEnforced`` and ``shadowTopics`` exist in the LOCAL scope only; ``isGlobal`` is
  ignored there, not refused.
- ``messageTTL`` and ``subscriptionExpirationTime`` take their value from the query.
- ``offloadPolicies`` fills missing leaves with Pulsar's defaults, and its answers have three computed members in addition to the leaves.
- ``replication`` in the GLOBAL scope is refused unless the namespace is replicated (``Need.TWO_CLUSTERS``).
"""

from __future__ import annotations

from typing import Any

from tests.promises.broker.policy_case import ELSEWHERE, HERE, LOCAL_ONLY, NAMESPACE, SHADOWS, SUBSCRIPTION, Case, Example, Need, filled
from topicpolicies.v1 import policies_pb2 as pb


def _case(setting: str, path: str, *examples: Example, **options: Any) -> Case:
    return Case(setting, path, examples, **options)


def _number(setting: str, path: str, one: int, other: int, **options: Any) -> Case:
    """Returns the case of a policy that is one number."""
    examples = [Example(pb.TopicPolicies(**{setting: value}), value) for value in (one, other)]  # type: ignore[arg-type]
    return _case(setting, path, *examples, **options)


def _flag(setting: str, path: str, **options: Any) -> Case:
    """Returns the case of a policy that is true or false."""
    examples = [Example(pb.TopicPolicies(**{setting: value}), value) for value in (True, False)]  # type: ignore[arg-type]
    return _case(setting, path, *examples, **options)


def _rate(messages: int, size: int, period: int, relative: bool) -> tuple[pb.DispatchRate, dict[str, Any]]:
    return pb.DispatchRate(
        dispatch_throttling_rate_in_msg=messages,
        dispatch_throttling_rate_in_byte=size,
        rate_period_in_second=period,
        relative_to_publish_rate=relative,
    ), {
        "dispatchThrottlingRateInMsg": messages,
        "dispatchThrottlingRateInByte": size,
        "ratePeriodInSecond": period,
        "relativeToPublishRate": relative,
    }


_SLOW = _rate(100, 2**20, 5, relative=True)
_FAST = _rate(-1, 2**33, 1, relative=False)


def _rates(setting: str, path: str) -> Case:
    """Returns the case of a dispatch rate."""
    return _case(setting, path, *(Example(pb.TopicPolicies(**{setting: rate}), members) for rate, members in (_SLOW, _FAST)))  # type: ignore[arg-type]


def _quota(kind: str, first: tuple[int, int, str], second: tuple[int, int, str]) -> Case:
    examples = []
    for size, seconds, symbol in (first, second):
        quota = pb.BacklogQuota(
            limit_size=size, limit_time=seconds, policy=pb.BacklogQuotaPolicy.Value(f"BACKLOG_QUOTA_POLICY_{symbol.upper()}")
        )
        members = {"limit": size, "limitSize": size, "limitTime": seconds, "policy": symbol}
        examples.append(Example(pb.TopicPolicies(back_log_quota_map={kind: quota}), members))
    return _case(f"back_log_quota_map/{kind}", "backlogQuota", *examples, query={"backlogQuotaType": kind}, answer_path="backlogQuotaMap")


def _object(setting: str, path: str, *members: dict[str, Any], **options: Any) -> Case:
    """Returns the case of a policy that is an object, whose JSON has the leaves as members of the same names."""
    examples = []
    for each in members:
        policies = pb.TopicPolicies()
        filled(getattr(policies, setting), each)
        examples.append(Example(policies, each))
    return _case(setting, path, *examples, **options)


_AMAZON = {
    "fileSystemProfilePath": "/etc/hadoop/core-site.xml",
    "fileSystemURI": "hdfs://127.0.0.1:9000",
    "gcsManagedLedgerOffloadBucket": "ledgers-gcs",
    "gcsManagedLedgerOffloadMaxBlockSizeInBytes": 67108864,
    "gcsManagedLedgerOffloadReadBufferSizeInBytes": 1048577,
    "gcsManagedLedgerOffloadRegion": "europe-west3",
    "gcsManagedLedgerOffloadServiceAccountKeyFile": "/etc/pulsar/gcs.json",
    "managedLedgerExtraConfigurations": {"managedLedgerOffloadExtraConfigMaxConnections": "20"},
    "managedLedgerOffloadBucket": "ledgers",
    "managedLedgerOffloadDeletionLagInMillis": 3600000,
    "managedLedgerOffloadDriver": "aws-s3",
    "managedLedgerOffloadMaxBlockSizeInBytes": 67108865,
    "managedLedgerOffloadMaxThreads": 3,
    "managedLedgerOffloadPrefetchRounds": 2,
    "managedLedgerOffloadReadBufferSizeInBytes": 1048578,
    "managedLedgerOffloadReadThreads": 4,
    "managedLedgerOffloadRegion": "eu-central-1",
    "managedLedgerOffloadServiceEndpoint": "http://127.0.0.1:9001",
    "managedLedgerOffloadThresholdInBytes": 10737418240,
    "managedLedgerOffloadThresholdInSeconds": 86400,
    "managedLedgerOffloadedReadPriority": "BOOKKEEPER_FIRST",
    "offloadersDirectory": "./offloaders-of-the-topic",
    "s3ManagedLedgerOffloadBucket": "ledgers-s3",
    "s3ManagedLedgerOffloadCredentialId": "an-id",
    "s3ManagedLedgerOffloadCredentialSecret": "a-secret",
    "s3ManagedLedgerOffloadMaxBlockSizeInBytes": 67108866,
    "s3ManagedLedgerOffloadReadBufferSizeInBytes": 1048579,
    "s3ManagedLedgerOffloadRegion": "eu-west-1",
    "s3ManagedLedgerOffloadRole": "arn:aws:iam::123456789012:role/offload",
    "s3ManagedLedgerOffloadRoleSessionName": "offload-session",
    "s3ManagedLedgerOffloadServiceEndpoint": "http://127.0.0.1:9002",
}

_GOOGLE = {
    "fileSystemProfilePath": "/etc/hadoop/other-site.xml",
    "fileSystemURI": "hdfs://127.0.0.1:9003",
    "gcsManagedLedgerOffloadBucket": "other-gcs",
    "gcsManagedLedgerOffloadMaxBlockSizeInBytes": 134217728,
    "gcsManagedLedgerOffloadReadBufferSizeInBytes": 2097153,
    "gcsManagedLedgerOffloadRegion": "europe-west4",
    "gcsManagedLedgerOffloadServiceAccountKeyFile": "/etc/pulsar/other.json",
    "managedLedgerExtraConfigurations": {"managedLedgerOffloadExtraConfigMaxConnections": "40"},
    "managedLedgerOffloadBucket": "other",
    "managedLedgerOffloadDeletionLagInMillis": 7200000,
    "managedLedgerOffloadDriver": "google-cloud-storage",
    "managedLedgerOffloadMaxBlockSizeInBytes": 134217729,
    "managedLedgerOffloadMaxThreads": 5,
    "managedLedgerOffloadPrefetchRounds": 4,
    "managedLedgerOffloadReadBufferSizeInBytes": 2097154,
    "managedLedgerOffloadReadThreads": 6,
    "managedLedgerOffloadRegion": "eu-central-2",
    "managedLedgerOffloadServiceEndpoint": "http://127.0.0.1:9004",
    "managedLedgerOffloadThresholdInBytes": 21474836480,
    "managedLedgerOffloadThresholdInSeconds": 172800,
    "managedLedgerOffloadedReadPriority": "TIERED_STORAGE_FIRST",
    "offloadersDirectory": "./other-offloaders",
    "s3ManagedLedgerOffloadBucket": "other-s3",
    "s3ManagedLedgerOffloadCredentialId": "another-id",
    "s3ManagedLedgerOffloadCredentialSecret": "another-secret",
    "s3ManagedLedgerOffloadMaxBlockSizeInBytes": 134217730,
    "s3ManagedLedgerOffloadReadBufferSizeInBytes": 2097155,
    "s3ManagedLedgerOffloadRegion": "eu-west-2",
    "s3ManagedLedgerOffloadRole": "arn:aws:iam::123456789012:role/other",
    "s3ManagedLedgerOffloadRoleSessionName": "other-session",
    "s3ManagedLedgerOffloadServiceEndpoint": "http://127.0.0.1:9005",
}

CASES: tuple[Case, ...] = (
    _object(
        "auto_subscription_creation_override",
        "autoSubscriptionCreation",
        {"allowAutoSubscriptionCreation": True},
        {"allowAutoSubscriptionCreation": False},
    ),
    _quota("destination_storage", (2**30, -1, "producer_exception"), (2**31, 7200, "consumer_backlog_eviction")),
    _quota("message_age", (-1, 3600, "consumer_backlog_eviction"), (2**40, 86400, "producer_request_hold")),
    _number("compaction_threshold", "compactionThreshold", 2**27, 2**33),
    _flag("deduplication_enabled", "deduplicationEnabled"),
    _number("deduplication_snapshot_interval_seconds", "deduplicationSnapshotInterval", 120, 600),
    _case(
        "delayed_delivery",
        "delayedDelivery",
        Example(
            pb.TopicPolicies(
                delayed_delivery_enabled=True, delayed_delivery_tick_time_millis=500, delayed_delivery_max_delay_in_millis=86400000
            ),
            {"active": True, "tickTime": 500, "maxDeliveryDelayInMillis": 86400000},
        ),
        Example(
            pb.TopicPolicies(
                delayed_delivery_enabled=False, delayed_delivery_tick_time_millis=2000, delayed_delivery_max_delay_in_millis=2**40
            ),
            {"active": False, "tickTime": 2000, "maxDeliveryDelayInMillis": 2**40},
        ),
    ),
    _rates("dispatch_rate", "dispatchRate"),
    _flag(
        "dispatcher_pause_on_ack_state_persistent_enabled",
        "dispatcherPauseOnAckStatePersistent",
        bodiless=True,
        removed=pb.TopicPolicies(dispatcher_pause_on_ack_state_persistent_enabled=False),
        unset=pb.TopicPolicies(dispatcher_pause_on_ack_state_persistent_enabled=False),
    ),
    _object(
        "entry_filters", "entryFilters", {"entryFilterNames": "by-region"}, {"entryFilterNames": "by-region,by-tenant"}, settable=False
    ),
    _object(
        "inactive_topic_policies",
        "inactiveTopicPolicies",
        {
            "deleteWhileInactive": True,
            "inactiveTopicDeleteMode": "delete_when_subscriptions_caught_up",
            "maxInactiveDurationSeconds": 86400,
        },
        {"deleteWhileInactive": False, "inactiveTopicDeleteMode": "delete_when_no_subscriptions", "maxInactiveDurationSeconds": 172800},
    ),
    _number("max_consumer_per_topic", "maxConsumers", 50, 500),
    _number("max_consumers_per_subscription", "maxConsumersPerSubscription", 10, 100),
    _number("max_message_size", "maxMessageSize", 2**20, 2**21),
    _number("max_producer_per_topic", "maxProducers", 20, 200),
    _number("max_subscriptions_per_topic", "maxSubscriptionsPerTopic", 30, 300),
    _number("max_unacked_messages_on_consumer", "maxUnackedMessagesOnConsumer", 1000, 10000),
    _number("max_unacked_messages_on_subscription", "maxUnackedMessagesOnSubscription", 4000, 40000),
    _number("message_ttl_in_seconds", "messageTTL", 3600, 86400, parameter="messageTTL"),
    _object("offload_policies", "offloadPolicies", _AMAZON, _GOOGLE),
    _object(
        "persistence",
        "persistence",
        {
            "bookkeeperAckQuorum": 1,
            "bookkeeperEnsemble": 3,
            "bookkeeperWriteQuorum": 2,
            "managedLedgerMaxMarkDeleteRate": 0.5,
            "managedLedgerStorageClassName": "bookkeeper",
        },
        {
            "bookkeeperAckQuorum": 2,
            "bookkeeperEnsemble": 5,
            "bookkeeperWriteQuorum": 3,
            "managedLedgerMaxMarkDeleteRate": 10.25,
            "managedLedgerStorageClassName": "archive",
        },
    ),
    _object(
        "publish_rate",
        "publishRate",
        {"publishThrottlingRateInByte": 2**20, "publishThrottlingRateInMsg": 1000},
        {"publishThrottlingRateInByte": 2**33, "publishThrottlingRateInMsg": -1},
    ),
    _case(
        "replication_clusters",
        "replication",
        Example(pb.TopicPolicies(replication_clusters=[HERE]), [HERE]),
        Example(pb.TopicPolicies(replication_clusters=[ELSEWHERE, HERE]), [ELSEWHERE, HERE]),
        need=Need.TWO_CLUSTERS,
    ),
    _rates("replicator_dispatch_rate", "replicatorDispatchRate"),
    _object(
        "retention_policies",
        "retention",
        {"retentionSizeInMB": 512, "retentionTimeInMinutes": 60},
        {"retentionSizeInMB": 2**33, "retentionTimeInMinutes": -1},
    ),
    _case(
        "schema_compatibility_strategy",
        "schemaCompatibilityStrategy",
        Example(
            pb.TopicPolicies(schema_compatibility_strategy=pb.SchemaCompatibilityStrategy.SCHEMA_COMPATIBILITY_STRATEGY_BACKWARD),
            "BACKWARD",
        ),
        Example(
            pb.TopicPolicies(schema_compatibility_strategy=pb.SchemaCompatibilityStrategy.SCHEMA_COMPATIBILITY_STRATEGY_FULL_TRANSITIVE),
            "FULL_TRANSITIVE",
        ),
        scopes=LOCAL_ONLY,
        method="PUT",
    ),
    _flag(
        "schema_validation_enforced",
        "schemaValidationEnforced",
        scopes=LOCAL_ONLY,
        removable=False,
        unset=pb.TopicPolicies(schema_validation_enforced=False),
    ),
    _case(
        "shadow_topics",
        "shadowTopics",
        *(
            Example(pb.TopicPolicies(shadow_topics=topics), topics)
            for topics in ([f"persistent://{NAMESPACE}/{SHADOWS[0]}"], [f"persistent://{NAMESPACE}/{shadow}" for shadow in SHADOWS])
        ),
        scopes=LOCAL_ONLY,
        need=Need.SHADOW_TOPICS,
        method="PUT",
    ),
    _object(
        "subscribe_rate",
        "subscribeRate",
        {"ratePeriodInSecond": 60, "subscribeThrottlingRatePerConsumer": 10},
        {"ratePeriodInSecond": 10, "subscribeThrottlingRatePerConsumer": 5},
    ),
    _rates("subscription_dispatch_rate", "subscriptionDispatchRate"),
    _number("subscription_expiration_time_in_minutes", "subscriptionExpirationTime", 1440, 10080, parameter="subscriptionExpirationTime"),
    _case(
        f"subscription_policies/{SUBSCRIPTION}",
        f"{SUBSCRIPTION}/dispatchRate",
        *(
            Example(pb.TopicPolicies(subscription_policies={SUBSCRIPTION: pb.SubscriptionPolicies(dispatch_rate=rate)}), members)
            for rate, members in (_SLOW, _FAST)
        ),
    ),
    _case(
        "subscription_types_enabled",
        "subscriptionTypesEnabled",
        *(
            Example(
                pb.TopicPolicies(
                    subscription_types_enabled=[pb.SubscriptionType.Value(f"SUBSCRIPTION_TYPE_{name.upper()}") for name in names]
                ),
                names,
            )
            for names in (["Exclusive", "Failover"], ["Key_Shared", "Shared"])
        ),
    ),
)
"""One case for each setting of the document."""
