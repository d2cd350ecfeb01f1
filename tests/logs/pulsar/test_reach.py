"""Whether a cluster can be reached, as connections and its admin API tell."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.rpc.cluster import FakeCluster
from topicpolicies_server.core.reasons import Reason
from topicpolicies_server.logs.change_log import Connections, LogError, Reached
from topicpolicies_server.logs.pulsar import PulsarLimits, PulsarLog
from topicpolicies_server.logs.pulsar.access import Access
from topicpolicies_server.logs.pulsar.admin import Admin
from topicpolicies_server.logs.pulsar.admin.topics import Layout
from topicpolicies_server.logs.pulsar.contacts import Contacts
from topicpolicies_server.logs.pulsar.ids import MessageId
from topicpolicies_server.logs.pulsar.reach import Reach
from topicpolicies_server.logs.pulsar.reading.existence import Existence
from topicpolicies_server.logs.pulsar.reading.following import Following


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    """At which nobody listens yet."""
    made = FakeCluster()
    yield made
    await made.shut()


@pytest.fixture
async def log(cluster: FakeCluster) -> AsyncIterator[PulsarLog]:
    """Its log."""
    made = PulsarLog(cluster.service_url, cluster.admin_url)
    yield made
    await made.close()


class FakeReader:
    """Of one partition."""

    def __init__(self, *, connected: bool) -> None:
        self.connected = connected
        self.entries = SimpleNamespace(last=MessageId(7, 0))


def existence_of(log: PulsarLog, readers: list[FakeReader]) -> Existence:
    """What looks after a log of ``acme/orders`` that these follow."""

    async def last(partition: int) -> Any:
        raise AssertionError(partition)

    layout = Layout("acme/orders", "__change_events", len(readers))
    following = Following(layout, "", [], cast("Any", readers), last)
    return Existence(cast("Access", SimpleNamespace(contacts=log._contacts, limits=PulsarLimits())), following)


async def why(log: PulsarLog) -> LogError:
    """Why it can't be reached."""
    with pytest.raises(LogError) as caught:
        await log.reach()
    return caught.value


async def test_a_log_is_reached_where_a_broker_listens_and_answers(cluster: FakeCluster, log: PulsarLog) -> None:
    assert isinstance(log, Reached)
    await cluster.open()
    await log.reach()


async def test_where_nobody_listens_nothing_can_be_appended(cluster: FakeCluster, log: PulsarLog) -> None:
    error = await why(log)
    assert error.reason is Reason.LOG_UNREACHABLE
    assert error.message.startswith(f"No broker is reached (127.0.0.1:{cluster.ports[0]}: ")


async def test_where_brokers_listen_and_their_admin_api_does_not_answer_that_is_said(cluster: FakeCluster, log: PulsarLog) -> None:
    await cluster.open(0)
    assert (await why(log)).reason is Reason.PULSAR_ADMIN_UNREACHABLE


async def test_of_several_hosts_one_is_enough(cluster: FakeCluster) -> None:
    await cluster.open()
    here, there = cluster.ports
    log = PulsarLog(f"pulsar://127.0.0.1:1,127.0.0.1:{here}", f"http://127.0.0.1:1,127.0.0.1:{there}")
    await log.reach()
    await log.close()


async def test_readers_without_a_connection_are_out_of_reach_though_somebody_listens(cluster: FakeCluster, log: PulsarLog) -> None:
    await cluster.open()
    log._contacts.seen("acme/orders", connected=False)
    assert (await why(log)).message == "No reader of a change log has its connection to a broker."
    log._contacts.seen("acme/others", connected=True)
    await log.reach()


async def test_a_log_of_which_one_reader_has_its_connection_is_reached_and_not_counted_as_connected(
    cluster: FakeCluster, log: PulsarLog
) -> None:
    await cluster.open()
    readers = [FakeReader(connected=connected) for connected in (False, False, True, False)]
    existence = existence_of(log, readers)
    existence.check_connection()
    assert log.connections() == Connections(1, 0)
    await log.reach()
    readers[2].connected = False
    existence.check_connection()
    assert (await why(log)).message == "No reader of a change log has its connection to a broker."


async def test_a_reader_whose_namespace_was_deleted_says_nothing_of_the_brokers(cluster: FakeCluster, log: PulsarLog) -> None:
    await cluster.open()
    cluster.deleted = {"acme/orders", "acme/others"}
    log._contacts.seen("acme/orders", connected=False)
    await log.reach()
    log._contacts.seen("acme/others", connected=False)
    await log.reach()
    cluster.deleted = {"acme/orders"}
    assert (await why(log)).message == "No reader of a change log has its connection to a broker."


async def test_of_many_readers_without_a_connection_a_few_logs_are_asked_after() -> None:
    cluster, asked = FakeCluster(), list[str]()
    await cluster.open()

    async def gone(namespace: str) -> bool:
        asked.append(namespace)
        return True

    contacts, admin = Contacts(), Admin(cluster.admin_url)
    for number in range(1_000):
        contacts.seen(f"acme/n{number}", connected=False)
    await Reach(cluster.service_url, admin, contacts, gone).ask()
    assert len(asked) == 4
    await admin.close()
    await cluster.shut()


def test_what_a_log_said_a_while_ago_counts_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    known = Contacts()
    assert known.connected() is None
    known.seen("acme/orders", connected=False)
    assert known.connected() is False
    known.seen("acme/orders", connected=True)
    assert known.connected() is True
    later = time.monotonic() + 3.0
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert known.connected() is None


async def test_a_closed_log_is_reached_by_nobody(cluster: FakeCluster, log: PulsarLog) -> None:
    await cluster.open()
    await log.close()
    assert (await why(log)).reason is Reason.LOG_CLOSED
