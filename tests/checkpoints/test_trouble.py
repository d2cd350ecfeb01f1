"""A damaged, missing or foreign file of checkpoints costs only time: the log is read, and served as it is."""

from __future__ import annotations

import logging
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from topicpolicies_server.checkpoints import header, open_checkpoints
from topicpolicies_server.checkpoints.store import Store
from topicpolicies_server.logs.sqlite import Compaction
from topicpolicies_server.sqlite_file import FileError

from .server import NAMESPACE, Server, a_key, loaded_from, ready
from .test_restarts import shown, view_of


async def filled(server: Server, keys: int = 5) -> dict[object, object]:
    """Writes some documents and, at the stop, a checkpoint of them; returns what was served."""
    async with server.running() as registry:
        for number in range(keys):
            await server.set(registry, a_key(number), number + 1)
        return shown(view_of(registry))


async def started(server: Server) -> tuple[str, dict[object, object]]:
    """Starts the server; returns what it was loaded from and what it serves."""
    async with server.running() as registry:
        await ready(registry)
        return loaded_from(registry), shown(view_of(registry))


def without(file: Path) -> None:
    """Deletes a file and the files beside it."""
    for beside in file.parent.glob(file.name + "*"):
        beside.unlink()


def copied(folder: Path, name: str, other: Path) -> None:
    """Copies a file and the files beside it to another folder."""
    for beside in folder.glob(name + "*"):
        shutil.copy(beside, other)


def cut(file: Path) -> None:
    """Cuts off the end of the file."""
    file.write_bytes(file.read_bytes()[:5_000])


def garbage(file: Path) -> None:
    """Overwrites the middle of the file."""
    data = bytearray(file.read_bytes())
    data[3_000:9_000] = b"\x5a" * 6_000
    file.write_bytes(bytes(data))


def misdescribed(file: Path) -> None:
    """A bit of the name of a column is not what was written."""
    file.write_bytes(file.read_bytes().replace(b"cell BLOB", b"ceml BLOB", 1))


def edited(statement: str) -> Callable[[Path], None]:
    """Returns a function that changes rows of the file."""

    def edit(file: Path) -> None:
        with sqlite3.connect(file) as connection:
            assert connection.execute(statement).rowcount > 0
        connection.close()

    return edit


@pytest.mark.parametrize(
    "trouble",
    [
        without,
        cut,
        garbage,
        misdescribed,
        edited("UPDATE cells SET cell = cell || x'00' WHERE key LIKE '%topic-2'"),
        edited("UPDATE cells SET kind = kind + 2 WHERE key LIKE '%topic-2'"),
        edited("UPDATE cells SET key = key || 'x' WHERE key LIKE '%topic-2'"),
        edited("DELETE FROM cells WHERE key LIKE '%topic-2'"),
        edited("DELETE FROM requests"),
        edited("UPDATE requests SET requests = x'5b5d'"),
        edited("UPDATE namespaces SET about = replace(about, '15', '13')"),
        edited("UPDATE namespaces SET name = 'acme/others'"),
        edited("DELETE FROM namespaces"),
    ],
)
async def test_a_damaged_checkpoint_is_not_served(tmp_path: Path, trouble: Callable[[Path], None]) -> None:
    server = Server(tmp_path)
    before = await filled(server)
    assert (await started(server)) == ("checkpoint", before)
    trouble(server.file)
    assert (await started(server)) == ("log", before)
    assert (await started(server)) == ("checkpoint", before), "a new checkpoint was made"


async def test_a_checkpoint_of_another_release_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(tmp_path)
    before = await filled(server)
    monkeypatch.setattr("topicpolicies_server.checkpoints.restoring.maker", lambda: header.maker() + " later")
    assert (await started(server)) == ("log", before)


