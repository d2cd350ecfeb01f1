"""The file of checkpoints: its format, and every statement that is run on it.

::

    PRAGMA application_id = "TPCP"   marks the file as one of checkpoints
    PRAGMA user_version   = 1        the format
    namespaces  id, name, about (the checkpoint's header, JSON); cells, sum: how many cells it has, and the sum of their checksums;
                requests, requests_sum: how many rows of requests, and the sum of their checksums; checksum: of all these columns
    cells       namespace, key, kind, cell, checksum: what is known of each policy key
    requests    namespace, number, requests, checksum: requests that were applied lately, some in each row, the oldest first

A checkpoint is advanced in one transaction: its cells, its requests and its header. Commits are not synchronous: a power failure may undo
the last transactions, but none of them in part.

Damage is detected: a changed row by its checksum, a row that is missing or old by ``cells`` and ``sum`` of the namespace.
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
"""The format that is written, and the only one that is read."""
HEADER_BYTES = 100
"""The length of an SQLite file's header."""
MAGIC = b"SQLite format 3\0"
PAGE_BYTES = 4_096
"""The size of a page, which is also SQLite's default."""
_ID_AT, _VERSION_AT = 68, 60
_ROLLBACK, _LEAF = b"\x01\x01", b"\x0d"
"""What the header of a file without a write-ahead log says of its journal, and how a page of a table without further pages begins."""
_INDEX, _INDEX_BYTES = b"sqlite_autoindex_namespaces_1namespaces", 64
"""What SQLite itself writes on the first page behind the statement of our first table: the names of its index. ``_INDEX_BYTES`` bounds the
length of this, including the fields that locate it."""
_AT_A_TIME = 128
"""How many rows one statement writes: each statement releases the GIL once, and waits to get it back."""

_TABLES = (
    """CREATE TABLE namespaces (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, about TEXT NOT NULL, cells INTEGER NOT NULL,
    sum INTEGER NOT NULL, requests INTEGER NOT NULL, requests_sum INTEGER NOT NULL, checksum INTEGER NOT NULL)""",
    """CREATE TABLE cells (namespace INTEGER NOT NULL, key TEXT NOT NULL, kind INTEGER NOT NULL, cell BLOB NOT NULL,
    checksum INTEGER NOT NULL, PRIMARY KEY (namespace, key)) WITHOUT ROWID""",
    """CREATE TABLE requests (namespace INTEGER NOT NULL, number INTEGER NOT NULL, requests BLOB NOT NULL, checksum INTEGER NOT NULL,
    PRIMARY KEY (namespace, number)) WITHOUT ROWID""",
)


class Row(NamedTuple):
    """One key as it is stored."""

    name: str
    """The key as one text (``core/reading/cells.name_of``)."""
    kind: int
    """The form of the cell, as bits (``cells``)."""
    cell: bytes


class Counted(NamedTuple):
    """A number of rows, and the sum of their checksums."""

    rows: int = 0
    sum: int = 0

    def __add__(self, other: tuple[object, ...]) -> Counted:
        """Returns the sums of both."""
        rows, total = other
        assert isinstance(rows, int) and isinstance(total, int)
        return Counted(self.rows + rows, self.sum + total)

    def without(self, other: Counted) -> Counted:
        """Returns the difference of both."""
        return Counted(self.rows - other.rows, self.sum - other.sum)


class NamespaceRow(NamedTuple):
    """A namespace that has a checkpoint in the file."""

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
    ("synchronous = NORMAL", "cache_size = -8000"),
)


def connect(path: Path, kind: type[sqlite3.Connection] = sqlite3.Connection, *, read_only: bool = False) -> sqlite3.Connection:
    """Opens a connection to a file that exists (see ``sqlite_file.connect``)."""
    return _connect(path, FORM, kind, read_only=read_only)


def prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Creates the tables in an empty file, or checks that the file has the format known here (see ``sqlite_file.prepare``)."""
    _prepare(connection, path, FORM)


def check_tables(connection: sqlite3.Connection) -> None:
    """Compares the descriptions of the tables with the statements that made them.

    SQLite takes a damaged description for another table: "no such column" does not tell a damaged file from a disk that fails for now.

    Raises:
        Damaged: they differ.
    """
    found = connection.execute("SELECT CAST(sql AS BLOB) FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid").fetchall()
    if [sql for (sql,) in found] != [table.encode("ascii") for table in _TABLES]:
        raise Damaged("its tables are not those that were made")


def has_our_id(beginning: bytes) -> bool:
    """Whether a file that begins with these bytes is an SQLite file with our id, of whatever format (SQLite's file format, 1.3)."""
    return beginning.startswith(MAGIC) and beginning[_ID_AT : _ID_AT + 4] == APPLICATION_ID.to_bytes(4, "big")


def has_our_table(beginning: bytes) -> bool:
    """Whether a first page ends with our first table and its index, even if all before is damaged (SQLite's file format, 1.6, 2.6)."""
    found, table, rest = beginning[:PAGE_BYTES].rpartition(_TABLES[0].encode("ascii"))
    return len(found + table + rest) == PAGE_BYTES and len(rest) < _INDEX_BYTES and _INDEX in rest


def is_blank(beginning: bytes) -> bool:
    """Whether a file begins as an SQLite file that has no table and no id, and no write-ahead log (SQLite's file format, 1.3, 1.6)."""
    header, page = beginning[:HEADER_BYTES], beginning[HEADER_BYTES : HEADER_BYTES + 5]
    unnamed = header[_ID_AT : _ID_AT + 4] == header[_VERSION_AT : _VERSION_AT + 4] == bytes(4)
    return header.startswith(MAGIC) and header[18:20] == _ROLLBACK and unnamed and page[:1] == _LEAF and page[3:5] == bytes(2)


def namespace(connection: sqlite3.Connection, name: str) -> NamespaceRow | None:
    """Reads the row of a namespace; None: it has no checkpoint.

    Raises:
        Damaged: the row is not what was written.
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
    """Writes the row of a namespace: its checkpoint's header and counts."""
    values = (row.id, name, row.about, *row.cells, *row.requests)
    connection.execute("INSERT OR REPLACE INTO namespaces VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (*values, checksum(*values)))


def new_id(connection: sqlite3.Connection) -> int:
    """Returns an id that no namespace has, nor a row that was left behind."""
    (number,) = connection.execute(
        "SELECT max(coalesce((SELECT max(id) FROM namespaces), 0), coalesce((SELECT max(namespace) FROM cells), 0),"
        " coalesce((SELECT max(namespace) FROM requests), 0)) + 1"
    ).fetchone()
    return int(number)


def names(connection: sqlite3.Connection) -> list[str]:
    """Returns the names of all namespaces that have a checkpoint."""
    return [name for (name,) in connection.execute("SELECT name FROM namespaces ORDER BY id")]


def forget(connection: sqlite3.Connection, name: str) -> None:
    """Removes a namespace's checkpoint."""
    ids = [number for (number,) in connection.execute("SELECT id FROM namespaces WHERE name = ?", (name,))]
    for number in ids:
        for table, column in (("cells", "namespace"), ("requests", "namespace"), ("namespaces", "id")):
            connection.execute(f"DELETE FROM {table} WHERE {column} = ?", (number,))  # noqa: S608 (ours)


def cell_checksum(name: str, kind: int, cell: bytes) -> int:
    """Returns the checksum that is stored beside a cell; it covers the key's name, so a cell of another key does not match."""
    return crc32(cell, crc32(name.encode(), kind))


def put_cells(connection: sqlite3.Connection, namespace_id: int, cells: Sequence[Row]) -> Counted:
    """Writes the cells of some keys, each key once, in place of their former cells. Returns the change of the namespace's count."""
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
    """Removes the cells of some keys, as far as there are any. Returns the count of the removed rows."""
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
    """Yields names, kinds, cells and checksums, in the order of the names, ``size`` rows at a time."""
    cursor = connection.execute("SELECT key, kind, cell, checksum FROM cells WHERE namespace = ? ORDER BY key", (namespace_id,))
    while page := cursor.fetchmany(size):
        yield page


def add_requests(connection: sqlite3.Connection, namespace_id: int, number: int, requests: bytes) -> Counted:
    """Writes a row of requests. Returns its count."""
    sure = crc32(requests, number)
    connection.execute("INSERT INTO requests VALUES (?, ?, ?, ?)", (namespace_id, number, requests, sure))
    return Counted(1, sure)


def drop_requests(connection: sqlite3.Connection, namespace_id: int, before: int) -> Counted:
    """Removes the rows of requests below a number. Returns the count of the removed rows."""
    row = connection.execute(
        "SELECT count(*), coalesce(sum(checksum), 0) FROM requests WHERE namespace = ? AND number < ?", (namespace_id, before)
    ).fetchone()
    if row[0]:
        connection.execute("DELETE FROM requests WHERE namespace = ? AND number < ?", (namespace_id, before))
    return Counted(*row)


def requests(connection: sqlite3.Connection, namespace_id: int) -> list[tuple[int, bytes]]:
    """Returns the numbers and contents of the rows of requests, the oldest first.

    Raises:
        Damaged: a row is not what was written.
    """
    found = []
    rows = connection.execute("SELECT number, requests, checksum FROM requests WHERE namespace = ? ORDER BY number", (namespace_id,))
    for number, some, sure in rows:
        if crc32(some, number) != sure:
            raise Damaged(f"the requests {number} of a namespace are not what was written")
        found.append((number, some))
    return found
