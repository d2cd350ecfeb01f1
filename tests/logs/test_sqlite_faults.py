"""What the embedded log reports when its disk fails: known outcomes as known, others as unknown, and none of them silently."""

from __future__ import annotations

import asyncio
import logging
import shutil
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.logs.recorder import Recorder
from tests.logs.samples import a_key, an_update
from tests.logs.sqlite_backend import FaultyConnection
from topicpolicies_server.core.policies.events import Placed
from topicpolicies_server.core.reasons import LogState
from topicpolicies_server.logs.change_log import LogError
from topicpolicies_server.logs.sqlite import Compaction, SqliteLog, writer
from topicpolicies_server.logs.sqlite import file as sqlite_file
from topicpolicies_server.logs.sqlite.file import position_of
from topicpolicies_server.logs.sqlite.log import SqliteNamespaceLog

NAMESPACE = "acme/orders"
KEY = a_key(NAMESPACE)


class Disk:
    """A file on a disk that can fail, and the log in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.faults = FaultyConnection.fresh()
        self.change_log = SqliteLog(path, connection=self.faults, close_seconds=5)

    async def open(self, namespace: str = NAMESPACE) -> tuple[SqliteNamespaceLog, Recorder]:
        recorder = Recorder()
        log = await self.change_log.open(namespace, recorder)
        await recorder.until_caught_up()
        return log, recorder

    def fail(self, code: int, *, after: bool = False, sql: str = "INSERT INTO events") -> None:
        """Makes the next such statement fail, before it takes effect or ``after``."""
        self.faults.sql, self.faults.error_code, self.faults.after, self.faults.once = sql, code, after, True


@pytest.fixture
async def disk(tmp_path: Path) -> AsyncIterator[Disk]:
    disk = Disk(tmp_path / "changes.db")
    yield disk
    disk.faults.gate.set()
    await disk.change_log.close()


def append_all(log: SqliteNamespaceLog, recorder: Recorder, *names: str) -> None:
    for name in names:
        recorder.append(log, an_update(KEY, event_id=name))


def failures(recorder: Recorder) -> list[tuple[str, bool]]:
    return [(event.stamp.event_id, error.outcome_unknown) for event, error in recorder.failures if event.stamp]


async def test_events_appended_during_a_commit_are_committed_together_by_the_next_one(disk: Disk) -> None:
    log, recorder = await disk.open()
    append_all(log, recorder, "first")
    await recorder.until_settled(1)
    disk.faults.statements.clear()
    disk.faults.gate.clear()
    append_all(log, recorder, *(f"{n}" for n in range(200)))
    await asyncio.sleep(0.05)
    append_all(log, recorder, *(f"{n}" for n in range(200, 400)))
    disk.faults.gate.set()
    await recorder.until_settled(401)
    assert recorder.ids() == ["first", *(f"{n}" for n in range(400))]
    assert 2 <= len(disk.faults.statements) <= 3  # the few at first, then at most 256 in one statement


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(getattr(sqlite3, name), id=name)
        for name in ("SQLITE_FULL", "SQLITE_BUSY", "SQLITE_READONLY", "SQLITE_BUSY_SNAPSHOT", "SQLITE_IOERR_WRITE")
    ],
)
async def test_a_refused_transaction_fails_its_events_with_a_known_outcome_and_later_appends_succeed(disk: Disk, code: int) -> None:
    log, recorder = await disk.open()
    append_all(log, recorder, "before")
    await recorder.until_settled(1)
    disk.fail(code)
    append_all(log, recorder, "failing")
    await recorder.until_settled(2)
    append_all(log, recorder, "after")
    await recorder.until_settled(3)
    assert failures(recorder) == [("failing", False)]
    assert recorder.losses == []
    assert [(placed.position, name) for placed, name in zip(recorder.places, recorder.ids(recorder.places), strict=True)] == [
        (position_of(1), "before"),
        (position_of(2), "after"),
    ]
    await disk.change_log.close()
    _, again = await Disk(disk.path).open()
    assert again.ids() == ["before", "after"]


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize(
    "code",
    [
        pytest.param(getattr(sqlite3, name), id=name)
        for name in ("SQLITE_CORRUPT", "SQLITE_ERROR", "SQLITE_NOMEM", "SQLITE_IOERR_FSYNC", "SQLITE_CANTOPEN")
    ],
)
async def test_an_error_after_which_the_outcome_is_unknown_loses_the_log_and_reopening_shows_the_outcome(
    disk: Disk, code: int, stored: bool
) -> None:
    log, recorder = await disk.open()
    other_log, other = await disk.open("acme/other")
    append_all(log, recorder, "before")
    await recorder.until_settled(1)
    disk.faults.gate.clear()
    disk.faults.statements.clear()
    append_all(log, recorder, "unknown")
    async with asyncio.timeout(100):
        while not disk.faults.statements:  # noqa: ASYNC110 (the writer has taken it)
            await asyncio.sleep(0.01)
    append_all(log, recorder, "behind it")
    other.append(other_log, an_update(a_key("acme/other"), event_id="elsewhere"))
    disk.fail(code, after=stored)
    disk.faults.gate.set()
    await recorder.until(lambda: bool(recorder.losses))
    await other.until(lambda: bool(other.losses))
    assert failures(recorder) == [("unknown", True), ("behind it", False)]
    assert failures(other) == [("elsewhere", False)]
    with pytest.raises(LogError, match="Restore it" if code == sqlite3.SQLITE_CORRUPT else "Open the log again"):
        log.append(an_update(KEY))
    again, second = await disk.open()
    assert again.identity == log.identity
    assert second.ids() == ["before", "unknown"][: 1 + stored]
    append_all(again, second, "after")
    await second.until_settled(1)
    assert second.ids()[-1] == "after"
    assert recorder.complaints == other.complaints == second.complaints == []


async def test_a_full_file_refuses_appends_until_there_is_room(disk: Disk) -> None:
    log, recorder = await disk.open()
    append_all(log, recorder, "before")
    await recorder.until_settled(1)
    connection = disk.faults.last
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}")
    for n in range(40):
        append_all(log, recorder, f"{n}")
        await recorder.until_settled(n + 2)
    refused = failures(recorder)
    assert refused
    assert {unknown for _, unknown in refused} == {False}
    assert "full" in recorder.failures[0][1].message
    connection.execute("PRAGMA max_page_count = 1000000")
    append_all(log, recorder, "after")
    await recorder.until_settled(42)
    assert recorder.ids()[-1] == "after"
    acknowledged = recorder.ids(recorder.places)
    await disk.change_log.close()
    _, again = await Disk(disk.path).open()
    assert again.ids() == acknowledged
    assert [placed.position for placed in again.entries] == [position_of(n + 1) for n in range(len(acknowledged))]


async def test_a_disk_that_refuses_writes_is_logged_once_and_errors_name_the_remedy(
    disk: Disk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    log, recorder = await disk.open()
    for number in range(4):  # every other append succeeds
        disk.fail(sqlite3.SQLITE_FULL)
        append_all(log, recorder, "refused")
        await recorder.until_settled(2 * number + 1)
        append_all(log, recorder, "taken")
        await recorder.until_settled(2 * number + 2)
    assert len(recorder.failures) == 4
    remedy = "Make room on the server's disk, and repeat the change: the server recovers by itself."
    assert {error.message for _, error in recorder.failures} == {f"The change log could not be written: a fault. {remedy}"}
    assert [record.message for record in caplog.records] == [
        f"the change log {disk.path} can't be written, and updates are refused until it can: a fault"
    ]
    monkeypatch.setattr(writer, "QUIET_SECONDS", 0.0)
    for number in range(2):
        append_all(log, recorder, "after")
        await recorder.until_settled(9 + number)
    assert [record.message for record in caplog.records[1:]] == [f"the change log {disk.path} can be written again"]


async def test_a_file_that_was_moved_away_refuses_appends_until_it_is_back(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "LOOK_SECONDS", 0.0)
    log, recorder = await disk.open()
    append_all(log, recorder, "before")
    await recorder.until_settled(1)
    elsewhere = tmp_path / "elsewhere.db"
    disk.path.rename(elsewhere)
    append_all(log, recorder, "refused")
    await recorder.until_settled(2)
    assert failures(recorder) == [("refused", False)]
    assert recorder.failures[0][1].message == (
        "The change log could not be written: its file was moved, deleted or replaced. Put it back, or restart the server on what is there."
    )
    assert not disk.path.exists()
    elsewhere.rename(disk.path)
    append_all(log, recorder, "after")
    await recorder.until_settled(3)
    assert (recorder.ids(), recorder.losses) == (["before", "after"], [])
    await disk.change_log.close()
    _, later = await Disk(disk.path).open()
    assert later.ids() == ["before", "after"]


async def test_a_failed_checkpoint_of_the_write_ahead_log_has_no_effect_on_appends(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FLUSH_PAGES", "FLUSH_PAGES_AT_MOST"):
        monkeypatch.setattr(f"topicpolicies_server.logs.sqlite.writer.{name}", 0)
    log, recorder = await disk.open()
    disk.fail(sqlite3.SQLITE_IOERR, sql="PRAGMA wal_checkpoint")
    append_all(log, recorder, "one")
    await recorder.until_settled(1)
    append_all(log, recorder, "two")
    await recorder.until_settled(2)
    assert disk.faults.error_code is None  # the fault occurred
    assert {"lost", "append_failed"}.isdisjoint(recorder.reports)


@pytest.mark.parametrize("code", [sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR])
async def test_a_failed_compaction_is_reported_and_acknowledged_events_stay(disk: Disk, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk.change_log, "_compaction", Compaction(retention_ms=-1))
    log, recorder = await disk.open()
    append_all(log, recorder, "old", "new")
    await recorder.until_settled(2)
    disk.fail(code, sql="DELETE")
    with pytest.raises(LogError, match="could not be compacted"):
        await disk.change_log.compact(NAMESPACE)
    if code == sqlite3.SQLITE_IOERR:
        await recorder.until(lambda: bool(recorder.losses))
        log, recorder = await disk.open()
    append_all(log, recorder, "newest")
    await recorder.until_settled(1)
    await recorder.close(log)
    _, again = await disk.open()
    assert again.ids() == ["old", "new", "newest"]


async def test_a_file_that_becomes_unreadable_loses_the_log(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    log, recorder = await disk.open()
    append_all(log, recorder, "one")
    await recorder.close(log)

    def unreadable(*_: object) -> Iterator[list[Placed]]:
        yield from sqlite3.connect(":memory:").execute("SELECT a fault")

    with monkeypatch.context() as patched:
        patched.setattr(sqlite_file, "_pages", unreadable)
        second = Recorder()
        await disk.change_log.open(NAMESPACE, second)
        await second.until(lambda: bool(second.losses))
    assert second.caught_up_after == []
    _, third = await disk.open()
    assert third.ids() == ["one"]


async def test_a_file_that_is_unreadable_at_the_opening_is_refused_and_can_be_opened_later(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, recorder = await disk.open()
    append_all(log, recorder, "one")
    await recorder.close(log)

    def unreadable(_: object) -> None:
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR_READ
        raise error

    second = Recorder()
    with monkeypatch.context() as patched:
        patched.setattr(sqlite_file, "begin_snapshot", unreadable)
        with pytest.raises(LogError, match="can't be read") as refused:
            await disk.change_log.open(NAMESPACE, second)
    assert refused.value.reason == "LOG_FILE_UNUSABLE"
    _, third = await disk.open()
    assert third.ids() == ["one"]
    assert second.reports == []


async def test_closing_is_bounded_in_time_while_the_disk_hangs_and_the_lock_is_kept(tmp_path: Path) -> None:
    disk = Disk(tmp_path / "changes.db")
    disk.change_log = SqliteLog(disk.path, connection=disk.faults, close_seconds=0.1)
    log, recorder = await disk.open()
    disk.faults.gate.clear()
    append_all(log, recorder, "held")
    began = asyncio.get_running_loop().time()
    await disk.change_log.close()
    assert asyncio.get_running_loop().time() - began < 5
    recorder.closed = True
    assert failures(recorder) == [("held", True)]
    with pytest.raises(LogError, match="in use"):
        await SqliteLog(disk.path).start()
    disk.faults.gate.set()
    await asyncio.sleep(0.2)
    assert recorder.complaints == []


async def test_an_event_that_is_written_after_its_log_was_closed_is_read_by_the_reopened_log(tmp_path: Path) -> None:
    disk = Disk(tmp_path / "changes.db")
    disk.change_log = SqliteLog(disk.path, connection=disk.faults, close_seconds=0.1)
    log, recorder = await disk.open()
    append_all(log, recorder, "before")
    await recorder.until_settled(1)
    disk.faults.gate.clear()
    append_all(log, recorder, "held")
    await recorder.close(log)
    assert failures(recorder) == [("held", True)]
    again, second = await disk.open()
    assert second.ids() == ["before"]
    disk.faults.gate.set()
    await second.until(lambda: len(second.entries) == 2)
    append_all(again, second, "after")
    await second.until_settled(1)
    assert second.ids() == ["before", "held", "after"]
    assert second.ids(second.places) == ["after"]
    await disk.change_log.close()
    assert recorder.complaints == second.complaints == []


async def test_bytes_in_flight_are_bounded_over_all_namespaces(disk: Disk) -> None:
    log, recorder = await disk.open()
    other_log, other = await disk.open("acme/other")
    append_all(log, recorder, "before")
    await recorder.until_settled(1)
    disk.change_log.in_flight_bytes = 2_000
    disk.faults.gate.clear()
    taken = 0
    with pytest.raises(LogError) as refused:
        for taken in range(100):
            append_all(log, recorder, f"{taken}")
    assert refused.value.reason == "LIMIT_REACHED"
    assert 2 < taken < 20
    with pytest.raises(LogError, match="wait for the change log"):
        other_log.append(an_update(a_key("acme/other")))
    disk.faults.gate.set()
    await recorder.until_settled(taken + 1)
    assert disk.change_log.bytes_in_flight == 0
    other.append(other_log, an_update(a_key("acme/other")))
    await other.until_settled(1)


@pytest.mark.parametrize("reads_on", [False, True])
async def test_what_the_reopened_log_shows_after_a_failed_sync_is_there_after_a_crash(tmp_path: Path, reads_on: bool) -> None:
    path, copy, killed = (tmp_path / name / "changes.db" for name in ("disk", "copy", "killed"))
    for each in (path, copy, killed):
        each.parent.mkdir()

    class Unsynced(sqlite3.Connection):
        """A connection whose next commit is written and not synced: the events are in the write-ahead log only."""

        armed = False

        def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
            if not (Unsynced.armed and sql.startswith("INSERT INTO events")):
                return super().execute(sql, parameters)
            Unsynced.armed = False
            copy_files(path, copy)
            with closing(sqlite3.connect(copy, isolation_level=None)) as connection:
                connection.execute(sql, parameters)
                wal_of(path).write_bytes(wal_of(copy).read_bytes())
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = sqlite3.SQLITE_IOERR_FSYNC
            raise error

    change_log = SqliteLog(path, connection=Unsynced)
    recorder = Recorder()
    log = await change_log.open(NAMESPACE, recorder)
    append_all(log, recorder, "before")
    await recorder.until_settled(1)
    with closing(sqlite_file.connect(path)) as reader:  # another connection reads, as loading or compacting a namespace does
        sqlite_file.begin_snapshot(reader)
        if not reads_on:
            reader.execute("COMMIT")
        Unsynced.armed = True
        append_all(log, recorder, "doubtful")
        await recorder.until(lambda: bool(recorder.losses))
        second = Recorder()
        await change_log.open(NAMESPACE, second)
        await second.until_caught_up()
        copy_files(path, killed)
    there = second.ids()
    assert failures(recorder) == [("doubtful", True)]
    await change_log.close()
    change_log = SqliteLog(killed)
    again = Recorder()
    await change_log.open(NAMESPACE, again)
    await again.until_caught_up()
    assert again.ids() == there
    await change_log.close()


def wal_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def copy_files(path: Path, to: Path) -> None:
    """Copies what would be left of the log if its process were killed now."""
    for name in ("", "-wal", "-mark"):
        shutil.copyfile(f"{path}{name}", f"{to}{name}")


# Whether the file can be written, determined without writing it where possible


async def why(disk: Disk) -> LogError:
    """Returns the error that says why the file can't be written."""
    with pytest.raises(LogError) as caught:
        await disk.change_log.reach()
    assert caught.value.state is LogState.APPEND_FAILED, "everything but appends works"
    return caught.value


