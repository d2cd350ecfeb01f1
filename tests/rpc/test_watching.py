"""Watches over real gRPC: snapshots, changes, tokens to resume from, resets, and statuses after failures."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration

from tests.stubs import AsyncStub, async_stub
from topicpolicies.v1 import errors_pb2, service_pb2
from topicpolicies.v1.policies_pb2 import SCOPE_LOCAL, TopicPolicies
from topicpolicies.v1.service_pb2 import (
    NAMESPACE_STATE_FAILED,
    NAMESPACE_STATE_READY,
    WATCH_MODE_ENTRIES,
    WATCH_MODE_EVERY,
    WATCH_MODE_LATEST,
    DeletePolicyRequest,
    UpdatePolicyRequest,
    UpdatePolicyResponse,
    WatchToken,
)
from topicpolicies_server.config import EmbeddedLogConfig, HistoryConfig, Limits, ServerConfig, parse_address
from topicpolicies_server.history import file
from topicpolicies_server.history.entries import Gap, GapReason, Stream
from topicpolicies_server.rpc.server import Server
from topicpolicies_server.rpc.watching import serializing
from topicpolicies_server.rpc.watching.part import Part

from .conftest import TOPIC, Refusal
from .watching import WatchReader, changes, kinds, token_of

NAMESPACE = "public/default"
MODES = (WATCH_MODE_LATEST, WATCH_MODE_EVERY)
QUIET = f"{TOPIC}-quiet"


async def update(stub: AsyncStub, value: int, topic: str = TOPIC, **more: object) -> UpdatePolicyResponse:
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


# What is sent


async def test_a_watch_sends_a_snapshot_with_absent_topics_then_synced_and_then_changes(stub: AsyncStub) -> None:
    first = await update(stub, 1)
    watch = WatchReader(stub, topics=[TOPIC, f"{TOPIC}-absent"], scopes=[SCOPE_LOCAL])
    events = [event for event in await watch.until_synced() if not event.HasField("status")]
    found = [(change.document.topic, change.document.HasField("policies"), change.position) for change in changes(events)]
    assert found == [(TOPIC, True, first.document.version), (f"{TOPIC}-absent", False, "")]
    assert token_of(events).positions == [first.document.version] and {event.namespace for event in events} == {NAMESPACE}
    second = await update(stub, 2, actor="alice", reason="more are coming")
    change = await watch.change()
    assert (change.document, change.previous_version) == (second.document, first.document.version)
    assert (change.origin.actor, change.origin.reason) == ("alice", "more are coming")
    assert list(change.origin.update_mask.paths) == ["max_producer_per_topic"] and not change.HasField("previous")
    assert change.origin.event.topic_policies_event.topic == "orders"
    gone = await stub.DeletePolicy(DeletePolicyRequest(topic=TOPIC))
    assert (await watch.change()).document == gone.document
    watch.cancel()


async def test_changes_have_the_previous_document_if_the_request_asks_for_it(stub: AsyncStub) -> None:
    watch = WatchReader(stub, namespaces=[NAMESPACE], mode=WATCH_MODE_EVERY, include_previous=True)
    plain = WatchReader(stub, namespaces=[NAMESPACE], mode=WATCH_MODE_EVERY)
    await asyncio.gather(watch.until_synced(), plain.until_synced())
    first, second = await update(stub, 1), await update(stub, 2)
    made = [await watch.change() for _ in range(2)]
    assert [change.previous.HasField("policies") for change in made] == [False, True]
    assert (made[1].previous, made[1].document) == (first.document, second.document)
    assert [(await plain.change()).HasField("previous") for _ in range(2)] == [False, False]
    watch.cancel()
    plain.cancel()


async def test_a_large_snapshot_is_sent_in_few_messages(stub: AsyncStub) -> None:
    await asyncio.gather(*(update(stub, 1, f"{TOPIC}-{number}") for number in range(500)))
    watch = WatchReader(stub, namespaces=[NAMESPACE], end_when_synced=True)
    events = await watch.rest()
    assert len(changes(events)) == 500 and kinds(events)[-1] == "bookmark"
    assert watch.messages < 20


async def test_a_watch_resumes_from_its_token_without_gap_or_repetition(stub: AsyncStub) -> None:
    await update(stub, 1)
    for mode in MODES:
        synced = await WatchReader(stub, namespaces=[NAMESPACE], mode=mode, end_when_synced=True).rest()
        made = [(await update(stub, value + 10 * mode)).document for value in range(2, 6)]
        expected = made if mode == WATCH_MODE_EVERY else made[-1:]
        events = await WatchReader(
            stub, namespaces=[NAMESPACE], mode=mode, resume={NAMESPACE: token_of(synced)}, end_when_synced=True
        ).rest()
        assert [change.document for change in changes(events)] == expected and "reset" not in kinds(events)


async def test_bookmarks_come_on_a_timer_without_changes_to_the_watched_topic_and_have_a_later_confirmed_time(stub: AsyncStub) -> None:
    await update(stub, 1)
    watch = WatchReader(stub, topics=[QUIET], bookmark_interval=Duration(seconds=1))
    synced = (await watch.until_synced())[-1].bookmark
    other = await update(stub, 2)
    events = await watch.until(lambda event: list(event.bookmark.token.positions) == [other.document.version])
    assert events[-1].bookmark.kind == service_pb2.BOOKMARK_KIND_TIMER
    assert events[-1].bookmark.confirmed_time.ToMilliseconds() > synced.confirmed_time.ToMilliseconds()
    watch.cancel()


async def test_watches_that_never_read_do_not_delay_another_watch(stub: AsyncStub) -> None:
    stuck = [stub.WatchPolicies(service_pb2.WatchPoliciesRequest(namespaces=[NAMESPACE], mode=mode)) for mode in MODES]
    watch = WatchReader(stub, namespaces=[NAMESPACE])
    await watch.until_synced()
    for value in range(1, 301):
        await update(stub, value)
    while (await watch.change()).document.policies.max_producer_per_topic != 300:
        pass
    watch.cancel()
    for call in stuck:
        call.cancel()


# Resets


async def test_a_token_of_another_log_resets_its_namespace_and_no_other(stub: AsyncStub) -> None:
    other = "public/other"
    here, there = await update(stub, 1), await update(stub, 2, f"persistent://{other}/orders")
    good = token_of(await WatchReader(stub, namespaces=[other], end_when_synced=True).rest())
    resume = {NAMESPACE: WatchToken(log="another", positions=["21"]), other: good}
    events = await WatchReader(stub, namespaces=[NAMESPACE, other], resume=resume, end_when_synced=True).rest()
    mine = [event for event in events if event.namespace == NAMESPACE]
    assert kinds(mine) == ["reset", "change", "bookmark"]
    assert mine[0].reset.reason == errors_pb2.ERROR_REASON_TOKEN_OUT_OF_RANGE and "snapshot" in mine[0].reset.message
    assert mine[1].change.document == here.document
    assert kinds([event for event in events if event.namespace == other]) == ["bookmark"]
    assert there.document.version in good.positions


async def test_a_watch_with_an_empty_token_begins_with_a_snapshot_and_no_reset(stub: AsyncStub) -> None:
    await update(stub, 1)
    events = await WatchReader(stub, namespaces=[NAMESPACE], resume={NAMESPACE: WatchToken()}, end_when_synced=True).rest()
    assert kinds(events) == ["change", "bookmark"]


async def test_a_watch_resumes_from_its_token_after_a_restart_of_the_server(serving: Serving) -> None:
    async with serving() as stub:
        await update(stub, 1)
        token = token_of(await WatchReader(stub, namespaces=[NAMESPACE], end_when_synced=True).rest())
        await update(stub, 2)
    async with serving() as stub:
        third = await update(stub, 3)
        for mode in MODES:
            events = await WatchReader(stub, namespaces=[NAMESPACE], mode=mode, resume={NAMESPACE: token}, end_when_synced=True).rest()
            expected = [3] if mode == WATCH_MODE_LATEST else [2, 3]
            assert [change.document.policies.max_producer_per_topic for change in changes(events)] == expected
            assert "reset" not in kinds(events) and token_of(events).positions == [third.document.version]


# Every change, however far behind


async def test_changes_that_the_backlog_has_dropped_are_sent_from_the_history(serving: Serving) -> None:
    async with serving() as stub:
        await update(stub, 0)
        token = token_of(await WatchReader(stub, namespaces=[NAMESPACE], end_when_synced=True).rest())
        for value in range(1, 51):
            await update(stub, value)
        watch = WatchReader(stub, topics=[TOPIC], mode=WATCH_MODE_EVERY, resume={NAMESPACE: token}, include_previous=True)
        events = await watch.until_synced()
        values = [
            (change.previous.policies.max_producer_per_topic, change.document.policies.max_producer_per_topic) for change in changes(events)
        ]
        assert values == [(value - 1, value) for value in range(1, 51)] and "reset" not in kinds(events)
        await update(stub, 51)
        assert (await watch.change()).document.policies.max_producer_per_topic == 51
        watch.cancel()


async def test_a_reader_of_every_change_that_stops_reading_for_a_while_misses_nothing(serving: Serving) -> None:
    async with serving() as stub:
        watch = WatchReader(stub, namespaces=[NAMESPACE], mode=WATCH_MODE_EVERY)
        await watch.until_synced()
        big = "x" * 20_000
        for value in range(1, 401):
            policies = TopicPolicies(max_producer_per_topic=value)
            policies.entry_filters.entry_filter_names = big
            await stub.UpdatePolicy(UpdatePolicyRequest(topic=TOPIC, policies=policies))
        await update(stub, 401)
        events = await watch.until(lambda event: event.change.document.policies.max_producer_per_topic == 401)
        assert [change.document.policies.max_producer_per_topic for change in changes(events)] == list(range(1, 402))
        assert "reset" not in kinds(events)
        watch.cancel()


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


async def test_a_watch_of_every_change_gets_a_reset_if_changes_behind_its_token_are_gone(serving: Serving) -> None:
    async with serving(history=False) as stub:
        await update(stub, 0)
        token = token_of(await WatchReader(stub, namespaces=[NAMESPACE], end_when_synced=True).rest())
        for value in range(1, 51):
            await update(stub, value)
        events = await WatchReader(
            stub, namespaces=[NAMESPACE], mode=WATCH_MODE_EVERY, resume={NAMESPACE: token}, end_when_synced=True
        ).rest()
        assert kinds(events) == ["reset", "change", "bookmark"]
        assert events[0].reset.reason == errors_pb2.ERROR_REASON_EVENTS_GONE


async def test_the_history_can_be_watched_from_the_beginning_or_a_token_and_to_its_end_or_beyond(serving: Serving) -> None:
    async with serving() as stub:
        for value in range(1, 31):
            await update(stub, value)
        everything = await WatchReader(stub, namespaces=[NAMESPACE], mode=WATCH_MODE_ENTRIES, end_when_synced=True).rest()
        entries = [event.entry for event in everything if event.HasField("entry")]
        assert [entry.document.policies.max_producer_per_topic for entry in entries] == list(range(1, 31))
        assert [entry.previous.policies.max_producer_per_topic for entry in entries] == list(range(30))
        assert kinds(everything)[-1] == "bookmark" and token_of(everything).positions == [entries[-1].position]
        middle = WatchToken(log=token_of(everything).log, positions=[entries[14].position])
        watch = WatchReader(stub, namespaces=[NAMESPACE], mode=WATCH_MODE_ENTRIES, resume={NAMESPACE: middle})
        assert len(await watch.until_synced()) == 16
        gone = await stub.DeletePolicy(DeletePolicyRequest(topic=TOPIC))
        event = (await watch.until(lambda event: event.HasField("entry")))[-1]
        assert event.entry.document == gone.document and event.entry.kind == service_pb2.HISTORY_KIND_DELETE
        watch.cancel()


async def test_a_watch_of_the_history_has_bookmarks_where_another_log_begins(serving: Serving, tmp_path: Path) -> None:
    async with serving() as stub:
        first = [await update(stub, value) for value in (1, 2, 3)]
    (tmp_path / "policies.db").unlink()
    async with serving() as stub:
        await update(stub, 4)
        events = await WatchReader(stub, namespaces=[NAMESPACE], mode=WATCH_MODE_ENTRIES, end_when_synced=True).rest()
        assert kinds(events) == ["bookmark", "entry", "entry", "entry", "bookmark", "gap", "entry", "bookmark"]
        old, new = (events[index].bookmark for index in (0, 4))
        assert old.kind == new.kind == service_pb2.BOOKMARK_KIND_TIMER and not old.token.positions and not new.token.positions
        assert old.token.log != new.token.log == token_of(events).log
        assert old.confirmed_time.ToSeconds() == new.confirmed_time.ToSeconds() == 0
        last = WatchToken(log=old.token.log, positions=[first[-1].version])
        for token, rest in ((last, kinds(events)[4:]), (new.token, kinds(events)[5:])):
            resumed = await WatchReader(
                stub, namespaces=[NAMESPACE], mode=WATCH_MODE_ENTRIES, resume={NAMESPACE: token}, end_when_synced=True
            ).rest()
            assert kinds(resumed) == rest, "the resumed watch differs from an uninterrupted one"


async def test_a_watch_of_an_empty_history_resumes_from_the_token_of_a_listing(serving: Serving) -> None:
    async with serving() as stub:
        token = (await stub.ListPolicies(service_pb2.ListPoliciesRequest(namespace=NAMESPACE))).token
        assert token.log
        watch = WatchReader(stub, namespaces=[NAMESPACE], mode=WATCH_MODE_ENTRIES, resume={NAMESPACE: token})
        assert kinds(await watch.until_synced()) == ["bookmark"]
        await update(stub, 1)
        assert (await watch.next()).entry.document.policies.max_producer_per_topic == 1
        watch.cancel()


async def test_a_gap_after_all_events_is_sent_once(serving: Serving, tmp_path: Path) -> None:
    async with serving() as stub:
        await update(stub, 1)
    connection = file.prepare(tmp_path / "history.db")
    (log,) = {log for log, _ in file.marks(connection)[NAMESPACE].streams}
    hole = Stream(NAMESPACE, log, 0), "~"
    file.add_gap(connection, file.namespace_id(connection, NAMESPACE), Gap(NAMESPACE, 1, 2, GapReason.OVERRUN, (hole,)))
    connection.close()
    async with serving() as stub:
        watch = WatchReader(stub, namespaces=[NAMESPACE], mode=WATCH_MODE_ENTRIES)
        events = [event for event in await watch.until_synced() if not event.HasField("status")]
        assert kinds(events) == ["bookmark", "entry", "gap", "bookmark"]
        for value in (2, 3):
            await update(stub, value)
            events = await watch.until(lambda event: event.HasField("entry"))
            assert not [event for event in events if event.HasField("gap")]
        watch.cancel()


async def test_every_change_can_be_watched_from_the_beginning_of_the_history(serving: Serving) -> None:
    async with serving() as stub:
        for value in range(1, 31):
            await update(stub, value)
        watch = WatchReader(stub, namespaces=[NAMESPACE], mode=WATCH_MODE_EVERY, from_beginning=True)
        events = await watch.until_synced()
        assert [change.document.policies.max_producer_per_topic for change in changes(events)] == list(range(1, 31))
        last = await update(stub, 31)
        assert (await watch.change()).document == last.document
        watch.cancel()


@pytest.mark.parametrize("mode", [WATCH_MODE_EVERY, WATCH_MODE_ENTRIES])
async def test_a_watch_from_the_beginning_of_a_namespace_without_events_is_synced_at_once(
    serving: Serving, mode: service_pb2.WatchMode.ValueType
) -> None:
    async with serving() as stub:
        watch = WatchReader(stub, namespaces=[NAMESPACE], mode=mode, from_beginning=True)
        assert kinds(await watch.until_synced())[-1] == "bookmark"
        first = await update(stub, 1)
        event = (await watch.until(lambda event: event.HasField("change") or event.HasField("entry")))[-1]
        assert first.document in (event.change.document, event.entry.document)
        watch.cancel()


async def test_the_message_of_a_reset_says_what_follows_in_the_mode_of_the_watch(serving: Serving) -> None:
    async with serving() as stub:
        await update(stub, 1)
        elsewhere = {NAMESPACE: WatchToken(log="elsewhere", positions=[""])}
        for mode, follows in ((WATCH_MODE_EVERY, "A snapshot follows."), (WATCH_MODE_ENTRIES, "What the history has follows.")):
            events = await WatchReader(stub, namespaces=[NAMESPACE], mode=mode, resume=elsewhere, end_when_synced=True).rest()
            assert kinds(events)[0] == "reset" and events[0].reset.message.endswith(follows)


async def test_a_watch_that_fails_unexpectedly_gets_status_failed_and_resumes_when_it_can(
    stub: AsyncStub, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(_: object) -> None:
        raise LookupError

    with monkeypatch.context() as planted:
        planted.setattr(Part, "_follow", fail)
        watch = WatchReader(stub, namespaces=[NAMESPACE, "public/other"])
        failed = {(await watch.until(lambda event: event.status.state == NAMESPACE_STATE_FAILED))[-1].namespace for _ in range(2)}
        assert failed == {NAMESPACE, "public/other"}
    events = await watch.until_synced()
    (last,) = [event.status for event in events if event.HasField("status") and event.namespace == events[-1].namespace][-1:]
    assert last.state == NAMESPACE_STATE_READY
    assert "LookupError" in caplog.text
    watch.cancel()


@pytest.mark.parametrize("mode", MODES)
async def test_a_namespace_whose_changes_can_not_be_serialized_fails_alone_and_resumes_where_it_stopped(
    stub: AsyncStub, monkeypatch: pytest.MonkeyPatch, mode: service_pb2.WatchMode.ValueType
) -> None:
    serialize = serializing.change_pieces

    def fail(name: str, *rest: Any, **more: Any) -> Sequence[bytes]:
        if name == NAMESPACE:
            raise LookupError
        return serialize(name, *rest, **more)

    other = "persistent://public/other/orders"
    watch = WatchReader(stub, namespaces=[NAMESPACE, "public/other"], mode=mode, bookmark_interval=Duration(seconds=1))
    await watch.until_synced()
    await watch.until_synced()
    await update(stub, 1)
    await watch.change()
    with monkeypatch.context() as planted:
        planted.setattr("topicpolicies_server.rpc.watching.part.change_pieces", fail)
        begun = WatchReader(stub, namespaces=[NAMESPACE, "public/other"], mode=mode)
        await update(stub, 2)
        failed = (await watch.until(lambda event: event.status.state == NAMESPACE_STATE_FAILED))[-1]
        assert failed.namespace == NAMESPACE
        await update(stub, 3, other)
        assert (await watch.change()).document.policies.max_producer_per_topic == 3
        await begun.until(lambda event: event.namespace == NAMESPACE and event.status.state == NAMESPACE_STATE_FAILED)
    seen = await watch.until(lambda event: event.HasField("change"))
    assert "reset" not in kinds(seen)
    assert seen[-1].change.document.policies.max_producer_per_topic == 2
    assert [each.document.policies.max_producer_per_topic for each in changes(await begun.until_synced())][-1] == 2
    watch.cancel()
    begun.cancel()


async def test_a_snapshot_whose_serialization_fails_midway_is_sent_again_after_a_reset(
    stub: AsyncStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(300):
        await update(stub, number, f"{TOPIC}-{number}")
    serialize, calls = serializing.change_pieces, 0

    def fail(*some: Any, **more: Any) -> Sequence[bytes]:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise LookupError
        return serialize(*some, **more)

    monkeypatch.setattr("topicpolicies_server.rpc.watching.part.change_pieces", fail)
    watch = WatchReader(stub, namespaces=[NAMESPACE], end_when_synced=True)
    events = await watch.rest()
    at = kinds(events).index("reset")
    assert len(changes(events[:at])) == 256
    assert {change.document.topic for change in changes(events[at:])} == {f"{TOPIC}-{number}" for number in range(300)}
    assert len(changes(events[at:])) == 300 and events[at].reset.message.endswith("A snapshot follows.")


async def test_without_a_history_entries_are_refused(serving: Serving) -> None:
    async with serving(history=False) as stub:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await WatchReader(stub, namespaces=[NAMESPACE], mode=WATCH_MODE_ENTRIES).rest()
        refusal = Refusal(caught.value)
        assert (refusal.code, refusal.info.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "HISTORY_OFF")
