"""A history whose file was moved, deleted or replaced beneath it writes nothing until it is back, tells so, and destroys no other file."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from topicpolicies_server import path_guard
from topicpolicies_server.history import History, open_history, writer
from topicpolicies_server.history.entries import GapReason
from topicpolicies_server.history.queries import Query

from .conftest import BOUNDS, NAMESPACE, position, reader_of, update


def move(path: Path, to: Path) -> None:
    path.rename(to)


def copied(path: Path, to: Path) -> Path:
    """Copies what the next process finds if this one is killed now."""
    to.mkdir()
    for beside in path.parent.glob(f"{path.name}*"):
        shutil.copy(beside, to)
    return to / path.name


async def versions(history: History) -> list[str]:
    return [entry.version for entry in (await history.page(Query(NAMESPACE, newest_first=False))).entries]


@pytest.mark.parametrize("replaced", [False, True])
async def test_a_file_that_is_not_where_it_was_gets_nothing_and_is_told_until_it_is_back(
    path: Path, history: History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replaced: bool
) -> None:
    monkeypatch.setattr(path_guard, "CHECK_SECONDS", 0.0)
    reader = await reader_of(history)
    reader.read(update(1, 1))
    assert await versions(history) == [position(1)]
    with closing(sqlite3.connect(path)) as original, closing(sqlite3.connect(tmp_path / "backup")) as backup:
        original.backup(backup)
    reader.read(update(2, 2))
    assert await versions(history) == [position(1), position(2)]
    move(path, tmp_path / "elsewhere")
    if replaced:
        move(tmp_path / "backup", path)
    reader.read(update(3, 3))
    page = await history.page(Query(NAMESPACE))
    assert [gap.reason for gap in page.gaps] == [GapReason.OVERRUN]
    assert history.figures().failing
    if replaced:
        later = open_history(copied(path, tmp_path / "killed"), BOUNDS)
        assert await versions(later) == [position(1)], "nothing of the former file got into the backup"
        await later.close()
    move(tmp_path / "elsewhere", path)
    assert await versions(history) == [position(1), position(2), position(3)]
    assert (await history.page(Query(NAMESPACE))).gaps == []


async def test_a_backup_that_takes_the_place_of_a_history_to_which_nothing_is_written_outlives_the_end_of_its_server(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(writer, "_TRIM_SECONDS", 0.05)
    monkeypatch.setattr(writer, "PAUSE_SECONDS", 0.01)
    history = open_history(path, BOUNDS)
    reader = await reader_of(history)
    reader.read(update(1, 1))
    assert await versions(history) == [position(1)]
    with closing(sqlite3.connect(path)) as original, closing(sqlite3.connect(tmp_path / "backup")) as backup:
        original.backup(backup)
    reader.read(*(update(row, row) for row in range(2, 40)))
    assert len(await versions(history)) == 39
    move(path, tmp_path / "elsewhere")
    move(tmp_path / "backup", path)
    await until_it_says("was moved, deleted or replaced", caplog)
    later = open_history(copied(path, tmp_path / "killed"), BOUNDS)
    assert await versions(later) == [position(1)], "nothing of the former file got into the backup"
    await later.close()
    move(tmp_path / "elsewhere", path)
    await history.close()


async def until_it_says(what: str, caplog: pytest.LogCaptureFixture) -> None:
    async with asyncio.timeout(20):
        while what not in caplog.text:  # noqa: ASYNC110 (nobody tells of it)
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)
