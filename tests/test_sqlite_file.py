"""What holds for every SQLite file of the server: embedded log, history."""

from __future__ import annotations

import os
import resource
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from topicpolicies_server.history import file as history
from topicpolicies_server.logs.avro import Codec
from topicpolicies_server.logs.change_log import LogError
from topicpolicies_server.logs.sqlite import file as log
from topicpolicies_server.logs.sqlite.file import open_file
from topicpolicies_server.sqlite_file import JOURNAL_BYTES, FileError, FileLock, Format, connect, create_private, prepare

FORMS = pytest.mark.parametrize("form", [log.FORM, history.FORM], ids=lambda form: form.what)


@FORMS
def test_the_write_ahead_log_does_not_stay_as_large_as_the_largest_commit(tmp_path: Path, form: Format) -> None:
    path = tmp_path / "some.db"
    create_private(path)
    with closing(connect(path, form)) as connection:
        prepare(connection, path, form)
        connection.execute("CREATE TABLE large (content BLOB)")
        connection.execute("INSERT INTO large VALUES (zeroblob(?))", (2 * JOURNAL_BYTES,))
        journal = path.with_name("some.db-wal")
        assert journal.stat().st_size > 2 * JOURNAL_BYTES
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        connection.execute("INSERT INTO large VALUES ('')")
        assert journal.stat().st_size <= JOURNAL_BYTES


def test_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "some.db"
    os.mkfifo(path)
    with pytest.raises(FileError, match="is not a regular file"):
        create_private(path)


@contextmanager
def no_room() -> Iterator[None]:
    """No file gets larger meanwhile than a few bytes, as if the disk were full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def open_log(path: Path) -> None:
    lock = FileLock(path)
    opened = open_file(path, lock, sqlite3.Connection, Codec())
    opened.connection.close()
    opened.mark.close()
    lock.release()


def open_history(path: Path) -> None:
    history.open_file(path).close()


@pytest.mark.parametrize("open_again", [open_log, open_history])
def test_a_file_that_can_not_be_opened_on_a_full_disk_says_to_make_room(tmp_path: Path, open_again: Callable[[Path], None]) -> None:
    path = tmp_path / "some.db"
    open_again(path)
    before = path.read_bytes()
    with no_room(), pytest.raises((FileError, LogError), match=r"isk is full.*: make room\.$"):
        open_again(path)
    assert path.read_bytes() == before
    open_again(path)
