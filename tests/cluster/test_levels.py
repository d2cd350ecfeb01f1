"""Settings of namespaces and brokers become documents. ``tests/promises/broker/test_effective.py`` does so on a real broker."""

from __future__ import annotations

from typing import Any

import pytest

from topicpolicies.v1 import policies_pb2 as pb
from topicpolicies_server.cluster.levels import SETTINGS, cluster_facts, namespace_level
from topicpolicies_server.core.policies.facts import BrokerFacts


def broker_facts(configuration: dict[str, Any]) -> BrokerFacts:
    found = cluster_facts("us", configuration).broker
    assert found is not None
    return found


def test_broker_settings_are_the_same_as_texts_of_brokers_and_as_values_of_files() -> None:
    texts = {
        name: str(value).lower() if isinstance(value, bool) else str(value).replace("'", "")
        for name, (value, _) in SETTINGS.items()
        if value is not None
    }
    texts["brokerDeleteInactiveTopicsMaxInactiveDurationSeconds"] = ""
    assert broker_facts(texts) == broker_facts({})
    assert broker_facts({"maxMessageSize": 5}) == broker_facts({"maxMessageSize": "5"})


def test_the_inactive_duration_of_topics_is_the_deletion_interval_unless_configured() -> None:
    inactive = broker_facts({"brokerDeleteInactiveTopicsFrequencySeconds": "61"}).policies.inactive_topic_policies
    assert inactive.max_inactive_duration_seconds == 61
    longer = {"brokerDeleteInactiveTopicsMaxInactiveDurationSeconds": "7", "brokerDeleteInactiveTopicsFrequencySeconds": "61"}
    assert broker_facts(longer).policies.inactive_topic_policies.max_inactive_duration_seconds == 7


def test_a_default_quota_in_gigabytes_wins_over_one_in_bytes() -> None:
    level = broker_facts({"backlogQuotaDefaultLimitGB": "0.5", "backlogQuotaDefaultLimitBytes": "7"}).policies
    assert {quota.limit_size for quota in level.back_log_quota_map.values()} == {2**29}


@pytest.mark.parametrize("settings", [{"maxMessageSize": "many"}, {"delayedDeliveryEnabled": "perhaps"}])
def test_a_setting_of_the_wrong_kind_is_an_error(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(settings.values()))):
        broker_facts(settings)


@pytest.mark.parametrize(
    ("policies", "expected"),
    [
        ({"schema_compatibility_strategy": "UNDEFINED"}, pb.SCHEMA_COMPATIBILITY_STRATEGY_UNSPECIFIED),
        ({"schema_compatibility_strategy": "FULL"}, pb.SCHEMA_COMPATIBILITY_STRATEGY_FULL),
        ({"schema_auto_update_compatibility_strategy": "Backward"}, pb.SCHEMA_COMPATIBILITY_STRATEGY_BACKWARD),
        ({"schema_auto_update_compatibility_strategy": "AutoUpdateDisabled"}, pb.SCHEMA_COMPATIBILITY_STRATEGY_ALWAYS_INCOMPATIBLE),
    ],
)
def test_a_namespaces_schema_strategy_is_also_read_from_the_older_field(
    policies: dict[str, Any], expected: pb.SchemaCompatibilityStrategy.ValueType
) -> None:
    assert namespace_level(policies, "us").schema_compatibility_strategy == expected


def test_a_namespaces_older_offload_fields_apply_where_the_newer_ones_are_unset() -> None:
    policies = {"offload_threshold": 5, "offload_threshold_in_seconds": -1, "offload_deletion_lag_ms": 7}
    newer = {"offload_policies": {"managedLedgerOffloadDeletionLagInMillis": 9}}
    level = namespace_level(policies | newer, "us").offload_policies
    assert level.managed_ledger_offload_threshold_in_bytes == 5
    assert not level.HasField("managed_ledger_offload_threshold_in_seconds")
    assert level.managed_ledger_offload_deletion_lag_in_millis == 9


def test_a_namespaces_rates_are_those_for_the_local_cluster() -> None:
    rates = {"us": {"dispatchThrottlingRateInMsg": 5}, "eu": {"dispatchThrottlingRateInMsg": 6}}
    assert namespace_level({"topicDispatchRate": rates}, "eu").dispatch_rate.dispatch_throttling_rate_in_msg == 6
    assert namespace_level({"clusterDispatchRate": rates}, "us").dispatch_rate.dispatch_throttling_rate_in_msg == 5
    assert not namespace_level({"topicDispatchRate": rates}, "asia").HasField("dispatch_rate")
