"""A server that stops: every call ends in bounded time, with a status unless its peer does not read."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import grpc
import pytest
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status

from tests.eventually import eventually
from tests.stubs import AsyncStub, async_stub, batch
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies.v1.service_pb2 import (
    GetPolicyRequest,
    ListPoliciesRequest,
    PolicyChangeResult,
    UpdatePolicyRequest,
    WatchPoliciesRequest,
)
from topicpolicies_server.config import EmbeddedLogConfig, Limits, ServerConfig, parse_address
from topicpolicies_server.logs.sqlite.log import SqliteLog, SqliteNamespaceLog
from topicpolicies_server.rpc.errors import DETAILS_KEY
from topicpolicies_server.rpc.server import Server

from .conftest import TOPIC, Refusal, refused

NAMESPACE = "public/default"
PATIENCE = 100.0
"""Seconds after which a test fails instead of hanging."""
NEVER = 600.0
"""A limit in seconds that no test waits for: a test that needs it hangs."""
STOPPING, UNKNOWN = (grpc.StatusCode.UNAVAILABLE, "SHUTTING_DOWN"), (grpc.StatusCode.DEADLINE_EXCEEDED, "OUTCOME_UNKNOWN")


@pytest.fixture
def limits() -> Limits:
    return replace(Limits(), drain_seconds=0.5, update_timeout_seconds=NEVER)


@pytest.fixture
async def patient() -> AsyncIterator[Server]:
    """Yields a server that gives calls more time than a test has."""
    limits = replace(Limits(), drain_seconds=NEVER, update_timeout_seconds=NEVER)
    config = ServerConfig(log=EmbeddedLogConfig(path=None), listen=parse_address("127.0.0.1:0"), limits=limits)
    async with Server(config) as running:
        yield running


@pytest.fixture(autouse=True)
async def nothing_is_left(caplog: pytest.LogCaptureFixture) -> AsyncIterator[None]:
    """Checks after every test that no task has failed unnoticed, and that nothing was logged as a warning."""
    caplog.set_level(logging.INFO)
    complaints: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: complaints.append(context))
    yield
    gc.collect()
    await asyncio.sleep(0)
    gc.collect()
    assert complaints == []
    assert [record.message for record in caplog.records if record.levelno >= logging.WARNING] == []


async def stopped(server: Server) -> None:
    """Stops a server, and fails if that hangs."""
    async with asyncio.timeout(PATIENCE):
        await server.stop()


def update(topic: str = TOPIC, value: int = 1) -> UpdatePolicyRequest:
    return UpdatePolicyRequest(topic=topic, policies=TopicPolicies(max_producer_per_topic=value))


def end_of(refusal: Refusal) -> tuple[grpc.StatusCode, str]:
    return refusal.code, refusal.info.reason


def why(result: PolicyChangeResult) -> str:
    info = ErrorInfo()
    assert Status.FromString(result.error.SerializeToString()).details[0].Unpack(info)
    return str(info.reason)


@pytest.fixture
def silent_log(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Makes the log accept events without acknowledging them, and returns the events."""
    appended: list[Any] = []
    monkeypatch.setattr(SqliteNamespaceLog, "append", lambda _, event: appended.append(event))
    return appended


@pytest.fixture
def stuck_log(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Makes the opening of a log hang, and returns the namespaces for which it was begun."""
    opened: list[str] = []

    async def open_never(_: SqliteLog, namespace: str, _follower: object, _start: object) -> None:
        opened.append(namespace)
        await asyncio.Event().wait()

    monkeypatch.setattr(SqliteLog, "open", open_never)
    return opened


async def test_changes_that_the_log_has_not_acknowledged_end_with_outcome_unknown_when_the_server_stops(
    server: Server, stub: AsyncStub, silent_log: list[Any]
) -> None:
    calls = [asyncio.ensure_future(refused(stub.UpdatePolicy(update(f"{TOPIC}-{number}")))) for number in range(20)]
    several = asyncio.ensure_future(stub.BatchUpdatePolicies(batch(*(update(f"{TOPIC}-{number}", 2) for number in range(20, 30)))))
    await eventually(lambda: len(silent_log) == 30)
    await stopped(server)
    for refusal in await asyncio.gather(*calls):
        assert end_of(refusal) == UNKNOWN
        assert refusal.info.metadata["request_id"]
    assert [why(result) for result in (await several).results] == ["OUTCOME_UNKNOWN"] * 10


async def test_calls_that_wait_for_a_log_to_be_opened_end_with_shutting_down_when_the_server_stops(
    server: Server, stub: AsyncStub, stuck_log: list[str]
) -> None:
    several = asyncio.ensure_future(stub.BatchUpdatePolicies(batch(update())))
    calls = [
        asyncio.ensure_future(refused(call))
        for call in (
            stub.UpdatePolicy(update()),
            stub.GetPolicy(GetPolicyRequest(topic=TOPIC)),
            stub.ListPolicies(ListPoliciesRequest(namespace=NAMESPACE)),
        )
    ]
    await eventually(lambda: bool(stuck_log) and len(server.calls) == 4)
    await stopped(server)
    assert [end_of(refusal) for refusal in await asyncio.gather(*calls)] == [STOPPING] * 3
    (result,) = (await several).results
    assert why(result) == "SHUTTING_DOWN"


async def test_calls_that_have_arrived_but_not_begun_are_refused_with_shutting_down(
    patient: Server,
) -> None:
    async with grpc.aio.insecure_channel(patient.address) as channel:
        stub = async_stub(channel)
        await stub.UpdatePolicy(update())
        burst: list[Any] = [stub.UpdatePolicy(update(f"{TOPIC}-{number}")) for number in range(60)]
        await eventually(lambda: len(patient.calls) > 0)
        await stopped(patient)
        ends = [(await call.code(), await call.trailing_metadata()) for call in burst]
    assert {code for code, _ in ends} <= {grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE}
    assert any(code is grpc.StatusCode.UNAVAILABLE and b"SHUTTING_DOWN" in dict(trailing)[DETAILS_KEY] for code, trailing in ends), (
        "no call was refused"
    )


async def test_peers_that_do_not_read_do_not_delay_the_stop_and_leave_no_task(patient: Server) -> None:
    async with AsyncExitStack() as stack:
        channels = [
            await stack.enter_async_context(grpc.aio.insecure_channel(patient.address, options=[("one", number)])) for number in range(3)
        ]
        stubs = [async_stub(channel) for channel in channels]
        large = TopicPolicies(max_producer_per_topic=1)
        large.entry_filters.entry_filter_names = "x" * 200_000
        for number in range(40):
            await stubs[0].UpdatePolicy(UpdatePolicyRequest(topic=f"{TOPIC}-{number}", policies=large))
        watches = [stub.WatchPolicies(WatchPoliciesRequest(namespaces=[NAMESPACE])) for stub in stubs]
        for watch in watches:
            await watch.read()
        calls = patient.calls
        await eventually(lambda: sum(call.unread_since is not None for call in calls._calls) == 3)
        await stopped(patient)
        assert len(calls) == 0
    names = {task.get_name() for task in asyncio.all_tasks()}
    assert not [name for name in names if "watch" in name]
