"""The store: the opened file of checkpoints. It is a cache: a file that can't be read is replaced, and a server can do without one.

``place`` decides whose the file is that is found.

==========================================  ====================================================================================
what is found                               what is done
==========================================  ====================================================================================
nothing, or an empty file                   the file is created
a file of checkpoints in good order         the file is used
ours, of another format, or damaged         the file is removed and made anew, also while it is used (``make_anew``)
ours, and the disk has no room to open it   the file is left alone: ``FileError``
somebody else's file                        the file is left alone: ``FileError``
a file that another process uses            the file is left alone: ``FileError``
a file that can't be written                ``FileError``
==========================================  ====================================================================================
"""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from ..core.reading.restorable import KeyCells
from ..file_lock import FileLock
from ..sqlite_file import ERRORS, Damaged, FileError, Problem, checkpoint, create_private, give_back, lacks_room, unusable, unused_pages
from . import file
from .cells import key_cells_of
from .file import Counted, NamespaceRow, Row
from .header import CheckpointHeader
from .place import FileOwner, FilePlace

_log = logging.getLogger(__name__)
PAGE = 1_000
"""How many cells are read at a time."""


class Overtaken(Exception):
    """Raised if a checkpoint must not be written: the file has another one than its base, or another keeper writes."""


class Stored(NamedTuple):
    """A namespace's checkpoint, as it is read."""

    header: CheckpointHeader
    cells: Iterator[KeyCells]
    """All keys, in the order of their names. Iterating raises ``Damaged`` if they are not those that were written."""
    requests: list[tuple[int, bytes]]
    """The numbers and contents of the rows of requests, the oldest first."""


