"""Values for all four levels (topics in both scopes, a namespace, a broker), different at each level."""

from __future__ import annotations

from typing import Any

from tests.promises.broker.policy_case import HERE, Scope
from tests.promises.broker.policy_cases import CASES
from topicpolicies.v1.policies_pb2 import TopicPolicies

BROKER_SETTINGS = {
    "maxProducersPerTopic": "71",
    "maxConsumersPerTopic": "72",
    "maxConsumersPerSubscription": "73",
    "maxSubscriptionsPerTopic": "74",
    "maxUnackedMessagesPerConsumer": "75",
    "maxUnackedMessagesPerSubscription": "76",
    "maxMessageSize": "4000000",
    "ttlDurationDefaultInSeconds": "77",
    "subscriptionExpirationTimeMinutes": "7800",
    "defaultRetentionTimeInMinutes": "79",
    "defaultRetentionSizeInMB": "80",
    "backlogQuotaDefaultLimitBytes": "81",
    "backlogQuotaDefaultLimitSecond": "82",
    "backlogQuotaDefaultRetentionPolicy": "consumer_backlog_eviction",
    "brokerDeduplicationSnapshotIntervalSeconds": "83",
    "brokerServiceCompactionThresholdInBytes": "84000000",
    "brokerDeleteInactiveTopicsEnabled": "false",
    "brokerDeleteInactiveTopicsMode": "delete_when_subscriptions_caught_up",
    "brokerDeleteInactiveTopicsMaxInactiveDurationSeconds": "8500",
    "delayedDeliveryTickTimeMillis": "1086",
    "delayedDeliveryMaxDelayInMillis": "870000",
    "dispatchThrottlingRatePerTopicInMsg": "88",
    "dispatchThrottlingRatePerSubscriptionInMsg": "89",
    "dispatchThrottlingRatePerReplicatorInByte": "9000000",
    "maxPublishRatePerTopicInMessages": "9100",
    "subscribeThrottlingRatePerConsumer": "92",
    "subscribeRatePeriodPerConsumerInSecond": "93",
    "schemaCompatibilityStrategy": "FORWARD",
    "subscriptionTypesEnabled": "Exclusive,Shared,Failover",
    "allowAutoSubscriptionCreation": "false",
    "managedLedgerDefaultMarkDeleteRateLimit": "0.75",
    "managedLedgerOffloadMaxThreads": "9",
}
"""Settings of ``broker.conf``; none is the default."""

# A namespace's rates also limit the reading of its change log: with few bytes a second brokers would be minutes behind.
_RATE = {"dispatchThrottlingRateInByte": 61_000_000, "ratePeriodInSecond": 2, "relativeToPublishRate": True}
NAMESPACE_CALLS: tuple[tuple[str, str, Any], ...] = (
    ("POST", "maxProducersPerTopic", 41),
    ("POST", "maxConsumersPerTopic", 42),
    ("POST", "maxConsumersPerSubscription", 43),
    ("POST", "maxSubscriptionsPerTopic", 44),
    ("POST", "maxUnackedMessagesPerConsumer", 45),
    ("POST", "maxUnackedMessagesPerSubscription", 46),
    ("POST", "messageTTL", 47),
    ("POST", "subscriptionExpirationTime", 4800),
    ("POST", "retention", {"retentionTimeInMinutes": 4900, "retentionSizeInMB": 5000}),
    (
        "POST",
        "persistence",
        {"bookkeeperEnsemble": 1, "bookkeeperWriteQuorum": 1, "bookkeeperAckQuorum": 1, "managedLedgerMaxMarkDeleteRate": 5.5},
    ),
    (
        "POST",
        "backlogQuota?backlogQuotaType=destination_storage",
        {"limit": 51, "limitSize": 51, "limitTime": -1, "policy": "producer_exception"},
    ),
    ("PUT", "compactionThreshold", 52000000),
    ("POST", "deduplication", True),
    ("POST", "deduplicationSnapshotInterval", 53),
    ("POST", "delayedDelivery", {"active": False, "tickTime": 1054, "maxDeliveryDelayInMillis": 55000}),
    (
        "POST",
        "inactiveTopicPolicies",
        {"inactiveTopicDeleteMode": "delete_when_no_subscriptions", "maxInactiveDurationSeconds": 5600, "deleteWhileInactive": False},
    ),
    ("POST", "dispatchRate", {"dispatchThrottlingRateInMsg": 57, **_RATE}),
    ("POST", "subscriptionDispatchRate", {"dispatchThrottlingRateInMsg": 58, **_RATE}),
    ("POST", "replicatorDispatchRate", {"dispatchThrottlingRateInMsg": 59, **_RATE}),
    ("POST", "subscribeRate", {"subscribeThrottlingRatePerConsumer": 62, "ratePeriodInSecond": 63}),
    ("POST", "publishRate", {"publishThrottlingRateInMsg": 64, "publishThrottlingRateInByte": 65_000_000}),
    ("PUT", "schemaCompatibilityStrategy", "BACKWARD_TRANSITIVE"),
    ("POST", "schemaValidationEnforced", True),
    ("POST", "autoSubscriptionCreation", {"allowAutoSubscriptionCreation": True}),
    ("POST", "subscriptionTypesEnabled", ["Shared"]),
    ("POST", "offloadPolicies", {"managedLedgerOffloadDriver": "filesystem", "managedLedgerOffloadReadThreads": 7}),
)
"""Calls of the admin API below a namespace, which set every policy that a namespace can have."""

_APART = frozenset({"offload_policies", "entry_filters", "retention_policies", "persistence", "replication_clusters", "shadow_topics"})
"""With offload policies or entry filters, a broker without plug-ins does not apply the rest of a document. Retention has values that fit
the quotas, and persistence one that fits one bookie. Clusters and shadow topics need other clusters and topics."""


def topic_document(scope: Scope) -> TopicPolicies:
    """Returns a document with nearly every policy, with other values in each scope."""
    policies = TopicPolicies()
    for case in CASES:
        if case.setting not in _APART and scope in case.scopes:
            policies.MergeFrom(case.examples[scope is Scope.GLOBAL].policies)
    policies.retention_policies.retention_time_in_minutes = -1
    policies.retention_policies.retention_size_in_mb = 2**33 + int(scope)
    stored = policies.persistence
    stored.bookkeeper_ensemble = stored.bookkeeper_write_quorum = stored.bookkeeper_ack_quorum = 1
    stored.managed_ledger_max_mark_delete_rate = 0.25 + int(scope)
    if scope is Scope.LOCAL:
        policies.replication_clusters.append(HERE)
    return policies
