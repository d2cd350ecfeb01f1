"""The file of the embedded log: which process has it, who may read it, and which formats are known."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import sqlite3
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from tests.eventually import eventually
from tests.logs.recorder import Recorder
from tests.logs.samples import a_key, an_update
from tests.logs.sqlite_backend import FaultyConnection
from topicpolicies_server.core.errors import Kind
from topicpolicies_server.logs.avro import PULSAR_4_2_4, Codec
from topicpolicies_server.logs.change_log import LogError
from topicpolicies_server.logs.sqlite import SqliteLog, writer
from topicpolicies_server.logs.sqlite import file as sqlite_file

NAMESPACE = "acme/orders"
KEY = a_key(NAMESPACE)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "changes.db"


async def one_life(path: Path, count: int, *, codec: Codec | None = None, namespace: str = NAMESPACE) -> tuple[str, Recorder]:
    """Opens the file, appends, and closes it; returns the log's identity and the recorder."""
    change_log = SqliteLog(path, codec=codec)
    recorder = Recorder()
    log = await change_log.open(namespace, recorder)
    await recorder.until_caught_up()
    for n in range(count):
        recorder.append(log, an_update(a_key(namespace, n), n))
    await recorder.until_settled(count)
    await change_log.close()
    assert recorder.failures == []
    return log.identity, recorder


def put(path: Path, content: bytes) -> None:
    path.write_bytes(content)


async def refusal(path: Path) -> LogError:
    with pytest.raises(LogError) as refused:
        await SqliteLog(path).start()
    assert str(path) in refused.value.message
    return refused.value


async def test_all_files_are_accessible_to_their_owner_only_whatever_the_umask(path: Path) -> None:
    before = os.umask(0)
    try:
        change_log = SqliteLog(path)
        recorder = Recorder()
        log = await change_log.open(NAMESPACE, recorder)
        recorder.append(log, an_update(KEY))
        await recorder.until_settled(1)
        modes = {found.name: oct(found.stat().st_mode & 0o777) for found in path.parent.iterdir()}
        await change_log.close()
    finally:
        os.umask(before)
    assert modes == dict.fromkeys(["changes.db", "changes.db-wal", "changes.db-shm", "changes.db-mark", "changes.db.lock"], "0o600")


def modes(path: Path) -> dict[str, int]:
    """What anybody may do with the files of a folder, by their names."""
    return {found.name: found.stat().st_mode & 0o777 for found in path.parent.iterdir()}


def give(path: Path, mode: int) -> None:
    path.chmod(mode)


