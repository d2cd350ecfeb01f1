"""A namespace is loaded while the event loop goes on: its stored events are read and decoded page by page on another thread.

No other process writes the file, so each event must be there and be what was written. A missing or changed one is an error, because
without it documents older than acknowledged ones would be served.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ...core.policies.events import Placed, Position
from ...sqlite_file import Damaged
from .. import rows
from ..change_log import anchor_of
from . import file

PAGE = 64
"""Entries that are read, decoded and delivered at a time: they hold the interpreter's lock, and so the event loop, for some 2 ms."""


class Known(NamedTuple):
    """The position up to which the opener knows all events already (``change_log.Start``)."""

    position: Position
    anchor: str
    """The anchor of the entry at the position (``change_log.anchor_of``); "" if it is not known."""


class Reader:
    """Reads the entries of a namespace up to a row, as they were when reading began, even if a compaction deletes some meanwhile.

    The methods are called on one thread at a time, not the event loop's.

    Attributes:
        resumed: whether only the entries behind ``known`` are read; set by ``begin``.
    """

    def __init__(self, path: Path, codecs: file.Codecs, namespace_id: int, name: str, last: int, known: Known | None = None) -> None:
        """Prepares to read the rows up to ``last``; touches nothing yet.

        Args:
            path: the file.
            codecs: the codecs of its schemas.
            namespace_id: the namespace's id.
            name: the namespace's name.
            last: the last row that is read.
            known: the position up to which nothing is read, if the same entry stands there and nothing behind it was compacted away.
        """
        self._path = path
        self._codecs = codecs
        self._id = namespace_id
        self._name = name
        self._last = last
        self._behind = known
        self.resumed = False
        self._at = 0
        """The last row that was read."""
        self._floor = 0
        """The row up to which numbers may have gaps."""
        self._missing = 0
        """How many events up to the floor were not read yet."""
        self._connection: sqlite3.Connection | None = None
        self._pages: Iterator[Sequence[file.EventRow]] = iter(())

    def begin(self) -> None:
        """Opens a connection with a snapshot of the file: entries that are deleted from now on are still read.

        Raises:
            sqlite3.Error: the file can't be read, or is damaged.
        """
        self._connection = file.connect(self._path)
        file.begin_snapshot(self._connection)
        known = file.namespace(self._connection, self._id)
        self._floor, self._missing = known.floor, known.kept
        if self._behind is not None and self._stands_at(self._connection, self._behind, known.compacted):
            self.resumed, self._at, self._missing = True, rows.row_of(self._behind.position), 0
        self._pages = file.event_pages(self._connection, file.place_of(self._id, self._at + 1), file.place_of(self._id, self._last), PAGE)

    def next_page(self) -> list[Placed]:
        """Returns the next entries; an empty list at the end.

        Raises:
            sqlite3.Error: the file can't be read, or is damaged.
        """
        for page in self._pages:
            return [self._placed(row) for row in page]
        if max(self._at, self._floor) < self._last:
            raise Damaged(f"of {self._name} the events behind row {self._at} are missing")
        if self._missing:
            raise Damaged(f"of {self._name} {self._missing} events up to row {self._floor} are missing")
        return []

    def close(self) -> None:
        """Closes the connection; may be called before the end is reached."""
        if self._connection is not None:
            self._connection.close()

    def _stands_at(self, connection: sqlite3.Connection, known: Known, compacted: int) -> bool:
        """Whether ``known`` is a position of this log behind which no event was deleted, and the same event stands there.

        A position below the floor is possible: the last event of an earlier life, which ended at the floor. Nothing may stand between.
        """
        try:
            row = rows.row_of(known.position)
        except ValueError:
            return False
        if not (known.anchor and compacted <= row <= self._last):
            return False
        if row < self._floor and file.holds_event(connection, file.place_of(self._id, row + 1), file.place_of(self._id, self._floor)):
            return False
        found = file.event_at(connection, file.place_of(self._id, row))
        if found is None:
            return False
        file.check_event(found)
        _, published_at, schema, _, key, properties, payload = found
        with suppress(ValueError, KeyError):
            event, _ = self._codecs.get(schema).read(key, payload, file.properties_of(properties))
            return anchor_of(Placed(0, known.position, event, published_at)) == known.anchor
        return False

    def _placed(self, row: file.EventRow) -> Placed:
        """Checks and decodes a row."""
        file.check_event(row)
        place, published_at, schema, _, key, properties, payload = row
        number = file.row_at(place)
        if number > self._floor and number != max(self._at, self._floor) + 1:
            raise Damaged(f"of {self._name} an event is missing before row {number}")
        self._missing -= number <= self._floor
        self._at = number
        try:
            event, problem = self._codecs.get(schema).read(key, payload, file.properties_of(properties))
        except (ValueError, KeyError) as error:  # properties or a schema id that can't be read: no codec has looked at the row yet
            event, problem = None, repr(error)
        if event is None:
            raise Damaged(f"the event in row {number} of {self._name} can't be read: {problem}")
        return Placed(0, rows.position_of(number), event, published_at, "", problem)