class Store:
    """The file of checkpoints. Methods that write are called on one thread at a time, ``read`` on any."""

    def __init__(self, path: Path, kind: type[sqlite3.Connection] = sqlite3.Connection, *, named_here: bool = False) -> None:
        """Creates a store whose file is not open.

        Args:
            path: the file's path.
            kind: the class of the connection that writes: tests inject faults with it.
            named_here: whether this server chose the file's name.
        """
        self.path = Path(os.path.realpath(path))  # SQLite's other files stand beside the file to which a link leads
        self._kind = kind
        self._place = FilePlace(self.path, named_here=named_here)
        self._lock = FileLock(self.path)
        self._connection: sqlite3.Connection | None = None
        self._row: NamespaceRow | None = None
        """The row of the namespace whose checkpoint is being written; None: none is."""
        self._name = ""

    def open(self) -> None:
        """Opens, creates or replaces the file (see the table above).

        Raises:
            FileError: the file can't be used.
        """
        self._lock.acquire()
        try:
            try:
                self._open()
            except FileError as error:
                self._let_go()
                if lacks_room(error.__cause__) or not self._place.is_replaceable:
                    raise
                _log.warning("%s It is created anew.", error)
                self._place.clear()
                self._open()
        except BaseException:
            self._let_go()
            self._lock.release()
            raise

    @property
    def is_open(self) -> bool:
        """Whether the file is open, and can be written."""
        return self._connection is not None

    def make_anew(self) -> None:
        """Removes the file that was opened, or a file of ours in its place, and makes a new one. A foreign file in its place is left alone.

        Raises:
            FileError: no new file can be made; nothing is open then.
        """
        opened = self._place.still_there() if self.is_open else []  # while they are open, no other file gets their inode numbers
        self.close()
        self._lock.acquire()  # raises if another process has taken the file
        try:
            if self._place.is_replaceable:
                self._place.clear()
            else:
                self._place.clear(opened)
            self.open()
        except BaseException:
            self._let_go()
            self._lock.release()
            raise

    def close(self) -> None:
        """Closes the file, and releases its lock."""
        self._let_go()
        self._lock.release()

    @contextmanager
    def read(self, name: str) -> Iterator[Stored | None]:
        """Reads a namespace's checkpoint, for as long as the context lasts; None: there is none, or the file is not open.

        Raises:
            sqlite3.Error: it can't be read, or is damaged.
        """
        if not self.is_open:
            yield None
            return
        self._place.check()
        connection = file.connect(self.path, read_only=True)
        try:
            connection.execute("BEGIN")
            row = file.namespace(connection, name)
            if row is None:
                yield None
                return
            yield Stored(CheckpointHeader.from_text(row.about), _cells(connection, name, row), _requests(connection, name, row))
        except UnicodeDecodeError as error:
            raise Damaged(f"the checkpoint of {name} can't be read ({error})") from error
        finally:
            connection.close()

    # --- writing a checkpoint --------------------------------------------------------------------------------------

    def begin(self, name: str, base: str) -> None:
        """Begins to write a namespace's checkpoint.

        Args:
            name: the namespace.
            base: the checkpoint that is changed (``CheckpointHeader.id``); "": nothing of the former one is kept.

        Raises:
            Overtaken: the file has another checkpoint than ``base``.
            sqlite3.Error: the file can't be written.
        """
        connection = self._writer()
        connection.execute("BEGIN IMMEDIATE")
        if not base:
            file.forget(connection, name)
        found = file.namespace(connection, name)
        if base and (found is None or CheckpointHeader.from_text(found.about).id != base):
            raise Overtaken(f"the checkpoint of {name} was replaced")
        self._name = name
        self._row = found or NamespaceRow(file.new_id(connection), "", Counted(), Counted())

    def add(self, rows: Sequence[Row], gone_keys: Sequence[str]) -> None:
        """Writes the rows of some keys, each key once, and removes other keys."""
        connection, row = self._writing()
        counted = row.cells + file.put_cells(connection, row.id, rows)
        gone = file.remove_cells(connection, row.id, gone_keys)
        self._row = row._replace(cells=counted.without(gone))

    def add_requests(self, number: int, requests: bytes) -> None:
        """Writes a row of requests, behind those before."""
        connection, row = self._writing()
        self._row = row._replace(requests=row.requests + file.add_requests(connection, row.id, number, requests))

    def drop_requests(self, before: int) -> None:
        """Removes the rows of requests below a number."""
        connection, row = self._writing()
        self._row = row._replace(requests=row.requests.without(file.drop_requests(connection, row.id, before)))

    def commit(self, header: CheckpointHeader, *, ended: Callable[[], bool] = lambda: False) -> None:
        """Commits the checkpoint.

        Args:
            header: the checkpoint's header.
            ended: called just before the commit: whether the keeper has ended, so that nothing may be committed.

        Raises:
            Overtaken: the keeper has ended.
            sqlite3.Error: the commit failed; the former checkpoint is still there.
        """
        connection, row = self._writing()
        self._place.check()
        if ended():
            raise Overtaken(f"{self._name} has another keeper")
        file.put_namespace(connection, self._name, row._replace(about=header.to_text()))
        connection.execute("COMMIT")
        self._row = None

    def give_up(self) -> None:
        """Gives up the checkpoint that is being written: the former one stays."""
        self._row = None
        if self._connection is not None and self._connection.in_transaction:
            with suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")

    # ---------------------------------------------------------------------------------------------------------------

    def shrink(self, pages_at_most: int, kept_pages: int) -> bool:
        """Removes up to ``pages_at_most`` unused pages from the file, but keeps ``kept_pages``; returns whether there are more of them.

        Raises:
            sqlite3.Error: the file can't be written.
        """
        connection = self._connection
        if connection is None or connection.in_transaction:
            return False
        before = unused_pages(connection)
        if before <= kept_pages:
            return False
        give_back(connection, min(before - kept_pages, pages_at_most))
        if kept_pages < unused_pages(connection) < before:
            return True
        checkpoint(connection)  # only now the file itself gets shorter
        return False

    def _open(self) -> None:
        create_private(self.path)
        if self._place.owner() is FileOwner.FOREIGN:  # a journal that its predecessor left must not be written into it
            raise FileError(Problem.UNKNOWN_FORMAT, f"{self.path} is not a file of checkpoints: name another file.")
        try:
            self._connection = file.connect(self.path, self._kind)
            file.prepare(self._connection, self.path)
            file.check_tables(self._connection)
            file.names(self._connection)
        except (*ERRORS, OSError) as error:
            raise unusable(self.path, error) from error
        self._place.opened()

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


def _cells(connection: sqlite3.Connection, name: str, row: NamespaceRow) -> Iterator[KeyCells]:
    rows = total = 0
    last = ""
    for page in file.cells(connection, row.id, PAGE):
        names, kinds, cells, sums = zip(*page, strict=True)
        if tuple(map(file.cell_checksum, names, kinds, cells)) != sums:
            raise Damaged(f"a cell of {name} is not what was written")
        if last > names[0] or list(names) != sorted(names):
            raise Damaged(f"the cells of {name} are out of order")
        last = names[-1]
        rows += len(page)
        total += sum(sums)
        yield key_cells_of(names, kinds, cells)
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
