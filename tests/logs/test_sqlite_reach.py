"""Whether the embedded log's file can be written, determined without writing it where possible."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.logs.test_sqlite_faults import Disk, append_all
from topicpolicies_server.core.reasons import LogState
from topicpolicies_server.logs.change_log import LogError, Reached
from topicpolicies_server.logs.sqlite import writer


@pytest.fixture
async def disk(tmp_path: Path) -> AsyncIterator[Disk]:
    """A disk that can fail."""
    made = Disk(tmp_path / "changes.db")
    yield made
    made.faults.gate.set()
    await made.change_log.close()


async def why(disk: Disk) -> LogError:
    """Returns the error that says why the file can't be written."""
    with pytest.raises(LogError) as caught:
        await disk.change_log.reach()
    assert caught.value.state is LogState.APPEND_FAILED, "everything but appends works"
    return caught.value


async def test_the_check_of_a_writable_file_does_not_write_to_it(disk: Disk) -> None:
    assert isinstance(disk.change_log, Reached)
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
