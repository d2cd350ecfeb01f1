"""The brokers of tests and measurements: versions, messages, errors, and compaction on request."""

from pathlib import Path

import pulsar
import pytest

from tests.broker.admin import CHANGE_EVENTS, Admin, AdminError
from tests.broker.fixtures import BrokerOf
from tests.broker.pulsar_broker import Broker


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_the_shared_broker_is_of_the_newest_version_and_carries_messages(broker: Broker, admin: Admin, namespace: str) -> None:
    assert admin.call("GET", "brokers/version").startswith(broker.version)
    client = pulsar.Client(broker.service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    try:
        topic = f"persistent://{namespace}/echo"
        consumer = client.subscribe(topic, "reader", initial_position=pulsar.InitialPosition.Earliest)
        client.create_producer(topic).send(b"hello")
        assert consumer.receive(5000).data() == b"hello"
    finally:
        client.close()


def test_brokers_of_two_versions_run_at_the_same_time(broker: Broker, broker_of: BrokerOf) -> None:
    older = broker_of("4.0.0")
    with older.admin() as admin:
        assert admin.call("GET", "brokers/version").startswith("4.0.0")
    assert older.admin_url != broker.admin_url
    assert _alive(broker.pid or 0)
    assert _alive(older.pid or 0)


def test_an_admin_error_has_the_brokers_status_and_reason(admin: Admin) -> None:
    with pytest.raises(AdminError, match="Tenant does not exist") as refused:
        admin.call("GET", "tenants/nobody")
    assert refused.value.status == 404


@pytest.mark.parametrize("partitions", [0, 2])
def test_change_events_are_compacted_on_request(admin: Admin, partitions: int) -> None:
    namespace = admin.create_namespace()
    if partitions:
        admin.partition_change_events(namespace, partitions)
    for name in ("one", "two", "three", "four"):
        admin.create_topic(f"{namespace}/{name}")
        for minutes in (10, 20, 30):
            admin.call("POST", f"persistent/{namespace}/{name}/retention", {"retentionTimeInMinutes": minutes, "retentionSizeInMB": 10})
    admin.compact_change_events(namespace)

    logs = admin.partitions_of(f"{namespace}/{CHANGE_EVENTS}")
    assert len(logs) == max(1, partitions)
    states = [admin.call("GET", f"persistent/{log}/internalStats") for log in logs]
    written = sum(state["entriesAddedCounter"] for state in states)
    kept = sum(state["compactedLedger"]["entries"] for state in states if state["compactedLedger"]["ledgerId"] >= 0)
    assert written >= 12
    assert kept == 4