async def test_the_code_that_a_checkpoint_names_is_that_of_the_servers_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An upgrade replaces the source files of a running server, which still folds as before."""
    header.maker.cache_clear()
    before = header.maker()
    header.maker.cache_clear()
    checkpoints = open_checkpoints(tmp_path / "policies.checkpoints.db")
    assert checkpoints is not None
    try:
        with monkeypatch.context() as later:
            later.setattr(header, "_MAKERS", ("checkpoints",))
            assert header.maker() == before
    finally:
        header.maker.cache_clear()
        await checkpoints.close()


async def test_a_file_of_another_format_is_replaced(tmp_path: Path) -> None:
    server = Server(tmp_path)
    before = await filled(server)
    with sqlite3.connect(server.file) as connection:
        connection.execute("PRAGMA user_version = 7")
    connection.close()
    assert (await started(server)) == ("log", before)
    assert (await started(server)) == ("checkpoint", before)


async def test_a_foreign_file_is_left_unchanged_and_the_server_runs_without_checkpoints(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server(tmp_path)
    with sqlite3.connect(server.file) as connection:
        connection.execute("CREATE TABLE mine (a)")
    connection.close()
    before = await filled(server)
    assert (await started(server)) == ("log", before)
    with sqlite3.connect(server.file) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("mine",)]
    connection.close()
    assert sum("There are no checkpoints" in record.getMessage() for record in caplog.records) == 2


async def test_a_server_runs_without_checkpoints_while_another_process_has_the_file(tmp_path: Path) -> None:
    server = Server(tmp_path)
    before = await filled(server)
    other = Store(server.file)
    other.open()
    try:
        assert (await started(server)) == ("log", before)
    finally:
        other.close()
    assert (await started(server)) == ("checkpoint", before)


async def test_a_damaged_file_to_which_a_link_leads_is_replaced_where_it_is_and_belongs_to_one_process(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "links").mkdir()
    server = Server(tmp_path / "links")
    there = tmp_path / "kept" / "there.db"
    server.file.symlink_to(there)
    before = await filled(server)
    misdescribed(there)
    assert (await started(server)) == ("log", before)
    async with server.running():
        other = Store(there)
        with pytest.raises(FileError, match="is in use"):
            other.open()
    assert (await started(server)) == ("checkpoint", before)
    assert server.file.is_symlink()
    assert sorted(each.name for each in (tmp_path / "kept").iterdir()) == ["there.db", "there.db.lock"]


async def test_a_checkpoint_newer_than_a_restored_backup_of_the_log_is_not_used(tmp_path: Path) -> None:
    """The log is restored with its mark and its identity: only the event at the checkpoint's place shows the difference."""
    server = Server(tmp_path)
    await filled(server)
    backup = tmp_path / "backup"
    backup.mkdir()
    copied(tmp_path, "policies.db", backup)
    async with server.running() as registry:
        await server.set(registry, a_key(1), 77)
        await server.set(registry, a_key(9), 9)
    without(tmp_path / "policies.db")
    copied(backup, "policies.db", tmp_path)
    newer = tmp_path / "newer.db"
    shutil.copy(server.file, newer)
    assert (await started(server))[0] == "log", "the checkpoint is ahead of the log"
    without(server.file)
    async with server.running() as registry:  # the log grows to the same position with other events
        await server.set(registry, a_key(1), 55)
        await server.set(registry, a_key(2), 66)
        before = shown(view_of(registry))
    without(server.file)
    shutil.copy(newer, server.file)
    assert (await started(server)) == ("log", before)


async def test_a_log_with_a_new_identity_gets_a_checkpoint_before_anything_is_written(
    tmp_path: Path,
) -> None:
    server = Server(tmp_path)
    before = await filled(server)
    (tmp_path / "policies.db-mark").unlink()
    assert (await started(server)) == ("log", before), "the checkpoint has the former identity"
    assert (await started(server)) == ("checkpoint", before)
    async with server.running() as registry:
        await server.set(registry, a_key(1), 55)
        after = shown(view_of(registry))
    assert (await started(server)) == ("checkpoint", after)


