"""A history whose disk, clock or thread fails: it answers nothing uncertain as certain, and openings of logs do not wait for it."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from topicpolicies_server.core.errors import PolicyError
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.reading.tokens import Token
from topicpolicies_server.history import History, open_history, writer
from topicpolicies_server.history.entries import Entry, GapReason
from topicpolicies_server.history.file import Query

from .conftest import BEGIN, BOUNDS, NAMESPACE, Log, Reader, position, reader_of, topic, update

KEY = PolicyKey(topic(), Scope.LOCAL)
DAY = 86_400_000


def rows(entries: list[Entry]) -> list[int]:
    return [int(entry.position) for entry in entries]


@contextmanager
def locked(history: History, path: Path) -> Iterator[None]:
    """Holds a write transaction of another connection open for the block."""
    history._writer.file.connection.execute("PRAGMA busy_timeout = 20")
    with closing(sqlite3.connect(path, isolation_level=None)) as blocker:
        blocker.execute("BEGIN IMMEDIATE")
        yield
        blocker.execute("ROLLBACK")


def refuse_commits(action: int, statement: str | None, *_: object) -> int:
    """An authorizer that refuses only commits, where a full disk fails too."""
    return sqlite3.SQLITE_DENY if (action, statement) == (sqlite3.SQLITE_TRANSACTION, "COMMIT") else sqlite3.SQLITE_OK


async def until_failing(history: History) -> None:
    async with asyncio.timeout(100):
        while not history._writer._failing:  # noqa: ASYNC110 (nothing to wait on)
            await asyncio.sleep(0.01)


async def uncertain(history: History, reader: Reader, at: int) -> dict[str, str]:
    """Reads as of a time, which must be refused as uncertain; returns the metadata of the error."""
    with pytest.raises(PolicyError) as refused:
        await history.past(NAMESPACE, KEY, reader.view.head(KEY), at=at)
    assert refused.value.reason == "NOT_IN_HISTORY"
    return refused.value.metadata


async def test_an_opening_does_not_wait_for_a_blocked_writer_and_loses_no_event(history: History, path: Path) -> None:
    first = await reader_of(history)
    first.read(update(1, 1))
    await history.page(Query(NAMESPACE))
    with locked(history, path):
        first.read(update(2, 2))
        await until_failing(history)
        first.recorder.caught_up()
        first.recorder.closed()
        async with asyncio.timeout(5):
            second = await reader_of(history)
        second.read(update(1, 1), update(2, 2), update(3, 3))
        second.recorder.caught_up()
        assert (await uncertain(history, second, BEGIN + 10_000))["gap_reason"] == "OVERRUN"
    await asyncio.sleep(writer.AGAIN_SECONDS)
    page = await history.page(Query(NAMESPACE))
    assert (rows(page.entries), page.gaps) == ([3, 2, 1], [])
    past = await history.past(NAMESPACE, KEY, second.view.head(KEY), at=BEGIN + 2_500)
    assert past.version == position(2)


async def test_while_the_disk_is_full_pages_are_answered_soon_with_a_gap_for_unwritten_events(history: History) -> None:
    reader = await reader_of(history)
    reader.read(update(1, 1), update(2, 2))
    await history.page(Query(NAMESPACE))
    connection = history._writer.file.connection
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}")
    for row in range(3, 303):
        reader.read(update(row, row, name=f"a-{row}"))
    reader.read(update(303, 303))
    await until_failing(history)
    async with asyncio.timeout(10):  # waiting for the disk would take twice as long
        page = await history.page(Query(NAMESPACE))
        assert set(rows(page.entries)) >= {1, 2}
        (gap,) = page.gaps
        assert gap.reason is GapReason.OVERRUN
        assert gap.since is not None
        assert BEGIN + 2_000 < gap.since <= BEGIN + 303_000 < gap.until
        assert (await history.page(Query(NAMESPACE, end=BEGIN + 2_000))).gaps == []
        assert (await uncertain(history, reader, BEGIN + 302_000))["gap_reason"] == "OVERRUN"
        assert (await history.past(NAMESPACE, KEY, reader.view.head(KEY), version=position(303))).version == position(303)
        with pytest.raises(PolicyError, match="can't be written"):  # it may be an event that is not in the file yet
            await history.past(NAMESPACE, KEY, reader.view.head(KEY), version=position(302))
        with pytest.raises(PolicyError, match="can't be written"):
            await history.stretch(NAMESPACE, Token("", ()), 10)
        other = await history.page(Query("public/other"))
        assert other.gaps == []
    connection.execute("PRAGMA max_page_count = 1000000")
    await asyncio.sleep(writer.AGAIN_SECONDS)
    page = await history.page(Query(NAMESPACE, most=1_000))
    assert (rows(page.entries), page.gaps) == (list(range(303, 0, -1)), [])


async def test_while_the_file_is_locked_many_requests_do_not_wait_for_one_another(history: History, path: Path) -> None:
    reader = await reader_of(history)
    reader.read(update(1, 1))
    await history.page(Query(NAMESPACE))
    with locked(history, path):
        history._writer.file.connection.execute("PRAGMA busy_timeout = 500")
        reader.read(update(2, 2))
        async with asyncio.timeout(30):  # a hundred attempts would take fifty seconds
            pages = await asyncio.gather(*(history.page(Query(NAMESPACE)) for _ in range(100)))
    assert all((rows(page.entries), len(page.gaps)) == ([1], 1) for page in pages)


async def test_a_read_that_never_ends_does_not_prevent_closing(path: Path, now: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("topicpolicies_server.history.history.CLOSE_SECONDS", 0.2)
    history = open_history(path, BOUNDS, now=lambda: now[0])
    (await reader_of(history)).read(update(1, 1))
    await history.page(Query(NAMESPACE))
    begun, gate = threading.Semaphore(0), threading.Event()

    def hang(*_: object) -> None:
        begun.release()
        gate.wait(60)

    monkeypatch.setattr("topicpolicies_server.history.file.HistoryFile.page", hang)
    asking = asyncio.create_task(history.page(Query(NAMESPACE)))
    assert await asyncio.to_thread(begun.acquire, timeout=20)
    async with asyncio.timeout(100):
        await history.close()
    gate.set()
    await asyncio.gather(asking, return_exceptions=True)


async def test_a_history_that_fails_while_it_is_closed_can_be_opened_again(
    path: Path, now: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    history = open_history(path, BOUNDS, now=lambda: now[0])
    with monkeypatch.context() as failing:
        failing.setattr("topicpolicies_server.history.writer.HistoryWriter.write", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            await history.close()
    await open_history(path, BOUNDS, now=lambda: now[0]).close()


async def test_events_that_do_not_fit_are_a_gap_even_before_a_later_event_fits(
    path: Path, now: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    history = open_history(path, BOUNDS, now=lambda: now[0])
    reader = await reader_of(history)
    reader.read(update(1, 1))
    await history.page(Query(NAMESPACE))
    monkeypatch.setattr(history._writer, "_backlog_bytes", 0)
    reader.read(update(2, 2))
    page = await history.page(Query(NAMESPACE))
    assert rows(page.entries) == [1]
    assert [(gap.since, gap.reason) for gap in page.gaps] == [(BEGIN + 2_000, GapReason.OVERRUN)]
    assert history.figures().gaps == {"OVERRUN": 1}
    assert (await uncertain(history, reader, BEGIN + 2_500))["gap_reason"] == "OVERRUN"
    monkeypatch.undo()
    reader.read(update(3, 3))
    page = await history.page(Query(NAMESPACE))
    assert rows(page.entries) == [3, 1]
    assert [(gap.since, gap.until) for gap in page.gaps] == [(BEGIN + 2_000, BEGIN + 2_001)]


@pytest.mark.parametrize(
    "change",
    [
        "entries SET after = zeroblob(length(after)) WHERE position = (SELECT max(position) FROM entries)",
        "entries SET at = at - 1",
        "entries SET previous = '0'",
        "entries SET principal = 'eve'",
        "gaps SET until = until - 500",
        "namespaces SET trimmed_until = trimmed_until + 7",
    ],
)
async def test_a_damaged_row_is_logged_and_reads_of_it_are_refused(
    path: Path, now: list[int], caplog: pytest.LogCaptureFixture, change: str
) -> None:
    history = open_history(path, BOUNDS, now=lambda: now[0])
    reader = await reader_of(history, Log(complete=position(1)))
    reader.read(update(3, 3), update(5, 5))
    reader.recorder.caught_up()
    await history.page(Query(NAMESPACE))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"UPDATE {change}")
        connection.commit()
    for _ in range(2):  # later writes do not hide the damage
        with caplog.at_level(logging.ERROR), pytest.raises(PolicyError) as refused:
            await history.past(NAMESPACE, KEY, reader.view.head(KEY), at=BEGIN + 4_000)
        assert refused.value.reason == "HISTORY_UNAVAILABLE"
        assert "is damaged" in caplog.text
        caplog.clear()
        reader.recorder.tick()


async def test_a_history_with_a_damaged_stream_row_is_refused_at_the_start(path: Path, now: list[int]) -> None:
    history = open_history(path, BOUNDS, now=lambda: now[0])
    (await reader_of(history)).read(update(1, 1))
    await history.close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE streams SET position = 'zz'")
        connection.commit()
    with pytest.raises(PolicyError, match="not what was written") as refused:
        open_history(path, BOUNDS)
    assert refused.value.reason == "HISTORY_UNAVAILABLE"


async def test_a_history_that_lost_all_its_content_is_told(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    await open_history(path, BOUNDS).close()
    await open_history(path, BOUNDS).close()
    assert "is empty" not in caplog.text
    os.truncate(path, 0)
    await open_history(path, BOUNDS).close()
    assert f"the history {path} is empty" in caplog.text


@pytest.mark.slow
async def test_no_flipped_bit_of_the_file_makes_a_wrong_document_certain(path: Path, now: list[int]) -> None:
    history = open_history(path, BOUNDS, now=lambda: now[0])
    reader = await reader_of(history)
    for row in range(1, 61):
        reader.read(update(row, row, name=f"t-{row % 6}"))
    reader.recorder.caught_up()
    await history.page(Query(NAMESPACE))
    await history.close()
    content = path.read_bytes()  # noqa: ASYNC240 (a small file)
    chance = random.Random(4711)
    refused = certain = 0
    keys = [PolicyKey(topic(f"t-{number}"), Scope.LOCAL) for number in range(6)]
    for turn in range(int(os.environ.get("FLIPS", "200"))):
        damaged = bytearray(content)
        damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
        other = path.with_name(f"damaged-{turn}.db")
        other.write_bytes(damaged)
        try:
            opened = open_history(other, BOUNDS, now=lambda: now[0])
        except PolicyError:
            refused += 1
            continue
        try:
            for number, key in enumerate(keys):
                for second in (20, 40):
                    row = max(row for row in range(1, second + 1) if row % 6 == number)
                    past = await opened.past(NAMESPACE, key, reader.view.head(key), at=BEGIN + 1000 * second)
                    assert past.version == position(row)
                    certain += 1
        except PolicyError:
            refused += 1
        finally:
            await opened.close()
    assert refused > 10
    assert certain > 200
