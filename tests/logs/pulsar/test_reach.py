"""Whether a cluster can be reached, judged by connections and by its admin API."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.logs.pulsar.fakes import FakePartitionReader, a_log
from tests.rpc.cluster import FakeCluster
from topicpolicies_server.core.reasons import LogState, Reason
from topicpolicies_server.logs.change_log import Connections, LogError
from topicpolicies_server.logs.pulsar import PulsarLimits, PulsarLog


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


async def test_a_log_with_one_connected_reader_is_not_counted_as_connected_and_no_broker_need_listen(
    cluster: FakeCluster, log: PulsarLog
) -> None:
    await cluster.open(1)
    readers = [FakePartitionReader(connected=connected) for connected in (False, False, True, False)]
    log._logs["public/default"], _ = a_log(None, *readers, limits=PulsarLimits(close_seconds=0.2))
    assert log.connections() == Connections(1, 0)
    await log.reach()
    readers[2].connected = False
    assert (await why(log)).state is LogState.UNREACHABLE
    await cluster.open(0)
    await log.reach()


async def test_reaching_a_closed_log_fails(cluster: FakeCluster, log: PulsarLog) -> None:
    await cluster.open()
    await log.close()
    assert (await why(log)).reason is Reason.LOG_UNAVAILABLE
