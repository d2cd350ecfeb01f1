"""What holds for every SQLite file of the server: embedded log, history, checkpoints."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import pytest

from topicpolicies_server.checkpoints import file as checkpoints
from topicpolicies_server.history import file as history
from topicpolicies_server.logs.sqlite import file as log
from topicpolicies_server.sqlite_file import JOURNAL_BYTES, FileError, Format, connect, create_private, prepare

FORMS = pytest.mark.parametrize("form", [log.FORM, history.FORM, checkpoints.FORM], ids=lambda form: form.what)


@FORMS
def test_the_write_ahead_log_does_not_stay_as_large_as_the_largest_commit(tmp_path: Path, form: Format) -> None:
    path = tmp_path / "some.db"
    create_private(path)
    with closing(connect(path, form)) as connection:
        connection.create_function("checksum", -1, lambda *_: 0)
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
