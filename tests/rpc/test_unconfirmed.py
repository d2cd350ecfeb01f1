"""Reads while the log is out of reach: if other processes write to it too, answers say since when they are unconfirmed."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.stubs import AsyncStub, async_stub
from topicpolicies.v1 import service_pb2 as pb
from topicpolicies.v1.history_pb2 import ListHistoryRequest
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies_server.config import EmbeddedLogConfig, HistoryConfig, ServerConfig, parse_address
from topicpolicies_server.core.reasons import LogState
from topicpolicies_server.logs.change_log import LogError
from topicpolicies_server.rpc.reads import UNCONFIRMED_KEY
from topicpolicies_server.rpc.server import Server

from .conftest import TOPIC, refused

NAMESPACE = "public/default"
AGO = 100.0
"""The seconds for which the log has been out of reach."""
READS: dict[str, Callable[[AsyncStub], Any]] = {
    "GetPolicy": lambda stub: stub.GetPolicy(pb.GetPolicyRequest(topic=TOPIC)),
    "ListPolicies": lambda stub: stub.ListPolicies(pb.ListPoliciesRequest(namespace=NAMESPACE)),
    "GetEffectivePolicy": lambda stub: stub.GetEffectivePolicy(pb.GetEffectivePolicyRequest(topic=TOPIC)),
    "ListHistory": lambda stub: stub.ListHistory(ListHistoryRequest(topic=TOPIC)),
}


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    """Yields a server that knows its cluster and keeps a history."""
    (tmp_path / "cluster.toml").write_text(f'cluster = "us"\n[broker]\n[namespaces."{NAMESPACE}"]\n')
    log = EmbeddedLogConfig(path=None, cluster_file=tmp_path / "cluster.toml")
    history = HistoryConfig(path=tmp_path / "history.db")
    async with Server(ServerConfig(log=log, listen=parse_address("127.0.0.1:0"), history=history)) as running:
        yield running


@pytest.fixture
async def stub(server: Server) -> AsyncIterator[AsyncStub]:
    async with grpc.aio.insecure_channel(server.address) as channel:
        made = async_stub(channel)
        await made.UpdatePolicy(pb.UpdatePolicyRequest(topic=TOPIC, policies=TopicPolicies(max_producer_per_topic=1)))
        yield made


def cut_off(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts the log out of reach, for good."""
    monkeypatch.setattr(server.readiness, "answered", lambda _: None)
    now = time.monotonic()
    server.readiness.failed(LogError(LogState.UNREACHABLE, "No broker can be reached."), now - AGO, now)
    assert server.readiness.cut_off


def shared(server: Server) -> None:
    """Makes the server treat its log as one that other processes write to, too."""
    common = server.registry.common
    common.context = common.context._replace(sole_writer=False)


async def unconfirmed_since(read: Any) -> list[datetime]:
    """Returns the times since when the answer of a read is unconfirmed, from its trailing metadata: none, or one."""
    await read
    return [datetime.fromisoformat(str(value)) for key, value in await read.trailing_metadata() or () if key == UNCONFIRMED_KEY]


@pytest.mark.parametrize("method", READS)
async def test_a_read_while_the_log_is_out_of_reach_says_since_when_it_is_unconfirmed(
    server: Server, stub: AsyncStub, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = READS[method]
    shared(server)
    assert await unconfirmed_since(read(stub)) == []
    with monkeypatch.context() as patches:
        cut_off(server, patches)
        (since,) = await unconfirmed_since(read(stub))
        assert since.utcoffset() is not None
        assert AGO <= (datetime.now(UTC) - since).total_seconds() < AGO + 30
        await refused(stub.UpdatePolicy(pb.UpdatePolicyRequest(topic=TOPIC, policies=TopicPolicies(max_producer_per_topic=2))))
    server.readiness.answered(time.monotonic())
    assert await unconfirmed_since(read(stub)) == []


@pytest.mark.parametrize("method", READS)
async def test_reads_of_the_only_writer_are_confirmed_although_the_log_is_out_of_reach(
    server: Server, stub: AsyncStub, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut_off(server, monkeypatch)
    assert await unconfirmed_since(READS[method](stub)) == []
