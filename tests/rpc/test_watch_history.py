"""WatchHistory over real gRPC: every event from a position on, and then each new one."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration

from tests.stubs import AsyncStub, async_stub
from topicpolicies.secrets import REDACTED
from topicpolicies.v1.errors_pb2 import ERROR_REASON_HISTORY_UNAVAILABLE, ERROR_REASON_TOKEN_OUT_OF_RANGE
from topicpolicies.v1.events_pb2 import ACTION_TYPE_DELETE, ACTION_TYPE_UPDATE, EVENT_TYPE_TOPIC_POLICY
from topicpolicies.v1.history_pb2 import HISTORY_KIND_DELETE, HISTORY_KIND_TOMBSTONE, HistoryEntry, WatchHistoryEvent
from topicpolicies.v1.policies_pb2 import SCOPE_GLOBAL, EntryFilters, OffloadPolicies, TopicPolicies
from topicpolicies.v1.service_pb2 import DeletePolicyRequest, ListPoliciesRequest, UpdatePolicyRequest
from topicpolicies_server.config import EmbeddedLogConfig, HistoryConfig, Limits, ServerConfig, parse_address
from topicpolicies_server.core.reading import tokens
from topicpolicies_server.history import file
from topicpolicies_server.history.entries import Gap, GapReason, Stream
from topicpolicies_server.rpc.server import Server

from .conftest import TOPIC, Refusal
from .watching import HistoryReader, kinds

NAMESPACE = "public/default"


class Serving(NamedTuple):
    """A running server, by its stub."""

    stub: AsyncStub

    def watch(self, position: str = "", **more: object) -> HistoryReader:
        """Watches the history of the namespace, from a position on if one is given."""
        return HistoryReader(self.stub, namespaces=[NAMESPACE], positions={NAMESPACE: position} if position else {}, **more)  # type: ignore[arg-type]

    async def write(self, values: Iterable[int], size: int = 0) -> None:
        """Makes changes of one document."""
        for value in values:
            policies = TopicPolicies(max_producer_per_topic=value)
            if size:
                policies.entry_filters.CopyFrom(EntryFilters(entry_filter_names="x" * size))
            await self.stub.UpdatePolicy(UpdatePolicyRequest(topic=TOPIC, policies=policies))


Start = Callable[..., AbstractAsyncContextManager[Serving]]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """Returns a function that starts a server, by default each time on the same files."""

    @asynccontextmanager
    async def serving(log: str = "policies", history: str = "history") -> AsyncIterator[Serving]:
        config = ServerConfig(
            log=EmbeddedLogConfig(path=tmp_path / f"{log}.db"),
            listen=parse_address("127.0.0.1:0"),
            history=HistoryConfig(path=tmp_path / f"{history}.db") if history else None,
            limits=replace(Limits(), bookmark_interval_seconds=1.0, drain_seconds=2.0),
        )
        async with Server(config) as server, grpc.aio.insecure_channel(server.address) as channel:
            yield Serving(async_stub(channel))

    return serving


def entries(events: Iterable[WatchHistoryEvent]) -> list[HistoryEntry]:
    """Returns the entries among events."""
    return [event.entry for event in events if event.HasField("entry")]


def values(events: Iterable[WatchHistoryEvent]) -> list[int]:
    """Returns the values of the documents after the entries among events."""
    return [entry.document.policies.max_producer_per_topic for entry in entries(events)]


async def test_an_entry_has_the_event_as_it_stands_in_the_log(start: Start) -> None:
    offload = OffloadPolicies(
        managed_ledger_offload_driver="S3", managed_ledger_offload_bucket="b", s3_managed_ledger_offload_credential_secret="s3cret"
    )
    async with start() as serving:
        await serving.write([1])
        await serving.stub.UpdatePolicy(UpdatePolicyRequest(topic=TOPIC, policies=TopicPolicies(offload_policies=offload)))
        await serving.stub.UpdatePolicy(
            UpdatePolicyRequest(topic=TOPIC, scope=SCOPE_GLOBAL, policies=TopicPolicies(max_producer_per_topic=2))
        )
        await serving.stub.DeletePolicy(DeletePolicyRequest(topic=TOPIC))
        while len(found := entries(await serving.watch().whole())) < 5:  # the tombstone follows the answer  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    first, secret, of_all, *gone = found
    for entry in (first, secret, of_all, *gone):
        event = entry.event
        named = event.topic_policies_event
        assert (event.event_type, named.domain, named.tenant, named.namespace, named.topic) == (
            EVENT_TYPE_TOPIC_POLICY, "persistent", "public", "default", "orders",
        )  # fmt: skip
    assert first.event.action_type == ACTION_TYPE_UPDATE and list(first.event.replicate_to) == ["standalone"]
    assert first.event.topic_policies_event.policies == first.document.policies == TopicPolicies(max_producer_per_topic=1)
    assert secret.event.topic_policies_event.policies.offload_policies.s3_managed_ledger_offload_credential_secret == REDACTED
    assert not of_all.event.replicate_to and of_all.event.topic_policies_event.policies == TopicPolicies(max_producer_per_topic=2)
    assert [entry.kind for entry in gone] == [HISTORY_KIND_DELETE, HISTORY_KIND_TOMBSTONE]
    assert [entry.event.action_type for entry in gone] == [ACTION_TYPE_UPDATE, ACTION_TYPE_DELETE]
    assert [entry.event.topic_policies_event.HasField("policies") for entry in gone] == [True, False]
    assert gone[0].event.topic_policies_event.policies == TopicPolicies() and not gone[0].document.HasField("policies")


async def test_a_gap_behind_all_events_is_sent_once(start: Start, tmp_path: Path) -> None:
    async with start() as serving:
        await serving.write([1])
    with closing(file.open_file(tmp_path / "history.db")) as opened:
        (log,) = {log for log, _ in opened.extents()[NAMESPACE].streams}
        hole = Stream(NAMESPACE, log, 0), "~"
        opened.write((), [Gap(NAMESPACE, 1, 2, GapReason.OVERRUN, (hole,))], {})
    async with start() as serving:
        watch = serving.watch()
        events = [event for event in await watch.until_synced() if not event.HasField("status")]
        assert kinds(events) == ["entry", "gap", "bookmark"]
        for value in (2, 3):
            await serving.write([value])
            events = await watch.until(lambda event: event.HasField("entry"))
            assert not [event for event in events if event.HasField("gap")]
        watch.cancel()


async def test_another_server_on_the_same_log_goes_on_from_a_position(start: Start) -> None:
    async with start(history="one") as serving:
        await serving.write(range(5))
        position = (await serving.watch().whole())[-3].position
    async with start(history="two") as serving:
        await serving.write([5])
        assert values(await serving.watch(position).whole()) == [4, 5]


@pytest.mark.parametrize("ahead", [True, False])
async def test_a_position_that_the_server_does_not_know_resets_the_watch(start: Start, ahead: bool) -> None:
    async with start() as serving:
        await serving.write(range(3))
        token = tokens.read_position((await serving.watch().whole())[-1].position)
        wrong = token._replace(positions=("~",)) if ahead else token._replace(log="elsewhere")
        events = [event for event in await serving.watch(tokens.write_position(9, wrong)).whole() if not event.HasField("status")]
        assert kinds(events) == ["reset", *["entry"] * 3, "bookmark"]
        assert events[0].reset.reason == ERROR_REASON_TOKEN_OUT_OF_RANGE


async def test_bookmarks_come_while_nothing_happens_and_their_age_is_that_of_the_copy(start: Start) -> None:
    async with start() as serving:
        await serving.write([1])
        watch = serving.watch(bookmark_interval=Duration(seconds=1))
        synced = (await watch.until_synced())[-1]
        marks = [await watch.next() for _ in range(2)]
        assert kinds(marks) == ["bookmark"] * 2 and {mark.position for mark in marks} == {synced.position}
        assert all(not mark.bookmark.synced and mark.bookmark.age.ToTimedelta().total_seconds() < 1 for mark in marks)
        watch.cancel()


async def test_a_reader_gets_every_entry_once_although_the_history_fails_meanwhile(start: Start, tmp_path: Path) -> None:
    async with start() as serving:
        await serving.write(range(41))
        await serving.watch().whole()
        with closing(sqlite3.connect(tmp_path / "history.db")) as connection:
            connection.execute("ALTER TABLE entries RENAME TO away")
            watch = serving.watch()
            failed = (await watch.until(lambda event: event.HasField("status")))[-1].status
            connection.execute("ALTER TABLE away RENAME TO entries")
        events = await watch.until_synced()
        watch.cancel()
    assert failed.reason == ERROR_REASON_HISTORY_UNAVAILABLE
    assert values(events) == list(range(41))


@pytest.mark.parametrize(
    ("request_fields", "field"),
    [
        ({}, "namespaces"),
        ({"namespaces": ["nowhere"]}, "namespaces[0]"),
        ({"namespaces": ["a/b"], "positions": {"a/c": ""}}, "positions"),
        ({"namespaces": ["a/b"], "positions": {"a/b": "x"}}, "positions"),
        ({"namespaces": ["a/b"], "positions": {"a/b": "", "a/c": ""}}, "positions"),
        ({"namespaces": ["a/b"], "bookmark_interval": Duration(nanos=1)}, "bookmark_interval"),
    ],
)
async def test_a_malformed_request_is_refused_with_the_field(start: Start, request_fields: dict[str, object], field: str) -> None:
    async with start() as serving:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await HistoryReader(serving.stub, **request_fields).rest()  # type: ignore[arg-type]
        refusal = Refusal(caught.value)
        assert refusal.code == grpc.StatusCode.INVALID_ARGUMENT and set(refusal.violations) == {field}
        assert (await serving.stub.ListPolicies(ListPoliciesRequest(namespace="a/b"))).resume_token


async def test_bookmarks_divide_a_history_and_tell_its_end_without_events(start: Start) -> None:
    async with start() as serving:
        await serving.write(range(1, 24))
        whole = [event.position for event in await serving.watch().whole() if event.HasField("entry")]
        watch = serving.watch(bookmark_every=5)
        marks = [event for event in await watch.until_synced() if not event.HasField("status")]
        assert set(kinds(marks)) == {"bookmark"}
        assert [event.position for event in marks] == [whole[number] for number in (4, 9, 14, 19, 22)]
        await serving.write(range(24, 31))
        assert (await watch.until(lambda event: event.HasField("bookmark") and event.position > whole[-1]))[-1].position > whole[-1]
        watch.cancel()
        assert values(await serving.watch(whole[-1]).whole()) == list(range(24, 31))
        (end,) = [event for event in await serving.watch(whole[9], bookmark_every=1_000_000).until_synced() if event.HasField("bookmark")]
        assert entries(await serving.watch(end.position).whole()) == []
        with pytest.raises(grpc.aio.AioRpcError, match="must be from 1 to"):
            await serving.watch(bookmark_every=-1).whole()
