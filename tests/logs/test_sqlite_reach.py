"""Whether the embedded log's file can be written, as far as that can be known without writing it."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.logs.test_sqlite_faults import Disk, append_all
from topicpolicies_server.core.reasons import Reason
from topicpolicies_server.logs.change_log import LogError, Reached


@pytest.fixture
async def disk(tmp_path: Path) -> AsyncIterator[Disk]:
    """A disk that can fail."""
    made = Disk(tmp_path / "changes.db")
    yield made
    made.faults.gate.set()
    await made.change_log.close()


async def why(disk: Disk) -> LogError:
    """Why the file can't be written."""
    with pytest.raises(LogError) as caught:
        await disk.change_log.reach()
    assert caught.value.reason is Reason.APPEND_FAILED, "everything else goes on"
    return caught.value


async def test_a_file_that_can_be_written_is_not_written_for_that(disk: Disk) -> None:
    assert isinstance(disk.change_log, Reached)
    log, recorder = await disk.open()
    append_all(log, recorder, "one")
    await recorder.until_settled(1)
    disk.faults.sql = "PRAGMA user_version ="
    disk.faults.statements.clear()
    await disk.change_log.reach()
    assert disk.faults.statements == []


async def test_a_file_that_was_moved_away_can_not_be_written_until_it_is_back(disk: Disk, tmp_path: Path) -> None:
    await disk.open()
    disk.path.rename(tmp_path / "elsewhere.db")
    assert "moved, deleted or replaced. Put it back" in (await why(disk)).message
    (tmp_path / "elsewhere.db").rename(disk.path)
    await disk.change_log.reach()


async def test_after_a_refusal_a_write_of_its_own_tells_whether_that_is_over(disk: Disk) -> None:
    log, recorder = await disk.open()
    disk.fail(sqlite3.SQLITE_FULL)
    append_all(log, recorder, "refused")
    await recorder.until_settled(1)
    disk.fail(sqlite3.SQLITE_FULL, sql="PRAGMA user_version =")
    assert "Make room on the server's disk" in (await why(disk)).message
    await disk.change_log.reach()
    disk.faults.statements.clear()
    await disk.change_log.reach()
    assert disk.faults.statements == [], "asked no more"