async def test_the_log_is_read_if_events_after_the_checkpoint_were_compacted_away(tmp_path: Path) -> None:
    server = Server(tmp_path, compaction=Compaction(retention_ms=0, deletions_ms=-1, minimum=1, interval_seconds=3_600, pause_seconds=0))
    await filled(server)
    async with server.running(killed=True) as registry:
        await server.delete(registry, a_key(1))
        await server.set(registry, a_key(2), 22)
        server.now += 1_000
        await server.log.compact(NAMESPACE)
    async with server.running(killed=True) as registry:
        await ready(registry)
        assert loaded_from(registry) == "log"
        head = view_of(registry).head(a_key(1))
        assert head is None or head.document is None, "the log does not have the deletion any more"


async def test_the_log_is_read_if_the_history_lacks_events_of_the_checkpoint(tmp_path: Path) -> None:
    server = Server(tmp_path, history=True)
    await filled(server)
    assert (await started(server))[0] == "checkpoint"
    without(tmp_path / "history.db")
    assert (await started(server))[0] == "log"
    assert (await started(server))[0] == "checkpoint"


async def test_a_full_disk_is_logged_once_and_does_not_stop_updates(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    server = Server(tmp_path)
    async with server.running() as registry:
        assert server.checkpoints is not None
        await server.set(registry, a_key(1), 1)
        await server.keep()
        store = server.checkpoints._store
        store._writer().execute("PRAGMA max_page_count = 1")
        for number in range(300):
            await server.set(registry, a_key(number), number)
            if number % 100 == 99:
                await server.keep()
        warnings = [record for record in caplog.records if record.levelno >= logging.WARNING and "can't be written" in record.getMessage()]
        assert len(warnings) == 1
        store._writer().execute("PRAGMA max_page_count = 1000000")
        await server.keep()
        assert any("are written again" in record.getMessage() for record in caplog.records)
        before = shown(view_of(registry))
    assert (await started(server)) == ("checkpoint", before)


async def test_a_file_that_is_deleted_while_it_is_used_is_created_again(tmp_path: Path) -> None:
    server = Server(tmp_path)
    async with server.running() as registry:
        await server.set(registry, a_key(1), 1)
        await server.keep()
        without(server.file)
        await server.set(registry, a_key(2), 2)
        await server.keep()  # finds that the file is missing
        await server.keep()
        before = shown(view_of(registry))
    assert (await started(server)) == ("checkpoint", before)


async def test_a_file_that_could_not_be_created_again_is_created_as_soon_as_possible(tmp_path: Path) -> None:
    server = Server(tmp_path)
    async with server.running() as registry:
        await server.set(registry, a_key(1), 1)
        await server.keep()
        without(server.file)
        server.file.mkdir()
        for number in (2, 3):
            await server.set(registry, a_key(2), number)
            await server.keep()  # the file can't be created
        server.file.rmdir()
        await server.set(registry, a_key(3), 3)
        await server.keep()  # creates the file
        await server.keep()
        assert server.file.exists()
        before = shown(view_of(registry))
    assert (await started(server)) == ("checkpoint", before)


@pytest.mark.parametrize("is_text", [False, True])
async def test_a_foreign_file_that_replaces_the_file_while_it_is_used_is_left_unchanged(tmp_path: Path, is_text: bool) -> None:
    server = Server(tmp_path)
    other = tmp_path / "other.db"
    if is_text:
        other.write_text("notes")
    else:
        with sqlite3.connect(other) as connection:
            connection.execute("CREATE TABLE mine (a)")
        connection.close()
    found = other.read_bytes()
    async with server.running() as registry:
        await server.set(registry, a_key(1), 1)
        await server.keep()
        other.rename(server.file)
        await server.set(registry, a_key(2), 2)
        for _ in range(3):
            await server.keep()
            assert server.file.read_bytes() == found
        before = shown(view_of(registry))
    assert server.file.read_bytes() == found
    assert not server.file.with_name(server.file.name + "-wal").exists(), "SQLite would take it for the foreign file's"
    without(server.file)
    assert (await started(server)) == ("log", before)
    assert (await started(server)) == ("checkpoint", before)
