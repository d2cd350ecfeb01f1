"""The brokers of tests and measurements: start, stop, security, compaction on request, and cleaning up."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pulsar
import pytest

from tests.broker import pulsar_broker
from tests.broker.admin import CHANGE_EVENTS, Admin, AdminError
from tests.broker.configuration import Security
from tests.broker.credentials import Authority, TokenKey
from tests.broker.fixtures import BrokerOf, MakeBroker
from tests.broker.jars import LATEST, BrokerUnavailableError
from tests.broker.pulsar_broker import Broker, OwnBroker

_OWNER = """
import subprocess, time
from tests.broker import pulsar_broker
child = subprocess.Popen(["sleep", "600"])
watchdog = pulsar_broker._watchdog(child.pid)
print(child.pid, watchdog.pid, flush=True)
time.sleep(600)
"""
_RETENTION = {"retentionTimeInMinutes": 10, "retentionSizeInMB": 20}


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def _eventually(holds: Callable[[], bool], timeout_s: float = 10) -> bool:
    deadline = time.monotonic() + timeout_s
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def test_a_new_home_is_made_even_if_another_process_removes_an_abandoned_one_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOPICPOLICIES_CACHE", str(tmp_path))
    removed = []

    def owned(home: Path) -> bool:
        removed.append(home)
        home.rmdir()
        return False

    monkeypatch.setattr(pulsar_broker, "_owned", owned)
    for number in range(20):
        (tmp_path / "brokers" / f"abandoned-{number}").mkdir(parents=True)
    assert pulsar_broker._new_home(LATEST).is_dir()
    assert len(removed) == 20


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


@pytest.fixture(scope="module")
def own() -> Iterator[OwnBroker]:
    """A running broker that the tests of this module may stop, kill and pause; they leave it running."""
    with OwnBroker(settings={"allowAutoTopicCreationType": "partitioned", "defaultNumPartitions": "2"}) as broker:
        yield broker


@pytest.mark.broker
def test_a_paused_broker_does_not_answer_until_it_is_resumed(own: OwnBroker) -> None:
    own.pause()
    with pytest.raises(httpx.ReadTimeout):
        httpx.get(f"{own.admin_url}/admin/v2/clusters", timeout=1, trust_env=False)
    own.resume()
    with own.admin() as admin:
        assert admin.call("GET", "clusters") == ["standalone"]


@pytest.mark.broker
@pytest.mark.timeout(600)
def test_a_broker_keeps_its_data_and_ports_over_restarts_and_loses_its_data_when_wiped(own: OwnBroker) -> None:
    with own.admin() as admin:
        namespace = admin.create_namespace()
        topic = f"{namespace}/kept"
        admin.create_topic(topic)
        admin.call("POST", f"persistent/{topic}/retention", _RETENTION)
        # The broker has the extra settings: topics that it creates by itself have two partitions.
        assert len(admin.partitions_of(f"{namespace}/{CHANGE_EVENTS}")) == 2

        own.pause()
        for end in (own.stop, own.kill):  # the first of them ends a paused broker
            first = own.pid or 0
            end()
            assert own.pid is None
            assert not _alive(first)
            own.start()
            assert admin.call("GET", f"persistent/{topic}/retention") == _RETENTION

        own.kill()
        own.start(wipe=True)
        assert namespace not in admin.call("GET", "namespaces/public")


def test_a_secured_broker_serves_only_clients_with_a_valid_token_and_trust_in_its_authority(
    make_broker: MakeBroker, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    stranger = Authority(tmp_path / "stranger")
    broker = make_broker(security=Security(TokenKey(), authority))
    broker.start()

    with broker.admin() as admin:
        topic = f"{admin.create_namespace()}/secret"
        admin.create_topic(topic)
    with Admin(broker.admin_url_tls, token=broker.token(), trust=authority.trust) as admin:
        assert admin.call("GET", "clusters") == ["standalone"]
    with Admin(broker.admin_url_tls, token=broker.token(), trust=stranger.trust) as admin, pytest.raises(httpx.ConnectError):
        admin.call("GET", "clusters")
    with Admin(broker.admin_url) as admin, pytest.raises(AdminError) as refused:
        admin.call("GET", "clusters")
    assert refused.value.status == 401
    with broker.admin("somebody") as admin, pytest.raises(AdminError) as refused:
        admin.create_topic(topic + "-2")
    assert refused.value.status == 403
    with Admin(broker.admin_url, token=TokenKey().token("admin")) as admin, pytest.raises(AdminError) as refused:
        admin.call("GET", "clusters")
    assert refused.value.status == 401

    def publish(token: str | None, trust: Path) -> None:
        client = pulsar.Client(
            broker.service_url_tls,
            authentication=None if token is None else pulsar.AuthenticationToken(token),
            tls_trust_certs_file_path=str(trust),
            tls_validate_hostname=True,
            operation_timeout_seconds=3,
            logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
        )
        try:
            client.create_producer(f"persistent://{topic}").send(b"sealed")
        finally:
            client.close()

    publish(broker.token(), authority.trust)
    with pytest.raises(pulsar.PulsarException):
        publish(None, authority.trust)
    with pytest.raises(pulsar.PulsarException):
        publish(broker.token(), stranger.trust)


def test_a_broker_that_cannot_start_reports_why_and_leaves_no_process_running(make_broker: MakeBroker) -> None:
    broker = make_broker(settings={"metadataStoreUrl": "nonsense://here", "brokerServicePort": "not a number"})
    with pytest.raises(BrokerUnavailableError, match="not a number"):
        broker.start()
    assert broker.pid is None


def test_a_broker_does_not_outlive_the_process_that_started_it() -> None:
    owner = subprocess.Popen(
        [
            sys.executable,
            "-c",
            _OWNER,
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert owner.stdout is not None
    child, watchdog = (int(number) for number in owner.stdout.readline().split())
    assert _alive(child)
    os.kill(owner.pid, signal.SIGKILL)
    owner.communicate()
    assert _eventually(lambda: not _alive(child) and not _alive(watchdog))