async def test_the_check_of_a_writable_file_does_not_write_to_it(disk: Disk) -> None:
    log, recorder = await disk.open()
    append_all(log, recorder, "one")
    await recorder.until_settled(1)
    disk.faults.sql = "PRAGMA user_version ="
    disk.faults.statements.clear()
    await disk.change_log.reach()
    assert disk.faults.statements == []


async def test_a_file_that_was_moved_away_is_reported_as_not_writable_until_it_is_back(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "LOOK_SECONDS", 0.0)
    log, recorder = await disk.open()
    disk.path.rename(tmp_path / "elsewhere.db")
    append_all(log, recorder, "refused")
    await recorder.until_settled(1)
    assert "moved, deleted or replaced. Put it back" in (await why(disk)).message
    (tmp_path / "elsewhere.db").rename(disk.path)
    await disk.change_log.reach()


async def test_after_a_refused_append_the_check_writes_to_the_file_until_a_write_succeeds(disk: Disk) -> None:
    log, recorder = await disk.open()
    disk.fail(sqlite3.SQLITE_FULL)
    append_all(log, recorder, "refused")
    await recorder.until_settled(1)
    disk.fail(sqlite3.SQLITE_FULL, sql="PRAGMA user_version =")
    assert "Make room on the server's disk" in (await why(disk)).message
    await disk.change_log.reach()
    disk.faults.statements.clear()
    await disk.change_log.reach()
    assert disk.faults.statements == [], "no test write after one succeeded"


# Whoever waits for the thread that writes gets an answer, however the thread ends


class Unforeseen(Exception):
    """An error of which no code knows."""


def fail(_: sqlite3.Connection) -> None:
    raise Unforeseen
