"""The file of checkpoints: its format, and every statement that is run on it.

::

    PRAGMA application_id = "TPCP"   whose file it is
    PRAGMA user_version   = 1        the format
    namespaces  id, name, about (JSON: what its checkpoint holds for), cells, sum: how many cells it has, and the sum of their checksums;
                requests, requests_sum: the same of its requests; checksum: of all these
    cells       namespace, key, kind, cell, checksum: what is known of each policy key
    requests    namespace, number, requests, checksum: requests that were applied lately, some at a time, the oldest first

Every checkpoint is moved on in one transaction: its cells, its requests, and what it holds for. Commits are not synchronous: what a power
failure takes away, it takes away together.

Damage shows: what a row holds by its checksum, and that one is missing, or is an older one, by ``cells`` and ``sum``.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from ..sqlite_file import Damaged, Format, checksum
from ..sqlite_file import connect as _connect
from ..sqlite_file import prepare as _prepare

APPLICATION_ID = int.from_bytes(b"TPCP", "big")
FORMAT = 1
"""The format that is written here, and the only one that is read."""
HEADER_BYTES = 100
"""What an SQLite file begins with."""
MAGIC = b"SQLite format 3\0"
PAGE_BYTES = 4_096
"""A page's, which is also what SQLite takes by itself."""
_ID_AT = 68
_INDEX, _INDEX_BYTES = b"sqlite_autoindex_namespaces_1namespaces", 64
"""What SQLite itself writes of our first table behind it, and its length at most, with what says where it is."""
_AT_A_TIME = 128
"""Rows of one statement, so that the interpreter's lock is let go of, and waited for, once for all of them."""

_TABLES = (
    """CREATE TABLE namespaces (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, about TEXT NOT NULL, cells INTEGER NOT NULL,
    sum INTEGER NOT NULL, requests INTEGER NOT NULL, requests_sum INTEGER NOT NULL, checksum INTEGER NOT NULL)""",
    """CREATE TABLE cells (namespace INTEGER NOT NULL, key TEXT NOT NULL, kind INTEGER NOT NULL, cell BLOB NOT NULL,
    checksum INTEGER NOT NULL, PRIMARY KEY (namespace, key)) WITHOUT ROWID""",
    """CREATE TABLE requests (namespace INTEGER NOT NULL, number INTEGER NOT NULL, requests BLOB NOT NULL, checksum INTEGER NOT NULL,
    PRIMARY KEY (namespace, number)) WITHOUT ROWID""",
)


class Row(NamedTuple):
    """What there is of one key."""

    name: str
    """The key in one text (``core/reading/cells.name_of``)."""
    kind: int
    """How it is written (``cells``)."""
    cell: bytes


class Counted(NamedTuple):
    """How many rows there are, and the sum of their checksums."""

    rows: int = 0
    sum: int = 0

    def __add__(self, other: tuple[object, ...]) -> Counted:
        """Those and these."""
        rows, total = other
        assert isinstance(rows, int) and isinstance(total, int)
        return Counted(self.rows + rows, self.sum + total)

    def without(self, other: Counted) -> Counted:
        """Those but for these."""
        return Counted(self.rows - other.rows, self.sum - other.sum)


class NamespaceRow(NamedTuple):
    """A namespace that the file has a checkpoint of."""

    id: int
    about: str
    cells: Counted
    requests: Counted


def _create(connection: sqlite3.Connection) -> None:
    for table in _TABLES:
        connection.execute(table)


FORM = Format(
    "file of checkpoints",
    APPLICATION_ID,
    FORMAT,
    _create,
    {},
    ("synchronous = NORMAL", "cache_size = -8000"),
    shrinks=True,
)


def connect(path: Path, kind: type[sqlite3.Connection] = sqlite3.Connection, *, read_only: bool = False) -> sqlite3.Connection:
    """A connection to a file that is there (see ``sqlite_file.connect``)."""
    return _connect(path, FORM, kind, read_only=read_only)


def prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Makes the tables in an empty file, or checks that they are of the format known here (see ``sqlite_file.prepare``)."""
    _prepare(connection, path, FORM)


def has_our_id(beginning: bytes) -> bool:
    """Whether an SQLite file that begins so says that it has checkpoints, of whatever format (SQLite's file format, 1.3)."""
    return beginning.startswith(MAGIC) and beginning[_ID_AT : _ID_AT + 4] == APPLICATION_ID.to_bytes(4, "big")


def has_our_table(beginning: bytes) -> bool:
    """Whether a first page ends with our first table, and its index, whatever became of what stands before (SQLite's format, 1.6, 2.6)."""
    found, table, rest = beginning[:PAGE_BYTES].rpartition(_TABLES[0].encode("ascii"))
    return len(found + table + rest) == PAGE_BYTES and len(rest) < _INDEX_BYTES and _INDEX in rest


def namespace(connection: sqlite3.Connection, name: str) -> NamespaceRow | None:
    """A namespace; None: there is no checkpoint of it.

    Raises:
        Damaged: its row is not what was written.
    """
    row = connection.execute(
        "SELECT id, about, cells, sum, requests, requests_sum, checksum FROM namespaces WHERE name = ?", (name,)
    ).fetchone()
    if row is None:
        return None
    number, about, *counts, sure = row
    if checksum(number, name, about, *counts) != sure:
        raise Damaged(f"the row of {name} is not what was written")
    return NamespaceRow(number, about, Counted(*counts[:2]), Counted(*counts[2:]))


def put_namespace(connection: sqlite3.Connection, name: str, row: NamespaceRow) -> None:
    """Writes what a namespace's checkpoint holds for, and how much there is of it."""
    values = (row.id, name, row.about, *row.cells, *row.requests)
    connection.execute("INSERT OR REPLACE INTO namespaces VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (*values, checksum(*values)))


def new_id(connection: sqlite3.Connection) -> int:
    """An id that no namespace has."""
    (number,) = connection.execute(
        "SELECT max(coalesce((SELECT max(id) FROM namespaces), 0), coalesce((SELECT max(namespace) FROM cells), 0),"
        " coalesce((SELECT max(namespace) FROM requests), 0)) + 1"
    ).fetchone()
    return int(number)


def names(connection: sqlite3.Connection) -> list[str]:
    """All namespaces that there is a checkpoint of."""
    return [name for (name,) in connection.execute("SELECT name FROM namespaces ORDER BY id")]


def forget(connection: sqlite3.Connection, name: str) -> None:
    """Removes what there is of a namespace."""
    ids = [number for (number,) in connection.execute("SELECT id FROM namespaces WHERE name = ?", (name,))]
    for number in ids:
        for table, column in (("cells", "namespace"), ("requests", "namespace"), ("namespaces", "id")):
            connection.execute(f"DELETE FROM {table} WHERE {column} = ?", (number,))  # noqa: S608 (ours)


def cell_checksum(name: str, kind: int, cell: bytes) -> int:
    """What is kept beside a cell to find out whether it is the one that was written, of this key."""
    return crc32(cell, crc32(name.encode(), kind))


def put_cells(connection: sqlite3.Connection, namespace_id: int, cells: Sequence[Row]) -> Counted:
    """Writes the cells of some keys, each once, over what there was of them; by how much there is more now."""
    more = Counted()
    for at in range(0, len(cells), _AT_A_TIME):
        some = cells[at : at + _AT_A_TIME]
        more = more.without(_count_cells(connection, namespace_id, [row.name for row in some]))
        values: list[int | str | bytes] = []
        total = 0
        for row in some:
            sure = cell_checksum(*row)
            total += sure
            values += (namespace_id, *row, sure)
        marks = ",".join(["(?,?,?,?,?)"] * len(some))
        connection.execute(f"INSERT OR REPLACE INTO cells VALUES {marks}", values)  # noqa: S608 (only question marks)
        more += Counted(len(some), total)
    return more


def remove_cells(connection: sqlite3.Connection, namespace_id: int, keys: Sequence[str]) -> Counted:
    """Removes the cells of some keys, as far as there are any; what is gone."""
    gone = Counted()
    for at in range(0, len(keys), _AT_A_TIME):
        some = list(keys[at : at + _AT_A_TIME])
        gone += _count_cells(connection, namespace_id, some)
        marks = ",".join("?" * len(some))
        connection.execute(f"DELETE FROM cells WHERE namespace = ? AND key IN ({marks})", (namespace_id, *some))  # noqa: S608 (marks)
    return gone


def _count_cells(connection: sqlite3.Connection, namespace_id: int, keys: Sequence[str]) -> Counted:
    marks = ",".join("?" * len(keys))
    row = connection.execute(
        f"SELECT count(*), coalesce(sum(checksum), 0) FROM cells WHERE namespace = ? AND key IN ({marks})",  # noqa: S608 (marks)
        (namespace_id, *keys),
    ).fetchone()
    return Counted(*row)


def cells(connection: sqlite3.Connection, namespace_id: int, size: int) -> Iterator[list[tuple[str, int, bytes, int]]]:
    """Names, kinds, cells and checksums, in the order of the names, ``size`` at a time."""
    cursor = connection.execute("SELECT key, kind, cell, checksum FROM cells WHERE namespace = ? ORDER BY key", (namespace_id,))
    while page := cursor.fetchmany(size):
        yield page


def add_requests(connection: sqlite3.Connection, namespace_id: int, number: int, requests: bytes) -> Counted:
    """Writes some requests behind those before; how much that is."""
    sure = crc32(requests, number)
    connection.execute("INSERT INTO requests VALUES (?, ?, ?, ?)", (namespace_id, number, requests, sure))
    return Counted(1, sure)


def drop_requests(connection: sqlite3.Connection, namespace_id: int, before: int) -> Counted:
    """Removes the requests below a number; what is gone."""
    row = connection.execute(
        "SELECT count(*), coalesce(sum(checksum), 0) FROM requests WHERE namespace = ? AND number < ?", (namespace_id, before)
    ).fetchone()
    if row[0]:
        connection.execute("DELETE FROM requests WHERE namespace = ? AND number < ?", (namespace_id, before))
    return Counted(*row)


def requests(connection: sqlite3.Connection, namespace_id: int) -> list[tuple[int, bytes]]:
    """Numbers and requests, the oldest first.

    Raises:
        Damaged: some are not what was written.
    """
    found = []
    rows = connection.execute("SELECT number, requests, checksum FROM requests WHERE namespace = ? ORDER BY number", (namespace_id,))
    for number, some, sure in rows:
        if crc32(some, number) != sure:
            raise Damaged(f"the requests {number} of a namespace are not what was written")
        found.append((number, some))
    return found
