"""Whether a cluster can be reached, judged by connections and by its admin API."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import pytest
from pulsar import Result

from tests.logs.recorder import Recorder
from tests.rpc.cluster import FakeCluster
from topicpolicies_server.core.reasons import LogState, Reason
from topicpolicies_server.logs.avro import Dialect
from topicpolicies_server.logs.change_log import Connections, LogError
from topicpolicies_server.logs.pulsar import PulsarLimits, PulsarLog, PulsarNamespaceLog
from topicpolicies_server.logs.pulsar.brokers import Brokers
from topicpolicies_server.logs.pulsar.facts import PulsarFacts
from topicpolicies_server.logs.pulsar.ids import MessageId
from topicpolicies_server.logs.pulsar.topics import Layout


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    """A cluster that does not listen yet."""
    made = FakeCluster()
    yield made
    await made.shut()


@pytest.fixture
async def log(cluster: FakeCluster) -> AsyncIterator[PulsarLog]:
    """The change logs of that cluster."""
    made = PulsarLog(cluster.service_url, cluster.admin_url)
    yield made
    await made.close()


class FakeReader:
    """A reader of one partition."""

    def __init__(self, *, connected: bool) -> None:
        self.connected = connected
        self.entries = SimpleNamespace(last=MessageId(7, 0))
        self.ledger = 7
        self.handle = SimpleNamespace(close_async=lambda done: done(Result.Ok))


class Open(NamedTuple):
    """An open log with fake readers."""

    log: PulsarNamespaceLog
    recorder: Recorder


def opened(log: PulsarLog, readers: list[FakeReader], namespace: str = "acme/orders") -> Open:
    """Opens a log with these readers, created at "monday"."""
    facts, limits, recorder = PulsarFacts("east", Dialect.PREFIXED, 0), PulsarLimits(close_seconds=0.2), Recorder()
    access = Brokers(cast("Any", None), log._admin, log._topics, facts, limits)
    layout = Layout(namespace, len(readers))
    made = log._logs[namespace] = PulsarNamespaceLog(access, layout, recorder, log._forget)
    made._readers, made._creations = cast("Any", readers), ["monday"] * len(readers)
    return Open(made, recorder)


async def why(log: PulsarLog) -> LogError:
    """Returns the error that says why the cluster can't be reached."""
    with pytest.raises(LogError) as caught:
        await log.reach()
    return caught.value


async def test_a_cluster_is_reached_if_a_broker_listens_and_answers(cluster: FakeCluster, log: PulsarLog) -> None:
    await cluster.open()
    await log.reach()


async def test_a_cluster_that_does_not_listen_is_unreachable_for_appends(cluster: FakeCluster, log: PulsarLog) -> None:
    error = await why(log)
    assert error.state is LogState.UNREACHABLE
    assert error.message.startswith(f"No broker can be reached (127.0.0.1:{cluster.ports[0]}: ")


async def test_a_cluster_whose_admin_api_does_not_answer_is_reported_as_such(cluster: FakeCluster, log: PulsarLog) -> None:
    await cluster.open(0)
    assert (await why(log)).state is LogState.ADMIN_UNREACHABLE


async def test_one_reachable_host_of_several_is_enough(cluster: FakeCluster) -> None:
    await cluster.open()
    here, there = cluster.ports
    log = PulsarLog(f"pulsar://127.0.0.1:1,127.0.0.1:{here}", f"http://127.0.0.1:1,127.0.0.1:{there}")
    await log.reach()
    await log.close()


async def test_a_cluster_is_unreachable_if_no_reader_is_connected_although_a_broker_listens(cluster: FakeCluster, log: PulsarLog) -> None:
    await cluster.open()
    cluster.logs["acme/orders"] = 1, "monday"
    opened(log, [FakeReader(connected=False)])
    assert (await why(log)).message == "No reader of a change log is connected to a broker."
    opened(log, [FakeReader(connected=True)], "acme/others")
    await log.reach()


async def test_a_log_with_one_connected_reader_is_reached_but_not_counted_as_connected(cluster: FakeCluster, log: PulsarLog) -> None:
    await cluster.open()
    readers = [FakeReader(connected=connected) for connected in (False, False, True, False)]
    cluster.logs["acme/orders"] = 4, "monday"
    opened(log, readers)
    assert log.connections() == Connections(1, 0)
    await log.reach()
    readers[2].connected = False
    assert (await why(log)).message == "No reader of a change log is connected to a broker."


async def test_a_disconnected_reader_of_a_deleted_namespace_does_not_make_the_cluster_unreachable(
    cluster: FakeCluster, log: PulsarLog
) -> None:
    await cluster.open()
    cluster.deleted = {"acme/orders", "acme/others"}
    opened(log, [FakeReader(connected=False)], "acme/orders")
    await log.reach()
    logs = [opened(log, [FakeReader(connected=False)], namespace) for namespace in ("acme/orders", "acme/others")]
    await log.reach()
    assert [loss.reason for each in logs for loss in each.recorder.losses] == ["NAMESPACE_NOT_FOUND"] * 2
    cluster.deleted = {"acme/orders"}
    for namespace in ("acme/orders", "acme/others"):
        opened(log, [FakeReader(connected=False)], namespace)
    assert (await why(log)).message == "No reader of a change log is connected to a broker."


async def test_a_log_that_is_lost_because_it_does_not_reconnect_still_makes_the_cluster_unreachable(
    cluster: FakeCluster, log: PulsarLog
) -> None:
    await cluster.open()
    each = opened(log, [FakeReader(connected=False)])
    each.log._connected -= 20.0
    cluster.logs["acme/orders"] = 1, "monday"
    assert (await why(log)).message == "No reader of a change log is connected to a broker."
    assert [loss.reason for loss in each.recorder.losses] == ["LOG_UNAVAILABLE"]


async def test_reaching_a_closed_log_fails(cluster: FakeCluster, log: PulsarLog) -> None:
    await cluster.open()
    await log.close()
    assert (await why(log)).reason is Reason.LOG_UNAVAILABLE
