"""What compaction of the embedded log deletes, what it must keep, and that the log's files stay small."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from array import array
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.logs.recorder import Recorder
from tests.logs.samples import a_key, a_large_document, a_tombstone, an_update
from topicpolicies_server.core.names import Scope
from topicpolicies_server.core.policies.events import Action, Event, Placed
from topicpolicies_server.logs.change_log import LogError
from topicpolicies_server.logs.sqlite import Compaction, SqliteLog, compaction
from topicpolicies_server.logs.sqlite import file as sqlite_file
from topicpolicies_server.logs.sqlite.compaction import KeyRow, choose_deletable
from topicpolicies_server.logs.sqlite.file import position_of
from topicpolicies_server.logs.sqlite.log import SqliteNamespaceLog

NAMESPACE = "acme/orders"
MINUTE = 60_000
HOUR = 60 * MINUTE


class Bench:
    """A log whose clock the test sets."""

    def __init__(self, path: Path, settings: Compaction) -> None:
        self.path = path
        self.settings = settings
        self.now = 1_700_000_000_000
        self.begin()

    def begin(self) -> None:
        self.change_log = SqliteLog(self.path, compaction=self.settings, now=lambda: self.now)

    async def open(self) -> tuple[SqliteNamespaceLog, Recorder]:
        recorder = Recorder()
        log = await self.change_log.open(NAMESPACE, recorder)
        await recorder.until_caught_up()
        return log, recorder

    async def write(self, *events: Event) -> None:
        recorder = Recorder()
        log = await self.change_log.open(NAMESPACE, recorder)
        for event in events:
            recorder.append(log, event)
        await recorder.until_settled(len(events))
        await recorder.until_caught_up()
        await log.close()

    async def survivors(self) -> list[str]:
        log, recorder = await self.open()
        await log.close()
        return recorder.ids()

    async def restart(self) -> None:
        await self.change_log.close()
        self.begin()


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    bench = Bench(tmp_path / "changes.db", Compaction(interval_seconds=3_600, pause_seconds=0))
    yield bench
    await bench.change_log.close()


def update(topic: int | str, name: str) -> Event:
    return an_update(a_key(NAMESPACE, topic), event_id=name)


async def test_compaction_keeps_the_newest_event_of_each_key_and_all_young_events(bench: Bench) -> None:
    await bench.write(update("a", "a1"), update("b", "b1"), update("a", "a2"), update("c", "c1"), update("a", "a3"))
    bench.now += 9 * MINUTE
    assert await bench.change_log.compact(NAMESPACE) == 0
    await bench.write(update("a", "a4"), update("b", "b2"), update("a", "a5"))
    bench.now += 2 * MINUTE
    assert await bench.change_log.compact(NAMESPACE) == 2
    # The newest old event of "a" and of "b" stays: without it, a reader would not know what the young events were applied to.
    assert await bench.survivors() == ["b1", "c1", "a3", "a4", "b2", "a5"]
    bench.now += 10 * MINUTE
    assert await bench.change_log.compact(NAMESPACE) == 3
    assert await bench.survivors() == ["c1", "b2", "a5"]
    assert await bench.change_log.compact(NAMESPACE) == 0


async def test_compaction_keeps_no_more_young_events_than_the_limit(bench: Bench) -> None:
    bench.settings = Compaction(retained=100, interval_seconds=3_600, pause_seconds=0)
    await bench.restart()
    await bench.write(*(update(n % 7, f"{n}") for n in range(1_000)))
    assert await bench.change_log.compact(NAMESPACE) == 1_000 - 100 - 7
    assert [int(name) for name in await bench.survivors()] == list(range(893, 1_000))
    assert await bench.change_log.compact(NAMESPACE) == 0


def large(topic: int, name: str) -> Event:
    """Returns an event of about twenty kilobytes."""
    return Event(a_key(NAMESPACE, topic), Action.UPDATE, a_large_document(20_000), update(topic, name).stamp)


async def test_compaction_keeps_no_more_bytes_of_young_events_than_the_limit(bench: Bench) -> None:
    bench.settings = Compaction(retained_bytes=400_000, interval_seconds=3_600, pause_seconds=0)
    await bench.restart()
    await bench.write(*(large(n % 3, f"{n}") for n in range(100)))
    with closing(sqlite3.connect(bench.path)) as connection:
        (size,) = connection.execute("SELECT max(length(payload) + length(key) + length(properties)) FROM events").fetchone()
    assert size > 10_000
    assert await bench.change_log.compact(NAMESPACE) > 70
    left = [int(name) for name in await bench.survivors()]
    assert left == list(range(left[0], 100))
    assert 400_000 // size <= len(left) <= 400_000 // size + 3, "the events within the limit, and the newest of each key before them"
    assert await bench.change_log.compact(NAMESPACE) == 0
    await bench.write(*(large(n, f"key {n}") for n in range(100, 150)))
    await bench.change_log.compact(NAMESPACE)
    assert len(await bench.survivors()) == 3 + 50, "the newest event of each key stays"


async def test_the_two_scopes_of_a_topic_are_compacted_separately(bench: Bench) -> None:
    keys = [a_key(NAMESPACE, 0, scope) for scope in (Scope.GLOBAL, Scope.LOCAL)]
    await bench.write(*(an_update(key, event_id=f"{key.scope.name}{n}") for n in range(2) for key in keys))
    bench.now += HOUR
    assert await bench.change_log.compact(NAMESPACE) == 2
    assert await bench.survivors() == ["GLOBAL1", "LOCAL1"]


async def test_tombstones_are_kept_for_a_day_and_row_numbers_are_not_reused_afterwards(bench: Bench) -> None:
    key = a_key(NAMESPACE, "gone")
    await bench.write(update("gone", "u"), a_tombstone(key, event_id="t"))
    bench.now += 23 * HOUR
    assert await bench.change_log.compact(NAMESPACE) == 1
    assert await bench.survivors() == ["t"]
    bench.now += 2 * HOUR
    assert await bench.change_log.compact(NAMESPACE) == 1
    assert await bench.survivors() == []
    await bench.restart()
    log, recorder = await bench.open()
    recorder.append(log, update("gone", "back"))
    await recorder.until_settled(1)
    assert recorder.places[0].position == position_of(3)  # rows 1 and 2 were assigned before, though both are deleted
    await bench.restart()
    assert await bench.survivors() == ["back"]


async def test_compaction_of_a_namespace_leaves_other_namespaces_unchanged(bench: Bench) -> None:
    await bench.write(update("a", "a1"), update("a", "a2"))
    recorder = Recorder()
    other = await bench.change_log.open("acme/other", recorder)
    for name in ("o1", "o2"):
        recorder.append(other, an_update(a_key("acme/other"), event_id=name))
    await recorder.until_settled(2)
    await other.close()
    bench.now += HOUR
    assert await bench.change_log.compact(NAMESPACE) == 1
    again = Recorder()
    await bench.change_log.open("acme/other", again)
    await again.until_caught_up()
    assert again.ids() == ["o1", "o2"]
    assert await bench.change_log.compact("acme/unknown") == 0


async def test_a_reader_sees_a_snapshot_of_the_log_while_compaction_deletes_events(bench: Bench) -> None:
    await bench.write(*(update(n % 3, f"{n}") for n in range(500)))
    bench.now += HOUR
    recorder = Recorder()
    log = await bench.change_log.open(NAMESPACE, recorder)
    await recorder.until(lambda: len(recorder.entries) > 0)
    assert recorder.caught_up_after == []
    assert await bench.change_log.compact(NAMESPACE) == 497
    await recorder.until_caught_up()
    assert recorder.ids() == [f"{n}" for n in range(500)]
    await log.close()
    assert await bench.survivors() == ["497", "498", "499"]


async def test_events_deleted_after_the_log_was_opened_are_read_from_its_snapshot(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    await bench.write(*(update(n, f"{n}") for n in range(200)))
    gate = threading.Event()
    pages = sqlite_file._pages

    def waiting(*arguments: Any) -> Iterator[list[Placed]]:
        assert gate.wait(30)
        yield from pages(*arguments)

    monkeypatch.setattr(sqlite_file, "_pages", waiting)
    recorder = Recorder()
    await bench.change_log.open(NAMESPACE, recorder)
    with closing(sqlite3.connect(bench.path)) as connection:
        connection.execute("DELETE FROM events")
        connection.commit()
    gate.set()
    await recorder.until_caught_up()
    assert recorder.ids() == [f"{n}" for n in range(200)]


async def test_complete_after_is_the_last_row_that_compaction_considered_also_after_a_restart(bench: Bench) -> None:
    await bench.write(*(update(n % 2, f"{n}") for n in range(10)))
    log, _ = await bench.open()
    assert log.complete_after(0) == ""
    await log.close()
    bench.now += HOUR
    await bench.write(update(0, "young"))
    assert await bench.change_log.compact(NAMESPACE) == 8
    for _ in range(2):
        log, recorder = await bench.open()
        assert log.complete_after(0) == position_of(10)
        assert recorder.ids() == ["8", "9", "young"]
        await bench.restart()


async def test_an_interrupted_compaction_leaves_the_newest_events_without_a_gap(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    await bench.write(*(update(n % 7, f"{n}") for n in range(300)))
    bench.now += HOUR
    left = 5

    def breaking(connection: sqlite3.Connection, namespace_id: int, places: list[int]) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise error
        deleting(connection, namespace_id, places)

    deleting = sqlite_file.delete_events
    monkeypatch.setattr(compaction, "DELETED", 30)
    monkeypatch.setattr(sqlite_file, "delete_events", breaking)
    with pytest.raises(LogError, match="could not be compacted"):
        await bench.change_log.compact(NAMESPACE)
    assert [int(name) for name in await bench.survivors()] == list(range(120, 300))


@given(
    st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.integers(0, 5)), max_size=30),
    st.integers(1, 7),
    st.integers(0, 6),
)
def test_compaction_leaves_the_newest_event_of_each_key_unless_it_is_an_old_tombstone(
    story: list[tuple[int, bool, int]], size: int, deletions_before: int
) -> None:
    rows = [KeyRow(place, age, f"key-{key}", tombstone) for place, (key, tombstone, age) in enumerate(story, start=1)]
    downwards = rows[::-1]
    deletable: array[int] = array("q")
    seen: set[str] = set()
    for start in range(0, len(downwards), size):
        choose_deletable(downwards[start : start + size], seen, deletable, deletions_before)
    newest = {key: (place, published_at, tombstone) for place, published_at, key, tombstone in rows}
    left = {row[0] for row in rows} - set(deletable)
    assert left == {place for place, published_at, tombstone in newest.values() if not (tombstone and published_at < deletions_before)}
    assert len(set(deletable)) == len(deletable)


async def test_compaction_runs_in_the_background_once_enough_events_are_superseded(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "changes.db", Compaction(retention_ms=-1, interval_seconds=0.01, minimum=50, pause_seconds=0))
    log, recorder = await bench.open()
    for n in range(40):
        recorder.append(log, update(0, f"{n}"))
    await recorder.until_settled(40)
    await asyncio.sleep(0.1)
    assert count(bench.path) == 40
    for n in range(40, 400):
        recorder.append(log, update(0, f"{n}"))
        if n % 20 == 0:
            await asyncio.sleep(0.005)
    await recorder.until_settled(400)
    async with asyncio.timeout(100):
        while count(bench.path) >= 60:  # noqa: ASYNC110 (not reported: the file is compacted in the background)
            await asyncio.sleep(0.01)
    await bench.restart()
    survivors = [int(name) for name in await bench.survivors()]
    assert survivors == list(range(survivors[0], 400))
    await bench.change_log.close()


@pytest.mark.slow
async def test_the_files_stay_small_however_often_the_same_keys_change(bench: Bench) -> None:
    """300 keys of 2 kB take 0.6 MB; all 12,000 events would take 24 MB."""
    document = a_large_document(2_000)
    sizes: list[int] = []
    log, recorder = await bench.open()
    for turn in range(40):
        for n in range(300):
            event = update(n, f"{turn}-{n}")
            recorder.append(log, Event(event.key, Action.UPDATE, document, event.stamp))
        await recorder.until_settled(300 * (turn + 1))
        bench.now += HOUR
        await bench.change_log.compact(NAMESPACE)
        sizes.append(length(bench.path) + length(bench.path.with_name("changes.db-wal")))
    assert max(sizes) < 12_000_000
    await bench.restart()
    assert await bench.survivors() == [f"39-{n}" for n in range(300)]
    await bench.change_log.close()
    assert length(bench.path) < 4_000_000
    assert not bench.path.with_name("changes.db-wal").exists()


@pytest.mark.slow
async def test_a_file_shrinks_when_most_of_it_was_deleted(bench: Bench) -> None:
    document = a_large_document(20_000)
    updates = [update(n, f"{n}") for n in range(400)]
    await bench.write(*(Event(event.key, Action.UPDATE, document, event.stamp) for event in updates))
    await bench.restart()
    assert await bench.survivors() == [f"{n}" for n in range(400)]
    assert length(bench.path) > 6_000_000
    await bench.write(*(a_tombstone(event.key) for event in updates[1:]))
    bench.now += 25 * HOUR
    assert await bench.change_log.compact(NAMESPACE) == 2 * 399
    await bench.restart()
    assert await bench.survivors() == ["0"]
    await bench.change_log.close()
    assert length(bench.path) < 2_000_000


def count(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        found: int = connection.execute("SELECT count(*) FROM events").fetchone()[0]
    return found


def length(path: Path) -> int:
    return path.stat().st_size
