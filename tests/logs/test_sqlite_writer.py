"""Whoever waits for the thread that writes is told, however it ends."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest

from .test_sqlite_faults import Disk, append_all


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
