"""Watches over real gRPC: snapshots, changes, tokens to resume from, resets, and statuses after failures."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.stubs import AsyncStub, async_stub
from topicpolicies.v1 import service_pb2
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies.v1.service_pb2 import (
    NAMESPACE_STATE_FAILED,
    NAMESPACE_STATE_READY,
    WATCH_MODE_EVERY,
    WATCH_MODE_LATEST,
    ChangeResult,
    UpdatePolicyRequest,
)
from topicpolicies_server.config import EmbeddedLogConfig, HistoryConfig, Limits, ServerConfig, parse_address
from topicpolicies_server.rpc.server import Server
from topicpolicies_server.rpc.watching.policy_part import PolicyPart

from .conftest import TOPIC
from .watching import WatchReader, changes, kinds, token_of

NAMESPACE = "public/default"
MODES = (WATCH_MODE_LATEST, WATCH_MODE_EVERY)
QUIET = f"{TOPIC}-quiet"


async def update(stub: AsyncStub, value: int, topic: str = TOPIC, **more: object) -> ChangeResult:
    policies = TopicPolicies(max_producer_per_topic=value)
    return await stub.UpdatePolicy(UpdatePolicyRequest(topic=topic, policies=policies, **more))  # type: ignore[arg-type]


Serving = Callable[..., AbstractAsyncContextManager[AsyncStub]]


@pytest.fixture
def serving(tmp_path: Path) -> Serving:
    """Returns a function that starts a server with a backlog of 16 changes, and by default a history, each time on the same files."""
    config = ServerConfig(
        log=EmbeddedLogConfig(path=tmp_path / "policies.db"),
        listen=parse_address("127.0.0.1:0"),
        history=HistoryConfig(path=tmp_path / "history.db"),
        limits=replace(Limits(), bookmark_interval_seconds=1.0, drain_seconds=2.0, max_every_backlog_changes=16),
    )

    @asynccontextmanager
    async def start(history: bool = True) -> AsyncIterator[AsyncStub]:
        chosen = config if history else replace(config, history=None)
        async with Server(chosen) as server, grpc.aio.insecure_channel(server.address) as channel:
            yield async_stub(channel)

    return start


# Every change, however far behind


async def test_changes_of_other_topics_never_leave_a_watch_of_every_change_behind(serving: Serving) -> None:
    async with serving(history=False) as stub:
        watch = WatchReader(stub, topics=[QUIET], mode=WATCH_MODE_EVERY)
        await watch.until_synced()
        for value in range(100):
            await update(stub, value)
        quiet = await update(stub, 1, QUIET)
        events = await watch.until(lambda event: event.HasField("change"))
        assert events[-1].change.document == quiet.document and "reset" not in kinds(events)
        watch.cancel()


async def test_a_watch_that_fails_unexpectedly_gets_status_failed_and_resumes_when_it_can(
    stub: AsyncStub, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(_: object) -> None:
        raise LookupError

    with monkeypatch.context() as planted:
        planted.setattr(PolicyPart, "_follow", fail)
        watch = WatchReader(stub, namespaces=[NAMESPACE, "public/other"])
        failed = {(await watch.until(lambda event: event.status.state == NAMESPACE_STATE_FAILED))[-1].namespace for _ in range(2)}
        assert failed == {NAMESPACE, "public/other"}
    events = await watch.until_synced()
    (last,) = [event.status for event in events if event.HasField("status") and event.namespace == events[-1].namespace][-1:]
    assert last.state == NAMESPACE_STATE_READY
    assert "LookupError" in caplog.text
    watch.cancel()


@pytest.mark.parametrize("mode", MODES)
async def test_a_stream_whose_changes_can_not_be_serialized_ends_with_internal_and_misses_nothing_when_it_resumes(
    stub: AsyncStub, monkeypatch: pytest.MonkeyPatch, mode: service_pb2.WatchMode.ValueType
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise LookupError

    watch = WatchReader(stub, namespaces=[NAMESPACE], mode=mode)
    token = token_of(await watch.until_synced())
    with monkeypatch.context() as planted:
        planted.setattr("topicpolicies_server.rpc.watching.policy_part.changes_record", fail)
        await update(stub, 2)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await watch.change()
    assert caught.value.code() is grpc.StatusCode.INTERNAL
    resumed = WatchReader(stub, namespaces=[NAMESPACE], mode=mode, resume_tokens={NAMESPACE: token})
    events = await resumed.until_synced()
    assert "reset" not in kinds(events)
    assert [each.document.policies.max_producer_per_topic for each in changes(events)] == [2]
    resumed.cancel()
