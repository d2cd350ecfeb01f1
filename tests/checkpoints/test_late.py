"""A file of checkpoints that can't be used when the server starts is used as soon as it can be."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from topicpolicies_server.checkpoints import Pace
from topicpolicies_server.checkpoints.store import Store
from topicpolicies_server.sqlite_file import FileError

from .server import Server, a_key, ready
from .test_restarts import shown, view_of
from .test_trouble import filled, started

SOON = Pace(seconds=0.02, looks_seconds=0.01)


async def until(holds: Callable[[], object]) -> None:
    """Waits until something holds."""
    async with asyncio.timeout(20):
        while not holds():  # noqa: ASYNC110 (nothing tells)
            await asyncio.sleep(0.01)


async def test_a_server_that_starts_on_a_full_disk_has_checkpoints_as_soon_as_there_is_room(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server(tmp_path, SOON)
    server.file.mkdir()  # stands for whatever keeps the file from being created
    async with server.running() as registry:
        assert server.checkpoints is not None
        for number in range(5):
            await server.set(registry, a_key(number), number + 1)
        await until(lambda: server.checkpoints is not None and server.checkpoints.failed > 2)
        assert server.checkpoints.written == 0
        server.file.rmdir()
        await until(lambda: server.checkpoints is not None and server.checkpoints.written)
        before = shown(view_of(registry))
    told = [record.getMessage() for record in caplog.records if "checkpoints" in record.getMessage()]
    assert [line.split(":")[0] for line in told] == [
        "There are no checkpoints until the file can be opened, which is tried again and again",
        f"the file of checkpoints {server.file} can be used now",
        f"the checkpoints {server.file} are written again",
    ]
    assert (await started(server)) == ("checkpoint", before)


async def test_a_file_that_another_process_had_at_the_start_is_continued_when_that_has_ended(tmp_path: Path) -> None:
    server = Server(tmp_path, SOON)
    before = await filled(server)
    other = Store(server.file)
    other.open()
    async with server.running() as registry:
        assert server.checkpoints is not None
        await until(lambda: server.checkpoints is not None and server.checkpoints.failed)
        other.close()
        await until(lambda: server.checkpoints is not None and server.checkpoints._store.is_open)
        await ready(registry)
        follower = registry.get("acme/orders")._life.served
        assert follower is not None and follower.log is not None and follower.log.resumed
        assert shown(view_of(registry)) == before


class WithoutRoom(sqlite3.Connection):
    """A connection on a full disk, which has no room for the files beside the database."""

    def execute(self, sql: str, *arguments: Any) -> sqlite3.Cursor:
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR_SHMSIZE
        raise error


async def test_a_good_file_that_a_full_disk_keeps_from_being_opened_is_left_as_it_is(tmp_path: Path) -> None:
    server = Server(tmp_path)
    before = await filled(server)
    found = server.file.read_bytes()
    with pytest.raises(FileError, match="disk I/O error"):
        Store(server.file, WithoutRoom).open()
    assert server.file.read_bytes() == found
    assert (await started(server)) == ("checkpoint", before)


async def test_a_server_without_its_file_of_checkpoints_stops_at_once(tmp_path: Path) -> None:
    server = Server(tmp_path)
    server.file.mkdir()
    async with asyncio.timeout(4):
        async with server.running() as registry:
            await server.set(registry, a_key(1), 1)
