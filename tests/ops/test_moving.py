"""The metrics of what delays a server: each one rises with its cause, and falls when that is over."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client.metrics_core import Metric

from tests.eventually import eventually
from tests.history.conftest import BOUNDS, reader_of, update
from tests.history.test_trouble import refuse_commits
from tests.namespaces.bench import KEY, OTHER, Bench, simulate
from topicpolicies.v1.history_pb2 import WatchHistoryRequest
from topicpolicies.v1.policies_pb2 import EntryFilters, TopicPolicies
from topicpolicies.v1.service_pb2 import UpdatePolicyRequest
from topicpolicies_server.core.policies import documents
from topicpolicies_server.history import open_history
from topicpolicies_server.history.entries import Noted, Stream
from topicpolicies_server.history.writer import HistoryWriter
from topicpolicies_server.logs.change_log import Connections
from topicpolicies_server.ops.metrics import ServerCollector, of_history

from .scraping import TOPIC, showing
from .test_metrics import shown

LARGE = 64 << 10


def figures(families: Callable[[], object]) -> dict[str, float]:
    """Returns the samples without labels by their names."""
    found: dict[str, float] = {}
    for family in families():  # type: ignore[attr-defined]
        assert isinstance(family, Metric)
        found |= {each.name.removeprefix("topicpolicies_"): each.value for each in family.samples if not each.labels}
    return found


def test_held_appends_show_as_in_flight_and_changes_beyond_the_limit_as_waiting() -> None:
    async def scenario(bench: Bench) -> None:
        collector = ServerCollector(bench.registry)
        await bench.set(1)
        names = ("chains", "chain_depth", "changes_waiting")
        assert [shown(collector)[name] for name in names] == [0, 0, 0]
        bench.opened.appends[0].hold()
        changes = [bench.setting(value) for value in range(2, 7)] + [bench.setting(9, key=OTHER)]
        await asyncio.sleep(0.1)
        assert [shown(collector)[name] for name in names] == [2, 2, 3]
        bench.opened.appends[0].release()
        await asyncio.gather(*changes)
        assert [shown(collector)[name] for name in names] == [0, 0, 0]

    simulate(scenario, max_in_flight_per_key=2)


def test_a_stalled_reader_shows_as_lag_and_the_servers_own_proven_changes_do_not_wait_for_it() -> None:
    async def scenario(bench: Bench) -> None:
        collector = ServerCollector(bench.registry)
        await bench.set(1)
        await asyncio.sleep(0.1)
        assert shown(collector)["reader_lag_events"] == 0
        bench.opened.reads[0].hold()
        for value in (2, 3, 4):
            await bench.set(value)
        behind = shown(collector)
        assert (behind["reader_lag_events"], behind["events_unproven"]) == (3, 0)
        bench.opened.reads[0].release()
        await asyncio.sleep(0.1)
        again = shown(collector)
        assert again["reader_lag_events"] == 0

    simulate(scenario)


def test_a_change_after_an_event_of_another_writer_waits_for_the_reader() -> None:
    async def scenario(bench: Bench) -> None:
        collector = ServerCollector(bench.registry)
        await bench.set(1)
        await asyncio.sleep(0.1)
        bench.opened.reads[0].hold()
        bench.elsewhere(7, OTHER)
        change = bench.setting(2, key=KEY)
        await asyncio.sleep(0.1)
        behind = shown(collector)
        assert (behind["events_unproven"], behind["reader_lag_events"], change.done()) == (1, 1, False)
        bench.opened.reads[0].release()
        await change
        assert [shown(collector)[name] for name in ("events_unproven", "reader_lag_events")] == [0, 0]

    simulate(scenario, sole_writer=False)


async def test_a_history_whose_disk_is_full_shows_waiting_entries_with_a_rising_age(tmp_path: Path) -> None:
    history = open_history(tmp_path / "history.db", BOUNDS)
    names = ("history_waiting_events", "history_waiting_bytes", "history_waiting_seconds", "history_failing")

    def show() -> list[float]:
        samples = figures(lambda: of_history(history))
        return [samples[name] for name in names]

    try:
        reader = await reader_of(history)
        assert show() == [0, 0, 0, 0]
        history._writer.file.connection.set_authorizer(refuse_commits)
        reader.read(update(1, 1), update(2, 2))
        await eventually(lambda: show()[3] == 1)
        events, size, first, _ = show()
        assert events == 2 and size > 0
        await eventually(lambda: show()[2] > first > 0)
        history._writer.file.connection.set_authorizer(lambda *_: sqlite3.SQLITE_OK)
        await eventually(lambda: show() == [0, 0, 0, 0])
    finally:
        await history.close()


def test_waiting_entries_count_towards_the_bound_with_the_size_of_their_documents(tmp_path: Path) -> None:
    document = documents.split(TopicPolicies(entry_filters=EntryFilters(entry_filter_names="x" * LARGE)))
    small, large = (Noted(Stream("public/default", "log", 0), update(1, 1), 1, None, None, after, "1", "us") for after in (None, document))
    writer = HistoryWriter(tmp_path / "history.db", BOUNDS, backlog_bytes=10 * LARGE)
    writer.note([large] * 100)
    assert writer.figures().waiting == 9, "the waiting entries are not bounded by their bytes"
    writer.note([small])
    assert writer.figures().waiting == 10
    writer.close()


def test_a_log_whose_reader_has_no_connection_counts_as_open_and_not_connected(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(bench: Bench) -> None:
        collector = ServerCollector(bench.registry)
        for now in (Connections(0, 0), Connections(2, 2), Connections(2, 1)):
            monkeypatch.setattr(bench.log, "connections", lambda now=now: now, raising=False)
            samples = shown(collector)
            assert (samples["logs_open"], samples["logs_connected"]) == now

    simulate(scenario)


async def test_records_of_a_watch_that_is_not_read_show_as_waiting(tmp_path: Path) -> None:
    async with showing(tmp_path) as shown_by:
        for number in range(120):
            policies = TopicPolicies(entry_filters=EntryFilters(entry_filter_names=f"{number}-" + "x" * LARGE))
            await shown_by.stub.UpdatePolicy(UpdatePolicyRequest(topic=TOPIC, policies=policies))
        watch = shown_by.stub.WatchHistory(WatchHistoryRequest(namespaces=["public/default"]))
        held = await shown_by.until_more("topicpolicies_watch_records_waiting", 0)
        await shown_by.until_more("topicpolicies_unread_seconds", 0.2)
        assert held.value("topicpolicies_watches") == 1
        async for message in watch:
            if any(each.bookmark.synced for each in message.events):
                break
        await shown_by.until("topicpolicies_watch_records_waiting", 0)
        await shown_by.until("topicpolicies_unread_seconds", 0)
        watch.cancel()
