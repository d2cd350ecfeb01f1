"""The file of checkpoints, opened. It is a cache: one that can't be read is replaced, and one that can't be written is done without.

=========================================================  =========================================================================
what is found in its place                                 what follows
=========================================================  =========================================================================
nothing                                                    it is made
a file of checkpoints in good order                        it is used
one of another format, or one that is damaged              it is removed, and made anew, also while it is used (``make_anew``)
something else                                             it is left alone: ``FileError``
a file that another process has                            it is left alone: ``FileError``
one that can't be written                                  ``FileError``
=========================================================  =========================================================================
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from ..core.reading.resumed import Held
from ..file_lock import FileLock
from ..sqlite_file import ERRORS, Damaged, FileError, Problem, create_private
from . import file
from .about import About
from .cells import held_of
from .file import Counted, NamespaceRow, Row

_log = logging.getLogger(__name__)
_BESIDE = ("", "-wal", "-shm", "-journal")
"""What the names of SQLite's files end with."""
PAGE = 1_000
"""Cells that are read at a time."""


class Stored(NamedTuple):
    """A namespace's checkpoint, as it is read."""

    about: About
    cells: Iterator[Held]
    """All keys, in the order of their names; ``Damaged`` if they are not those that were written."""
    requests: list[tuple[int, bytes]]
    """Numbers and requests, the oldest first."""


