"""The file of checkpoints, opened. It is a cache: one that can't be read is replaced, and one that can't be written is done without.

Whose the file is that is found in its place, ``place`` says.

==========================================  ====================================================================================
what is found in its place                  what follows
==========================================  ====================================================================================
nothing, or an empty file                   it is made
a file of checkpoints in good order         it is used
ours, of another format, or damaged         it is removed, and made anew, also while it is used (``make_anew``)
somebody else's                             it is left alone: ``FileError``
a file that another process has             it is left alone: ``FileError``
one that can't be written                   ``FileError``
==========================================  ====================================================================================
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from ..core.reading.resumed import Helds
from ..file_lock import FileLock
from ..sqlite_file import ERRORS, Damaged, FileError, Problem, create_private
from . import file
from .about import About
from .cells import helds_of
from .file import Counted, NamespaceRow, Row
from .place import FilePlace, Whose

_log = logging.getLogger(__name__)
PAGE = 1_000
"""Cells that are read at a time."""


class Overtaken(Exception):
    """What was to be written is of no use: another checkpoint stands where the one did that it goes on with, or another keeper writes."""


class Stored(NamedTuple):
    """A namespace's checkpoint, as it is read."""

    about: About
    cells: Iterator[Helds]
    """All keys, in the order of their names; ``Damaged`` if they are not those that were written."""
    requests: list[tuple[int, bytes]]
    """Numbers and requests, the oldest first."""


class Store:
    """An open file. What writes is called on one thread at a time; ``read`` on any."""

    def __init__(self, path: Path, kind: type[sqlite3.Connection] = sqlite3.Connection, *, named_here: bool = False) -> None:
        """Names the file.

        Args:
            path: of it.
            kind: the class of the connection that writes: tests put faults in it.
            named_here: whether this server gave it its name, and nobody else.
        """
        self.path = path
        self._kind = kind
        self._place = FilePlace(path, named_here=named_here)
        self._lock = FileLock(path)
        self._connection: sqlite3.Connection | None = None
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
                if not self._place.is_replaceable:
                    raise
                _log.warning("%s It is made anew.", error)
                self._place.clear()
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
        opened = self._place.still_there() if self.is_open else []  # while they are open no others have their numbers
        self.close()
        self._lock.acquire()  # another process may have taken it
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
        """Closes it, and gives up its lock."""
        self._let_go()
        self._lock.release()

    @contextmanager
    def read(self, name: str) -> Iterator[Stored | None]:
        """A namespace's checkpoint; None: there is none.

        Raises:
            sqlite3.Error: it can't be read, or is damaged.
        """
        self._place.check()
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

    def begin(self, name: str, base: str) -> None:
        """Begins to write a namespace's checkpoint, which goes on with another one (``About.id``); "": nothing of what there was is kept.

        Raises:
            Overtaken: that is not there.
            sqlite3.Error: it can't be written.
        """
        connection = self._writer()
        connection.execute("BEGIN IMMEDIATE")
        if not base:
            file.forget(connection, name)
        found = file.namespace(connection, name)
        if base and (found is None or About.from_text(found.about).id != base):
            raise Overtaken(f"the checkpoint of {name} is another one")
        self._name = name
        self._row = found or NamespaceRow(file.new_id(connection), "", Counted(), Counted())

    def add(self, rows: Sequence[Row], gone_keys: Sequence[str]) -> None:
        """Writes what there is of some keys, each once, and removes others."""
        connection, row = self._writing()
        counted = row.cells + file.put_cells(connection, row.id, rows)
        gone = file.remove_cells(connection, row.id, gone_keys)
        self._row = row._replace(cells=counted.without(gone))

    def add_requests(self, number: int, requests: bytes) -> None:
        """Writes a row of requests behind those before."""
        connection, row = self._writing()
        self._row = row._replace(requests=row.requests + file.add_requests(connection, row.id, number, requests))

    def drop_requests(self, before: int) -> None:
        """Removes the rows of requests below a number."""
        connection, row = self._writing()
        self._row = row._replace(requests=row.requests.without(file.drop_requests(connection, row.id, before)))

    def commit(self, about: About, *, ended: Callable[[], bool] = lambda: False) -> None:
        """The checkpoint holds for this from now on; ``ended``: asked last, whether it is not to be.

        Raises:
            Overtaken: it is not to be.
            sqlite3.Error: it is as it was before.
        """
        connection, row = self._writing()
        self._place.check()
        if ended():
            raise Overtaken(f"{self._name} has another keeper")
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
        if self._place.whose() is Whose.FOREIGN:  # what was left beside it by the file that stood there is not written into it
            raise FileError(Problem.UNKNOWN_FORMAT, f"{self.path} is no file of checkpoints: name another file.")
        try:
            self._connection = file.connect(self.path, self._kind)
            file.prepare(self._connection, self.path)
            file.names(self._connection)
        except (*ERRORS, OSError) as error:
            raise FileError(Problem.UNUSABLE, f"{self.path} can't be read: {error}.") from error
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


def _cells(connection: sqlite3.Connection, name: str, row: NamespaceRow) -> Iterator[Helds]:
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
        yield helds_of(names, kinds, cells)
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
