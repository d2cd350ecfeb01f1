"""Whoever waits for the thread that writes is told, however it ends; and what it acknowledged is in the file, whatever is taken away."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.logs.samples import a_key, an_update
from topicpolicies_server import path_guard
from topicpolicies_server.logs.change_log import LogError
from topicpolicies_server.logs.sqlite import writer as writer_module

from .test_sqlite_faults import Disk, append_all, copy_files, failures, wal_of


class Unforeseen(Exception):
    """An error of which no code knows."""


def fail(_: sqlite3.Connection) -> None:
    raise Unforeseen


async def test_who_waits_for_work_in_which_an_unforeseen_error_occurs_is_told(tmp_path: Path) -> None:
    disk = Disk(tmp_path / "changes.db")
    _, recorder = await disk.open()
    writer = disk.change_log._writer
    assert writer is not None
    async with asyncio.timeout(20):
        with pytest.raises(sqlite3.Error, match="has ended"):
            await writer.run(fail)
        await recorder.until(lambda: bool(recorder.losses))
    await disk.open()
    await disk.change_log.close()


async def test_who_waits_for_work_behind_a_commit_that_loses_the_log_is_told(tmp_path: Path) -> None:
    disk = Disk(tmp_path / "changes.db")
    log, recorder = await disk.open()
    append_all(log, recorder, "before")
    await recorder.until_settled(1)
    writer = disk.change_log._writer
    assert writer is not None
    disk.faults.gate.clear()
    append_all(log, recorder, "holds it up")
    disk.fail(sqlite3.SQLITE_CORRUPT)
    append_all(log, recorder, "loses it")
    waiting = asyncio.ensure_future(writer.run(lambda connection: connection.execute("SELECT 1").fetchone()))
    await asyncio.sleep(0)
    disk.faults.gate.set()
    async with asyncio.timeout(20):
        with pytest.raises(sqlite3.Error):
            await waiting
    await disk.change_log.close()


@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize("probed", [False, True])
async def test_what_was_acknowledged_outlives_a_write_ahead_log_that_is_taken_away_and_nothing_is_acknowledged_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replaced: bool, probed: bool
) -> None:
    monkeypatch.setattr(path_guard, "CHECK_SECONDS", 0.0)
    disk, killed = Disk(tmp_path / "changes.db"), Disk(tmp_path / "killed.db")
    log, recorder = await disk.open()
    append_all(log, recorder, "before")
    await recorder.until_settled(1)
    other_log, other = await disk.open("acme/other")
    other.append(other_log, an_update(a_key("acme/other"), event_id="there"))
    await other.until_settled(1)
    await other.close(other_log)
    journal = wal_of(disk.path)
    journal.rename(tmp_path / "elsewhere")
    if replaced:
        journal.touch()
    if probed:
        with pytest.raises(LogError, match="its write-ahead log was moved, deleted or replaced"):
            await disk.change_log.reach()
    else:
        append_all(log, recorder, "refused")
        await recorder.until_settled(2)
        assert failures(recorder) == [("refused", False)]
    with pytest.raises(LogError, match="its write-ahead log was moved"):
        await disk.open("acme/other")
    for name in ("", "-mark"):  # what the next process finds if this one is killed now
        shutil.copyfile(f"{disk.path}{name}", f"{killed.path}{name}")
    (tmp_path / "elsewhere").rename(journal)
    append_all(log, recorder, "after")
    await recorder.until_settled(2 if probed else 3)
    assert (recorder.ids(), recorder.losses) == (["before", "after"], [])
    await disk.change_log.close()
    for each, ids in ((killed, ["before"]), (Disk(disk.path), ["before", "after"])):
        opened, later = await each.open()
        assert later.ids() == ids
        assert opened.identity == log.identity
        await each.change_log.close()


@pytest.mark.parametrize("code", [sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_FSYNC])
async def test_what_was_acknowledged_outlives_a_write_ahead_log_that_is_taken_away_although_the_disk_fails_at_that_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    monkeypatch.setattr(path_guard, "CHECK_SECONDS", 0.0)
    monkeypatch.setattr(writer_module, "RETRY_SECONDS", 0.01)
    disk, killed = Disk(tmp_path / "changes.db"), Disk(tmp_path / "killed.db")
    log, recorder = await disk.open()
    append_all(log, recorder, "before")
    await recorder.until_settled(1)
    journal = wal_of(disk.path)
    journal.rename(tmp_path / "elsewhere")
    disk.fail(code, sql="PRAGMA wal_checkpoint(TRUNCATE)")
    for _ in range(2):
        with pytest.raises(LogError, match="can't be written now"):
            await disk.change_log.reach()
        await asyncio.sleep(0.2)
    for name in ("", "-mark"):  # what the next process finds if this one is killed now
        shutil.copyfile(f"{disk.path}{name}", f"{killed.path}{name}")
    opened, later = await killed.open()
    assert later.ids() == ["before"]
    assert opened.identity == log.identity
    await killed.change_log.close()
    (tmp_path / "elsewhere").rename(journal)
    await until_in_reach(disk)
    append_all(log, recorder, "after")
    await recorder.until_settled(2)
    assert (recorder.ids(), recorder.losses) == (["before", "after"], [])
    await disk.change_log.close()


async def until_in_reach(disk: Disk) -> None:
    async with asyncio.timeout(20):
        while True:
            try:
                return await disk.change_log.reach()
            except LogError:
                await asyncio.sleep(0.05)


@pytest.mark.parametrize("probed", [False, True])
async def test_a_backup_that_takes_the_place_of_the_file_of_a_server_that_is_killed_then_is_what_the_next_one_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, probed: bool
) -> None:
    monkeypatch.setattr(path_guard, "CHECK_SECONDS", 0.0)
    disk, killed = Disk(tmp_path / "changes.db"), Disk(tmp_path / "killed.db")
    log, recorder = await disk.open()
    append_all(log, recorder, "before")
    await recorder.until_settled(1)
    with closing(sqlite3.connect(disk.path)) as original, closing(sqlite3.connect(tmp_path / "backup.db")) as backup:
        original.backup(backup)
    append_all(log, recorder, "later")
    await recorder.until_settled(2)
    (tmp_path / "backup.db").rename(disk.path)
    if probed:
        with pytest.raises(LogError, match="its file was moved, deleted or replaced"):
            await disk.change_log.reach()
    else:
        append_all(log, recorder, "refused")
        await recorder.until_settled(3)
        assert failures(recorder) == [("refused", False)]
    copy_files(disk.path, killed.path)
    await disk.change_log.close()
    opened, later = await killed.open()
    assert later.ids() == ["before"], "no commit of the former file got into the backup"
    assert opened.identity != log.identity
    await killed.change_log.close()