class Store:
    """An open file. What writes is called on one thread at a time; ``read`` on any."""

    def __init__(self, path: Path, kind: type[sqlite3.Connection] = sqlite3.Connection) -> None:
        """Names the file; ``kind`` is the class of the connection that writes: tests put faults in it."""
        self.path = path
        self._kind = kind
        self._lock = FileLock(path)
        self._connection: sqlite3.Connection | None = None
        self._opened: dict[str, tuple[int, int]] = {}
        """Which files they were as they were opened, by the endings of their names."""
        self._row: NamespaceRow | None = None
        """Of what is being written."""
        self._name = ""

    def open(self) -> None:
        """Opens the file, makes it, or replaces it (see above).

        Raises:
            FileError: it can't be used.
        """
        self._lock.acquire()
        try:
            try:
                self._open()
            except FileError as error:
                self._let_go()
                if not self._is_to_be_replaced():
                    raise
                _log.warning("%s It is made anew.", error)
                self._let_go()
                self._remove(_BESIDE)
                self._open()
        except BaseException:
            self._let_go()
            self._lock.release()
            raise

    @property
    def is_open(self) -> bool:
        """Whether there is a file to write to."""
        return self._connection is not None

    def make_anew(self) -> None:
        """Removes the file that was opened, or what says that it has checkpoints, and makes a new one. Something else is left alone.

        Raises:
            FileError: it can't be made; nothing is open.
        """
        there = self._there() if self.is_open else {}  # while they are open no others have their numbers
        opened = [ending for ending, found in there.items() if self._opened.get(ending) == found]
        self.close()
        self._lock.acquire()  # another process may have taken it
        try:
            self._remove(_BESIDE if self._is_to_be_replaced() else opened)
            self.open()
        except BaseException:
            self._let_go()
            self._lock.release()
            raise

    def _remove(self, endings: Sequence[str]) -> None:
        try:
            for ending in sorted(endings, reverse=True):  # the file itself goes last
                self._beside(ending).unlink(missing_ok=True)
        except OSError as error:
            raise FileError(Problem.UNUSABLE, f"{self.path} can't be removed: {error.strerror}.") from error

    def _beside(self, ending: str) -> Path:
        return self.path.with_name(self.path.name + ending)

    def _there(self) -> dict[str, tuple[int, int]]:
        """Which files stand there now, by the endings of their names."""
        there = {}
        for ending in _BESIDE:
            with suppress(OSError):
                found = self._beside(ending).stat()
                there[ending] = found.st_dev, found.st_ino
        return there

    def close(self) -> None:
        """Closes it, and gives up its lock."""
        self._let_go()
        self._lock.release()

    @contextmanager
    def read(self, name: str) -> Iterator[Stored | None]:
        """A namespace's checkpoint; None: there is none.

        Raises:
            sqlite3.Error: it can't be read, or is damaged.
        """
        self._check_home()
        connection = file.connect(self.path, read_only=True)
        try:
            connection.execute("BEGIN")
            row = file.namespace(connection, name)
            if row is None:
                yield None
                return
            yield Stored(About.from_text(row.about), _cells(connection, name, row), _requests(connection, name, row))
        except UnicodeDecodeError as error:
            raise Damaged(f"the checkpoint of {name} can't be read ({error})") from error
        finally:
            connection.close()

    # --- one checkpoint is moved on --------------------------------------------------------------------------------

    def begin(self, name: str, *, anew: bool) -> None:
        """Begins to write a namespace's checkpoint; ``anew``: nothing of what there was is kept.

        Raises:
            sqlite3.Error: it can't be written.
        """
        connection = self._writer()
        connection.execute("BEGIN IMMEDIATE")
        if anew:
            file.forget(connection, name)
        found = file.namespace(connection, name)
        if found is None and not anew:
            raise Damaged(f"the checkpoint of {name} has gone")
        self._name = name
        self._row = found or NamespaceRow(file.new_id(connection), "", Counted(), Counted())

    def add(self, rows: Sequence[Row], gone_keys: Sequence[str]) -> None:
        """Writes what there is of some keys, each once, and removes others."""
        connection, row = self._writing()
        counted = row.cells + file.put_cells(connection, row.id, rows)
        gone = file.remove_cells(connection, row.id, gone_keys)
        self._row = row._replace(cells=counted.without(gone))

    def add_requests(self, number: int, requests: bytes, dropped_before: int) -> None:
        """Writes requests behind those before, and drops those with a lower number than ``dropped_before``."""
        connection, row = self._writing()
        counted = row.requests
        if requests:
            counted += file.add_requests(connection, row.id, number, requests)
        self._row = row._replace(requests=counted.without(file.drop_requests(connection, row.id, dropped_before)))

    def commit(self, about: About) -> None:
        """The checkpoint holds for this from now on.

        Raises:
            sqlite3.Error: it is as it was before.
        """
        connection, row = self._writing()
        self._check_home()
        file.put_namespace(connection, self._name, row._replace(about=about.to_text()))
        connection.execute("COMMIT")
        self._row = None

    def give_up(self) -> None:
        """It is as it was before."""
        self._row = None
        if self._connection is not None and self._connection.in_transaction:
            with suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")

    def forget(self, name: str) -> None:
        """Removes a namespace's checkpoint.

        Raises:
            sqlite3.Error: it can't be removed.
        """
        connection = self._writer()
        connection.execute("BEGIN IMMEDIATE")
        try:
            file.forget(connection, name)
            connection.execute("COMMIT")
        except BaseException:
            self.give_up()
            raise

    # ---------------------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        create_private(self.path)
        if self._is_something_else():  # what was left beside it by the file that stood there is not written into it
            raise FileError(Problem.UNKNOWN_FORMAT, f"{self.path} is no file of checkpoints: name another file.")
        try:
            self._connection = file.connect(self.path, self._kind)
            file.prepare(self._connection, self.path)
            file.names(self._connection)
        except (*ERRORS, OSError) as error:
            raise FileError(Problem.UNUSABLE, f"{self.path} can't be read: {error}.") from error
        self._opened = self._there()

    def _is_to_be_replaced(self) -> bool:
        """Whether what stands there says that it has checkpoints, though it can't be read."""
        try:
            with self.path.open("rb") as found:
                return file.is_ours(found.read(file.HEADER_BYTES))
        except OSError:
            return False

    def _is_something_else(self) -> bool:
        try:
            with self.path.open("rb") as found:
                header = found.read(file.HEADER_BYTES)
        except OSError as error:
            raise FileError(Problem.UNUSABLE, f"{self.path} can't be read: {error.strerror}.") from error
        return bool(header) and not file.is_ours(header)

    def _check_home(self) -> None:
        """Makes sure that the file stands where it was opened."""
        found = self._there().get("")
        if found is None or found != self._opened.get(""):
            raise Damaged(f"{self.path} was moved, deleted or replaced")

    def _writer(self) -> sqlite3.Connection:
        if self._connection is None:
            raise sqlite3.OperationalError(f"{self.path} is not open")
        return self._connection

    def _writing(self) -> tuple[sqlite3.Connection, NamespaceRow]:
        assert self._row is not None, "begun"
        return self._writer(), self._row

    def _let_go(self) -> None:
        self._row = None
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None


def _cells(connection: sqlite3.Connection, name: str, row: NamespaceRow) -> Iterator[Held]:
    rows = total = 0
    checksum = file.cell_checksum
    for page in file.cells(connection, row.id, PAGE):
        rows += len(page)
        for key, kind, cell, sure in page:
            if checksum(key, kind, cell) != sure:
                raise Damaged(f"the cell of {key} is not what was written")
            total += sure
            yield held_of(key, kind, cell)
    if Counted(rows, total) != row.cells:
        raise Damaged(f"of {name} there are {rows} cells, where {row.cells.rows} others were written")


def _requests(connection: sqlite3.Connection, name: str, row: NamespaceRow) -> list[tuple[int, bytes]]:
    found = file.requests(connection, row.id)
    total = Counted(*connection.execute(
        "SELECT count(*), coalesce(sum(checksum), 0) FROM requests WHERE namespace = ?", (row.id,)
    ).fetchone())  # fmt: skip
    if total != row.requests:
        raise Damaged(f"of {name} there are {total.rows} rows of requests, where {row.requests.rows} others were written")
    return found