async def test_a_backup_that_others_can_read_is_for_its_owner_only_once_it_is_opened(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    await one_life(path, 1)
    give(path, 0o664)
    change_log = SqliteLog(path)
    await change_log.start()
    assert set(modes(path).values()) == {0o600}
    assert f"{path} was open to other users (mode 664)" in caplog.text
    await change_log.close()


async def test_a_file_of_another_program_keeps_its_mode(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE mine (a)")
    give(path, 0o644)
    assert (await refusal(path)).reason == "LOG_UNAVAILABLE"
    assert modes(path)["changes.db"] == 0o644


async def test_a_second_log_on_the_file_is_refused_at_once_with_the_id_of_the_process_that_has_it(path: Path) -> None:
    first = SqliteLog(path)
    await first.start()
    (path.parent / "alias.db").symlink_to(path)
    for name in (path, path.parent / "alias.db"):
        with pytest.raises(LogError, match=rf"{path} is in use by process {os.getpid()}\.") as refused:
            await SqliteLog(name).start()
        assert (refused.value.kind, refused.value.reason) == (Kind.FAILED_PRECONDITION, "LOG_UNAVAILABLE")
    await first.close()
    again = SqliteLog(path)
    await again.start()
    await again.close()


async def test_the_lock_ends_with_its_process_even_if_that_is_killed(path: Path) -> None:
    await one_life(path, 1)
    program = (
        "import sys, time, pathlib; from topicpolicies_server.sqlite_file import FileLock;"
        "FileLock(pathlib.Path(sys.argv[1])).acquire(); print('locked', flush=True); time.sleep(60)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    holder = await asyncio.create_subprocess_exec(sys.executable, "-c", program, path, stdout=asyncio.subprocess.PIPE, env=environment)
    assert holder.stdout is not None
    assert await holder.stdout.readline() == b"locked\n"
    assert f"in use by process {holder.pid}." in (await refusal(path)).message
    holder.kill()
    await holder.wait()
    _, recorder = await one_life(path, 1)
    assert len(recorder.entries) == 2


async def test_a_second_log_is_refused_even_if_the_lock_file_was_removed(path: Path) -> None:
    change_log = SqliteLog(path)
    recorder = Recorder()
    log = await change_log.open(NAMESPACE, recorder)
    path.with_name(path.name + ".lock").unlink()
    error = await refusal(path)
    assert (error.kind, error.reason) == (Kind.FAILED_PRECONDITION, "LOG_UNAVAILABLE")
    recorder.append(log, an_update(KEY))
    await recorder.until_settled(1)
    await change_log.close()
    _, later = await one_life(path, 1)
    assert len(later.entries) == 2


async def test_a_disk_too_full_to_record_the_process_id_in_the_lock_does_not_keep_the_file_locked(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    await one_life(path, 1)
    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", full)
        _, recorder = await one_life(path, 1)
    assert len(recorder.entries) == 2
    _, recorder = await one_life(path, 1)
    assert len(recorder.entries) == 3


@pytest.mark.parametrize("found", [0, sqlite_file.FORMAT + 1])
async def test_a_file_of_another_format_is_refused_and_left_unchanged(path: Path, found: int) -> None:
    await one_life(path, 1)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {found}")
    error = await refusal(path)
    assert (error.kind, error.reason) == (Kind.FAILED_PRECONDITION, "LOG_UNAVAILABLE")
    assert f"has format {found}, and this release reads format 1 only: use the release that wrote it" in error.message
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (found,)
        assert connection.execute("SELECT count(*) FROM events").fetchone() == (1,)


async def test_a_database_of_another_program_is_refused_and_left_unchanged(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE events (something)")
    assert (await refusal(path)).reason == "LOG_UNAVAILABLE"
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("events",)]
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)


async def test_a_file_that_is_not_a_database_is_refused(path: Path) -> None:
    put(path, b"something else entirely, and long enough to be looked at " * 100)
    error = await refusal(path)
    assert error.reason == "LOG_FILE_UNUSABLE"
    assert error.message.endswith("file is not a database. Restore it from a backup, or name another file.")
    with pytest.raises(LogError, match="can't be opened for writing") as refused:
        await SqliteLog(path.parent).start()
    assert refused.value.reason == "LOG_FILE_UNUSABLE"


async def test_a_missing_directory_is_named_in_the_refusal(path: Path) -> None:
    with pytest.raises(LogError, match="nowhere") as refused:
        await SqliteLog(path.parent / "nowhere" / "changes.db").start()
    assert refused.value.reason == "LOG_FILE_UNUSABLE"


async def test_a_refused_file_can_be_opened_once_it_is_usable(path: Path) -> None:
    put(path, b"no database" * 100)
    change_log = SqliteLog(path)
    with pytest.raises(LogError):
        await change_log.start()
    put(path, b"")
    await change_log.start()
    await change_log.close()


async def test_each_namespace_of_each_file_has_a_permanent_identity_of_its_own(path: Path) -> None:
    first = {(await one_life(path, 1))[0] for _ in range(2)}
    assert len(first) == 1
    other_namespace, _ = await one_life(path, 1, namespace="acme/other")
    other_file, _ = await one_life(path.with_name("other.db"), 1)
    assert len({*first, other_namespace, other_file}) == 3


async def test_namespaces_that_are_asked_for_and_have_nothing_take_no_memory(path: Path) -> None:
    change_log = SqliteLog(path)
    for number in range(100):
        log = await change_log.open(f"acme/nothing-{number}", Recorder())
        await log.close()
    recorder = Recorder()
    log = await change_log.open("acme/something", recorder)
    recorder.append(log, an_update(a_key("acme/something")))
    await log.close()
    assert list(change_log._namespaces) == ["acme/something"]
    await change_log.close()
    assert recorder.failures == []


async def test_entries_are_read_with_the_schema_that_they_were_written_with(path: Path) -> None:
    definition = json.loads(PULSAR_4_2_4)
    older = without(definition, "maxMessageSize")
    await one_life(path, 3, codec=Codec(json.dumps(older)))
    _, recorder = await one_life(path, 3)
    written = [placed.event for placed in recorder.entries if placed.event is not None]
    assert [event.document for event in written[:3]] == [event.document for event in written[3:]]
    assert ["max_message_size" in event.known if event.known is not None else None for event in written] == [False] * 3 + [None] * 3


def without(node: object, name: str) -> object:
    """Returns a schema without the fields of this name."""
    if isinstance(node, dict):
        return {key: without(value, name) for key, value in node.items()}
    if isinstance(node, list):
        return [without(item, name) for item in node if not (isinstance(item, dict) and item.get("name") == name)]
    return node


async def test_the_connection_is_configured_to_sync_every_commit(path: Path) -> None:
    """Only a power failure would show whether commits are synced, so this checks the settings."""
    faults = FaultyConnection.fresh()
    change_log = SqliteLog(path, connection=faults)
    await change_log.start()
    settings = {name: faults.last.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous", "auto_vacuum")}
    assert settings == {"journal_mode": "wal", "synchronous": 2, "auto_vacuum": 2}
    await change_log.close()


async def test_after_a_commit_of_many_events_the_next_waits_for_company_and_after_one_of_few_it_does_not(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "DELAY_SECONDS", 2.0)
    faults = FaultyConnection.fresh()
    change_log = SqliteLog(path, connection=faults)
    recorder = Recorder()
    log = await change_log.open(NAMESPACE, recorder)
    await recorder.until_caught_up()
    faults.gate.clear()
    recorder.append(log, an_update(KEY, 0))
    await eventually(lambda: faults.statements)
    for n in range(1, 20):
        recorder.append(log, an_update(KEY, n))
    faults.gate.set()
    await recorder.until_settled(20)
    recorder.append(log, an_update(KEY, 20))
    await asyncio.sleep(0.1)
    recorder.append(log, an_update(KEY, 21))
    await recorder.until_settled(22)
    assert recorder.places[20].published_at == recorder.places[21].published_at
    began = time.monotonic()
    recorder.append(log, an_update(KEY, 22))
    await recorder.until_settled(23)
    assert time.monotonic() - began < writer.DELAY_SECONDS
    await change_log.close()


async def test_a_closed_log_stays_closed(path: Path) -> None:
    change_log = SqliteLog(path)
    await change_log.start()
    await change_log.close()
    await change_log.close()
    with pytest.raises(LogError, match="closed"):
        await change_log.open(NAMESPACE, Recorder())


async def test_a_namespace_can_be_open_only_once_at_a_time(path: Path) -> None:
    change_log = SqliteLog(path)
    await change_log.open(NAMESPACE, Recorder())
    with pytest.raises(LogError, match="already open"):
        await change_log.open(NAMESPACE, Recorder())
    await change_log.close()
