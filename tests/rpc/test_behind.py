"""Readers that are behind, that disconnect, or whose history fails: no change is repeated or missing, and no resource leaks."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration

from tests.stubs import AsyncStub, async_stub
from topicpolicies.v1.errors_pb2 import ERROR_REASON_EVENTS_GONE, ERROR_REASON_HISTORY_UNAVAILABLE, ERROR_REASON_TOKEN_OUT_OF_RANGE
from topicpolicies.v1.policies_pb2 import EntryFilters, TopicPolicies
from topicpolicies.v1.service_pb2 import (
    WATCH_MODE_EVERY,
    WATCH_MODE_LATEST,
    UpdatePolicyRequest,
    WatchEvent,
    WatchMode,
    WatchPoliciesRequest,
)
from topicpolicies_server.config import EmbeddedLogConfig, HistoryConfig, Limits, ServerConfig, parse_address
from topicpolicies_server.core.reading import tokens
from topicpolicies_server.core.reading.view import View
from topicpolicies_server.core.reading.watch import Watcher
from topicpolicies_server.history import Recorder
from topicpolicies_server.rpc.server import Server

from .conftest import TOPIC
from .watching import WatchReader, changes, kinds, token_of

NAMESPACE = "public/default"
Serving = Callable[..., AbstractAsyncContextManager[tuple[Server, AsyncStub]]]


@pytest.fixture
def serving(tmp_path: Path) -> Serving:
    """Returns a function that starts a server with a history and a backlog of 16 changes."""

    @asynccontextmanager
    async def start(name: str = "one") -> AsyncIterator[tuple[Server, AsyncStub]]:
        config = ServerConfig(
            log=EmbeddedLogConfig(path=tmp_path / f"{name}.db"),
            listen=parse_address("127.0.0.1:0"),
            history=HistoryConfig(path=tmp_path / f"{name}.history.db"),
            limits=replace(Limits(), bookmark_interval_seconds=1.0, drain_seconds=2.0, max_every_backlog_changes=16),
        )
        async with Server(config) as server, grpc.aio.insecure_channel(server.address) as channel:
            yield server, async_stub(channel)

    return start


async def write(stub: AsyncStub, count: int, size: int = 0, *, topics: int = 1) -> None:
    """Makes so many changes, each with so many bytes, to so many topics in turn."""
    for number in range(count):
        policies = TopicPolicies(max_producer_per_topic=number)
        if size:
            policies.entry_filters.CopyFrom(EntryFilters(entry_filter_names=f"{number:06}" + "x" * size))
        topic = f"{TOPIC}-{number % topics}" if topics > 1 else TOPIC
        await stub.UpdatePolicy(UpdatePolicyRequest(topic=topic, policies=policies))


def as_of(event: WatchEvent) -> float:
    """Returns as of when a bookmark that was read just now says that everything was sent, or later: the message took time."""
    return time.time() - event.bookmark.age.ToTimedelta().total_seconds()


def positions(token: str) -> tuple[str, ...]:
    """Returns the positions inside a token."""
    return tokens.read(token).positions


@pytest.mark.slow
async def test_a_token_is_never_before_the_changes_already_sent_nor_behind_others_however_far_the_reader_is_behind(
    serving: Serving,
) -> None:
    async with serving() as (_, stub):
        await write(stub, 1)
        interval = Duration(seconds=1)
        watch = WatchReader(stub, namespaces=[NAMESPACE], mode=WATCH_MODE_EVERY, bookmark_interval=interval, include_previous=True)
        await watch.until_synced()
        await write(stub, 300, 20_000)
        seen: list[str] = []
        read = watch.messages
        while len(seen) < 300:
            event = await watch.next()
            seen += [event.change.document.version] if event.HasField("change") else []
            if event.resume_token:
                assert list(positions(event.resume_token)) == seen[-1:], "the token is not where the last change is"
            if watch.messages > read:
                read = watch.messages
                await asyncio.sleep(0.1)
        last = (await watch.until(lambda event: event.HasField("bookmark")))[-1]
        watch.cancel()
    assert seen == sorted(set(seen)), "a change was repeated"
    assert list(positions(last.resume_token)) == seen[-1:]


@pytest.mark.parametrize("mode", [WATCH_MODE_LATEST, WATCH_MODE_EVERY])
async def test_bookmarks_do_not_confirm_changes_that_a_slow_reader_has_not_been_sent(
    server: Server, stub: AsyncStub, mode: WatchMode.ValueType
) -> None:
    """The age of a bookmark is that of the state that the reader has: a cache that is behind must not look fresh."""
    async with grpc.aio.insecure_channel(
        server.address, options=[("grpc.http2.bdp_probe", 0)]
    ) as channel:  # keeps the window of flow control small
        request = WatchPoliciesRequest(namespaces=[NAMESPACE], mode=mode, bookmark_interval=Duration(seconds=1))
        watch = WatchReader(async_stub(channel), request)
        await watch.until_synced()
        await write(stub, 400, 20_000, topics=400)
        written = time.time()
        seen, between = 0, []
        while seen < 400:
            event = await watch.next()
            seen += event.HasField("change")
            if event.HasField("change") and seen in (1, 200):
                await asyncio.sleep(1.2)  # long enough for a bookmark to fall due
            if event.HasField("bookmark"):
                between.append(as_of(event))
        last = (await watch.until(lambda event: event.HasField("bookmark")))[-1]
        watch.cancel()
    assert between, "no bookmark was sent while the reader was behind"
    assert max(between) < written
    assert as_of(last) >= written


async def test_a_reader_that_is_behind_gets_every_change_once_although_the_history_fails_meanwhile(
    serving: Serving, tmp_path: Path
) -> None:
    async with serving() as (_, stub):
        await write(stub, 1)
        token = token_of(await WatchReader(stub, namespaces=[NAMESPACE]).whole())
        await write(stub, 41)
        with closing(sqlite3.connect(tmp_path / "one.history.db")) as connection:
            connection.execute("ALTER TABLE entries RENAME TO away")
            watch = WatchReader(stub, namespaces=[NAMESPACE], mode=WATCH_MODE_EVERY, resume_tokens={NAMESPACE: token})
            failed = (await watch.until(lambda event: event.HasField("status")))[-1].status
            connection.execute("ALTER TABLE away RENAME TO entries")
        events = await watch.until_synced()
        watch.cancel()
    assert failed.reason == ERROR_REASON_HISTORY_UNAVAILABLE
    assert [change.document.policies.max_producer_per_topic for change in changes(events)] == list(range(1, 41))


async def test_a_reader_of_every_change_gets_a_reset_if_it_is_behind_and_the_history_was_not_written(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("planted")

    async with serving() as (_, stub):
        await write(stub, 1)
        watch = WatchReader(stub, namespaces=[NAMESPACE], mode=WATCH_MODE_EVERY)
        await watch.until_synced()
        monkeypatch.setattr(Recorder, "noted", fails)
        await write(stub, 600, 20_000)
        reset = (await watch.until(lambda event: event.HasField("reset")))[-1].reset
        await watch.until(lambda event: event.change.document.policies.max_producer_per_topic == 599)
        watch.cancel()
    assert reset.reason == ERROR_REASON_EVENTS_GONE


async def test_a_reader_of_the_latest_documents_gets_a_reset_if_deletions_were_forgotten_while_it_was_behind(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving() as (_, stub):
        await write(stub, 1)
        watch = WatchReader(stub, namespaces=[NAMESPACE], mode=WATCH_MODE_LATEST)
        await watch.until_synced()
        lost, take = iter([True]), Watcher.take

        def lags(watcher: Watcher, most: int) -> Any:
            return watcher._lag() if next(lost, False) else take(watcher, most)

        monkeypatch.setattr(Watcher, "take", lags)
        monkeypatch.setattr(View, "forgotten", property(lambda _: {0: "~"}), raising=False)
        await write(stub, 2)
        events = await watch.until_synced()
        watch.cancel()
    assert [kind for kind in kinds(events) if kind != "status"] == ["reset", "change", "bookmark"]
    assert events[0].reset.reason == ERROR_REASON_TOKEN_OUT_OF_RANGE
    assert changes(events)[0].document.policies.max_producer_per_topic == 1
