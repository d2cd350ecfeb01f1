"""Update streams that end before all of their changes have an outcome, or at unusual moments."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.stubs import async_stub
from topicpolicies.v1 import service_pb2
from topicpolicies_server.access.rations import Allowance, Bucket, Ration
from topicpolicies_server.access.refusals import expired
from topicpolicies_server.config import CallRecordConfig, EmbeddedLogConfig, LogFormat, Recorded, ServerConfig, parse_address
from topicpolicies_server.core.chains.request import Request
from topicpolicies_server.core.errors import Kind, PolicyError
from topicpolicies_server.core.reasons import Reason
from topicpolicies_server.logs.change_log import Leadership, NotLeader
from topicpolicies_server.logs.memory.log import MemoryNamespaceLog
from topicpolicies_server.rpc import requests, streaming
from topicpolicies_server.rpc.answers import Wire
from topicpolicies_server.rpc.decoding import Batch
from topicpolicies_server.rpc.failures import Failures
from topicpolicies_server.rpc.pace import Pace
from topicpolicies_server.rpc.refused_namespaces import MOST_REFUSED
from topicpolicies_server.rpc.requests import Author
from topicpolicies_server.rpc.server import Server
from topicpolicies_server.rpc.streaming import TURN_SECONDS, UpdateStream
from topicpolicies_server.rpc.tracing import Tracing
from topicpolicies_server.telemetry.spans import CHANGE_SECONDS, Ended

from .callers import believe, of
from .slow import Slow
from .test_permitting import FAST, PATIENCE, SLOW, batch, change, results


@pytest.fixture
async def server(slow: Slow, tmp_path: Path) -> AsyncIterator[Server]:
    """Yields a server that asks the slow authority, and records its calls."""
    assert slow.asked == 0
    record = CallRecordConfig(which=Recorded.CHANGES, path=tmp_path / "calls.log")
    config = ServerConfig(
        log=EmbeddedLogConfig(path=None), listen=parse_address("127.0.0.1:0"), call_record=record, log_format=LogFormat.JSON
    )
    async with Server(config) as running:
        running.calls.doors = (believe,)
        yield running


async def test_changes_whose_caller_disconnects_before_their_outcome_are_recorded_and_traced_as_given_up(
    server: Server, slow: Slow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[object] = []
    monkeypatch.setattr(MemoryNamespaceLog, "append", lambda _, event: sent.append(event))
    spans: list[Ended] = []
    tracing = Tracing(spans.append, 1.0)
    server.calls.observers += (tracing,)
    server.calls.change_observers += (tracing,)
    async with grpc.aio.insecure_channel(server.address) as channel:
        stream: Any = async_stub(channel).UpdatePolicies(metadata=of("admin"))
        await stream.write(batch(change("no topic", 9), change(SLOW, 1), change(FAST, 2)))
        async with asyncio.timeout(PATIENCE):
            await stream.read()
            while not (sent and slow.asked):  # noqa: ASYNC110 (nothing signals it)
                await asyncio.sleep(0.01)
            await asyncio.sleep(CHANGE_SECONDS * 1.1)  # at most one change in this time is traced
            await stream.write(batch(change(FAST, 3)))
            while len(sent) < 2:  # noqa: ASYNC110 (as above)
                await asyncio.sleep(0.01)
            stream.cancel()
            while len(server.calls):  # noqa: ASYNC110 (as above)
                await asyncio.sleep(0.01)
    await server.stop()
    lines = [json.loads(line) for line in (tmp_path / "calls.log").read_text().splitlines()]
    recorded = [(line["msg"], line["outcome"], line.get("topic", "")) for line in lines]
    assert recorded[0] == ("change", "INVALID_ARGUMENT", "")
    assert sorted(recorded[1:4]) == [("change", "GIVEN_UP", topic) for topic in (FAST, FAST, SLOW)]
    assert recorded[4:] == [("call", "GIVEN_UP", "")] and lines[4]["changes"] == 1, (
        "the line of the stream does not come last, or counts other changes than those with results"
    )
    followed = [(each.given_up, each.topic, each.code) for each in spans if each.name == "change"]
    assert sorted(followed) == [(True, topic, "") for topic in (FAST, SLOW)]


async def test_a_change_whose_permission_check_is_cancelled_by_the_authority_fails_as_internal(
    server: Server, slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def may(*_: object) -> bool:
        raise asyncio.CancelledError

    monkeypatch.setattr(slow, "may", may)
    async with grpc.aio.insecure_channel(server.address) as channel, asyncio.timeout(PATIENCE):
        stream = async_stub(channel).UpdatePolicies(iter([batch(change(SLOW, 1), change(FAST, 2), change(SLOW, 3))]), metadata=of("admin"))
        found = {each.sequence: each.error.code async for each in results(stream)}
    internal: int = grpc.StatusCode.INTERNAL.value[0]
    assert found == {1: internal, 2: 0, 3: internal}, "the cancellation affected another change, or was taken for the server's stop"


async def test_a_stream_that_is_asked_to_leave_before_it_has_begun_to_read_ends_at_once(server: Server) -> None:
    async def endless() -> AsyncIterator[Batch]:
        await asyncio.Event().wait()
        yield service_pb2.UpdatePoliciesRequest()

    shown: Wire = lambda *_: b""  # noqa: E731 (no document is serialized)
    loop = asyncio.get_running_loop()
    stream = UpdateStream(server.registry, None, shown, Author(), 1, Failures(), asyncio.Event())
    reading = asyncio.ensure_future(anext(stream.messages(endless())))
    loop.call_soon(stream.leave, expired("token"))  # like a timer that is due in the same turn of the loop
    with pytest.raises(PolicyError, match="expired"):
        async with asyncio.timeout(PATIENCE / 4):
            await reading


async def test_a_message_of_large_changes_lets_other_tasks_have_their_turns(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    loop, read = asyncio.get_running_loop(), requests.read_change
    turns, looked = 0, list[int]()

    def large(change: service_pb2.PolicyChangeRequest, author: Author, index: int) -> tuple[str, Request]:
        over = time.perf_counter() + 2 * TURN_SECONDS
        while time.perf_counter() < over:
            pass
        looked.append(turns)
        return read(change, author, index)

    def turn() -> None:
        nonlocal turns
        turns += 1
        loop.call_soon(turn)

    async def one() -> AsyncIterator[Batch]:
        yield batch(*(change(FAST, number) for number in range(1, 31)))

    monkeypatch.setattr(requests, "read_change", large)
    wire: Wire = lambda *_: b""  # noqa: E731 (no document is serialized)
    stream = UpdateStream(server.registry, None, wire, Author(), 20, Failures(), asyncio.Event())
    loop.call_soon(turn)
    sequences = [
        result.sequence
        async for message in stream.messages(one())
        for result in service_pb2.UpdatePoliciesResponse.FromString(message).results
    ]
    assert sequences == list(range(1, 31)), "the results are not one for each change, in the order of the key"
    assert len(set(looked)) == 30, "other tasks had no turn between two changes"


async def test_a_stream_that_ends_between_two_turns_gives_back_unused_tokens_of_its_principal(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "TURN_SECONDS", -1.0)  # every turn is over at once
    loop = asyncio.get_running_loop()
    ration = Ration(Allowance(changes_per_second=100), loop.time())
    bucket = ration.bucket
    assert bucket is not None

    async def one() -> AsyncIterator[Batch]:
        yield batch(*(change(FAST, number) for number in range(1, 31)))

    wire: Wire = lambda *_: b""  # noqa: E731 (as above)
    stream = UpdateStream(server.registry, None, wire, Author(), 20, Failures(), asyncio.Event(), Pace(ration, loop))
    reading = asyncio.ensure_future(anext(stream.messages(one())))
    reserved, reserve = list[int](), Bucket.reserve

    def counted(of: Bucket, wanted: int, now: float) -> tuple[int, float]:
        reserved.append(wanted)
        return reserve(of, wanted, now)

    monkeypatch.setattr(Bucket, "reserve", counted)
    async with asyncio.timeout(PATIENCE):
        while not reserved:  # noqa: ASYNC110 (nothing signals it)
            await asyncio.sleep(0)
    stream.leave(expired("token"))
    with pytest.raises(PolicyError, match="expired"):
        await reading
    assert reserved == [20]
    assert bucket.reserve(99, loop.time())[0] == 99, "the tokens of changes that were not begun were not given back"


class Others:
    """A fake registry of namespaces of which another process is the leader."""

    def get(self, name: str) -> Others.Namespace:
        """Returns one of the namespaces."""
        return self.Namespace(name)

    class Namespace:
        """A namespace that refuses every change."""

        def __init__(self, name: str) -> None:
            self.name = name

        def submit(self, together: Sequence[Request], settled: Callable[[Request, PolicyError], None]) -> None:
            """Refuses the changes."""
            for request in together:
                settled(request, NotLeader(self.name, Leadership(leads=False, leader="there:1")))


async def test_a_stream_that_meets_very_many_namespaces_of_other_leaders_sends_its_results_and_ends() -> None:
    sent, many = 0, 4 * MOST_REFUSED

    async def endless() -> AsyncIterator[Batch]:
        nonlocal sent
        while sent < many:
            sent += 2
            topic = f"persistent://elsewhere/n{sent}/t"
            yield batch(change(topic, sent - 1), change(topic, sent))
            await asyncio.sleep(0)

    registry: Any = Others()
    wire: Wire = lambda *_: b""  # noqa: E731 (no document is serialized)
    stream = UpdateStream(registry, None, wire, Author(), 20, Failures(), asyncio.Event())
    received: list[service_pb2.PolicyChangeResult] = []
    with pytest.raises(PolicyError, match="open a new stream") as caught:
        async for message in stream.messages(endless()):
            received += service_pb2.UpdatePoliciesResponse.FromString(message).results
    assert (caught.value.kind, caught.value.reason) == (Kind.UNAVAILABLE, Reason.NOT_LEADER)
    assert "leader" not in caught.value.metadata, "one leader is named although there may be many"
    assert [each.sequence for each in received] == list(range(1, len(received) + 1)), "a change that was read has no result"
    assert all(each.error.code == grpc.StatusCode.UNAVAILABLE.value[0] for each in received)
    assert len(received) == 2 * MOST_REFUSED == 2 * len(stream._refused)
