"""Batches whose calls end before all of their changes have an outcome, or at unusual moments."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status

from tests.stubs import async_stub, batch
from topicpolicies.v1 import service_pb2
from topicpolicies_server.config import AccessLogConfig, EmbeddedLogConfig, ServerConfig, parse_address
from topicpolicies_server.core.policies.events import Event
from topicpolicies_server.logs.sqlite.log import SqliteLog, SqliteNamespaceLog
from topicpolicies_server.rpc.server import Server

from .callers import believe, of
from .slow import Slow
from .test_permitting import FAST, PATIENCE, SLOW, change


@pytest.fixture
async def server(slow: Slow, tmp_path: Path) -> AsyncIterator[Server]:
    """Yields a server that asks the slow authority, and records its calls."""
    assert slow.asked == 0
    record = AccessLogConfig(which="changes", path=tmp_path / "calls.log")
    config = ServerConfig(log=EmbeddedLogConfig(path=None), listen=parse_address("127.0.0.1:0"), access_log=record)
    async with Server(config) as running:
        running.calls.identify = believe
        yield running


def reasons(results: list[service_pb2.PolicyChangeResult]) -> list[str]:
    """Returns the reason of each result; "": it is a success."""
    return [_reason(each.error) if each.HasField("error") else "" for each in results]


def _reason(status: Status) -> str:
    info = ErrorInfo()
    assert status.details[0].Unpack(info)
    return str(info.reason)


async def test_changes_whose_caller_disconnects_before_their_outcome_are_recorded_as_given_up(
    server: Server, slow: Slow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[object] = []
    monkeypatch.setattr(SqliteNamespaceLog, "append", lambda _, event: sent.append(event))
    async with grpc.aio.insecure_channel(server.address) as channel:
        call = async_stub(channel).BatchUpdatePolicies(batch(change("no topic", 9), change(SLOW, 1), change(FAST, 2)), metadata=of("admin"))
        async with asyncio.timeout(PATIENCE):
            while not (sent and slow.asked):  # noqa: ASYNC110 (nothing signals it)
                await asyncio.sleep(0.01)
            call.cancel()
            while len(server.calls):  # noqa: ASYNC110 (as above)
                await asyncio.sleep(0.01)
    await server.stop()
    lines = [json.loads(line) for line in (tmp_path / "calls.log").read_text().splitlines()]
    recorded = [(line["msg"], line["outcome"], line.get("topic", "")) for line in lines]
    assert recorded[0] == ("change", "INVALID_ARGUMENT", "")
    assert sorted(recorded[1:3]) == [("change", "GIVEN_UP", topic) for topic in (FAST, SLOW)]
    assert recorded[3:] == [("call", "GIVEN_UP", "")] and lines[3]["changes"] == 1, (
        "the line of the call does not come last, or counts other changes than those with results"
    )


async def test_at_the_deadline_each_change_has_the_result_that_is_certain_by_then(
    server: Server, slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, open_ = "fast/space", SqliteLog.open

    async def open_one(log: SqliteLog, namespace: str, sink: object, *rest: object) -> SqliteNamespaceLog:
        if namespace != opened:
            await asyncio.Event().wait()
        return await open_(log, namespace, sink, *rest)  # type: ignore[arg-type]

    append = SqliteNamespaceLog.append

    def append_one(log: SqliteNamespaceLog, event: Event) -> None:
        if not event.key.topic.endswith("lost"):
            append(log, event)

    monkeypatch.setattr(SqliteLog, "open", open_one)
    monkeypatch.setattr(SqliteNamespaceLog, "append", append_one)
    names = [FAST, "persistent://fast/space/lost", "persistent://fast/other/t", SLOW, "no topic"]
    async with grpc.aio.insecure_channel(server.address) as channel:
        changes = batch(*(change(name, 1) for name in names))
        found = (await async_stub(channel).BatchUpdatePolicies(changes, metadata=of("admin"), timeout=2.0)).results
    assert reasons(list(found)) == ["", "OUTCOME_UNKNOWN", "NOT_APPENDED", "AUTHORIZATION_UNKNOWN", "INVALID_REQUEST"]
