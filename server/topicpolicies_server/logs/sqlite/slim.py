"""Slim rows: rows that leave out the requests that an older row of their key holds already.

Every event of a key carries the requests before it (``tp-seen``, see ``logs/stamps``), because compaction erases their own events. In a
file that one process writes and compacts, those requests need not be stored in every row. A slim row *leans on* the row of its key before
it: it stores only a reference to that row, and the requests that came since. A row is one of these:

=========  =====================================================================  ====================================================
row        what it holds                                                          what becomes of it
=========  =====================================================================  ====================================================
complete   all requests that its event carries                                    it stays complete
slim       ``tp-since``, "row,first,count": the event carries ``count`` of the    complete, if it outlives the row that it leans on: a
           requests that the event in ``row`` carries, from number ``first`` on;  compaction rewrites it before it deletes that row;
           and, in ``tp-seen``, the requests that follow these                    forgotten, if the compaction will delete it too
forgotten  what a slim row holds, but the row that it leans on is deleted; a      deleted, by the same or a later compaction
           compaction has passed it, and a complete row of its key comes later
=========  =====================================================================  ====================================================

Readers of the file get the events as they were appended: slim rows are completed, and forgotten ones skipped, as if they were deleted
already. A row leans only on a row that the same process wrote a short while ago, never on a tombstone (a compaction deletes tombstones that
no event follows), and through at most ``DEPTH`` rows on a complete one. So the rows that any row leans on are found by their numbers.
"""

from __future__ import annotations

import json
import sqlite3
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from json.encoder import encode_basestring_ascii
from typing import NamedTuple

from ...core.policies.events import Event, Remembered
from ...sqlite_file import Damaged
from ..stamps import REMEMBERED, SEEN, seen_text
from . import events

SINCE = "tp-since"
"""The property that makes a row slim."""
KEYS = 4_096
"""How many keys' last rows a writer or reader remembers. For other keys the writer writes a complete row, and the reader looks rows up."""
DEPTH = 32
"""The most steps from a slim row, through the rows that it leans on, to a complete one."""
_COLUMNS = 4
_MARK = f'"{SINCE}"'


class _Written(NamedTuple):
    """The last row of a key that was written."""

    row: int
    remembered: Sequence[Remembered]
    """The requests that its event carries."""
    depth: int
    """How many steps lead from the row to a complete one; 0 if it is complete."""


class Shortening:
    """Makes rows slim where it can, by remembering the last rows that were written. Used on the writer's thread."""

    def __init__(self, keys: int = KEYS, depth: int = DEPTH) -> None:
        """Remembers no row yet.

        Args:
            keys: of how many keys the last row is remembered.
            depth: the most steps from a slim row to a complete one.
        """
        self._keys = keys
        self._depth = depth
        self._last: OrderedDict[tuple[int, str], _Written] = OrderedDict()

    def properties(self, namespace_id: int, row: int, key: str, event: Event, text: str) -> str:
        """Returns the properties of an event's row, as JSON, and remembers the row.

        Args:
            namespace_id: its id.
            row: the row's number.
            key: the message's key.
            event: the event.
            text: the event's properties as JSON, without the requests that it carries.
        """
        last, place = self._last, (namespace_id, key)
        if event.document is None:
            last.pop(place, None)
        remembered = event.stamp.remembered[-REMEMBERED:] if event.stamp is not None else ()
        before = last.get(place)
        first = count = depth = 0
        if before is not None and remembered and before.depth < self._depth:
            first, count = _shared(before.remembered, remembered)
        if count and before is not None:
            depth = before.depth + 1
            text = f'{text[:-1]},"{SINCE}":"{before.row},{first},{count}"}}'
        if event.document is not None:
            last[place] = _Written(row, remembered, depth)
            last.move_to_end(place)
            if len(last) > self._keys:
                last.popitem(last=False)
        if len(remembered) == count:
            return text
        return f'{text[:-1]},"{SEEN}":{encode_basestring_ascii(seen_text(remembered[count:]))}}}'

    def forget(self) -> None:
        """Forgets all rows, because the last group was not written: the next row of each key is complete."""
        self._last.clear()


def _shared(known: Sequence[Remembered], remembered: Sequence[Remembered]) -> tuple[int, int]:
    """Where in ``known`` the run of requests begins with which ``remembered`` begins, and its length; (0, 0) if there is none."""
    try:
        first = known.index(remembered[0])
    except ValueError:
        return 0, 0
    count = len(known) - first
    if known[first:] == remembered[:count]:
        return first, count  # the usual case: one request was added at the end
    count = 1
    while remembered[count : count + 1] == known[first + count : first + count + 1]:
        count += 1
    return first, count


def is_slim(properties: str) -> bool:
    """Whether a row with these properties (JSON) is slim."""
    return _MARK in properties


class Completing:
    """Completes the slim rows of a namespace. It is quickest for rows in the order of the log."""

    def __init__(self, look: Callable[[int], events.EventRow | None], name: str, compacted: int, keys: int = KEYS) -> None:
        """Remembers no row yet.

        Args:
            look: returns the row with a number; None if there is none.
            name: the namespace's name.
            compacted: the last row that a compaction may have deleted.
            keys: of how many keys the last row is remembered.
        """
        self._look = look
        self._name = name
        self._compacted = compacted
        self._keys = keys
        self._last: OrderedDict[str, tuple[int, str]] = OrderedDict()

    def completed(self, row: int, key: str, properties: dict[str, str]) -> dict[str, str] | None:
        """Returns the properties of a row with all requests that its event carries; None if the row is forgotten.

        Args:
            row: the row's number.
            key: the message's key.
            properties: the properties as they are stored; modified and returned.

        Raises:
            sqlite3.Error: a row that it leans on can't be read, or is damaged.
        """
        last = self._last
        seen = properties.get(SEEN, "")
        if SINCE in properties:
            begun = self._begun(row, key, properties)
            if begun is None:
                last.pop(key, None)
                return None
            del properties[SINCE]
            properties[SEEN] = seen = begun
        last[key] = row, seen
        last.move_to_end(key)
        if len(last) > self._keys:
            last.popitem(last=False)
        return properties

    def _begun(self, row: int, key: str, properties: Mapping[str, str]) -> str | None:
        """The text of the requests that a slim row's event carries; None if the row is forgotten."""
        slim: list[tuple[int, int, int, str | None]] = []
        at, told, seen = row, properties, None
        while seen is None:
            if SINCE not in told:
                seen = told.get(SEEN, "")
                break
            before, first, count = self._since(at, told)
            slim.append((at, first, count, told.get(SEEN)))
            at = before
            last = self._last.get(key)
            if last is not None and last[0] == at:
                seen = last[1]
            elif (known := self._known(at, key, row)) is None:
                return None
            else:
                told = known
        for at, first, count, added in reversed(slim):
            kept = _part(seen, first, count)
            if kept is None:
                raise self._damaged(at, "depends on more rows than there are")
            seen = kept if added is None else f"{kept},{added}"
        return seen

    def _since(self, row: int, properties: Mapping[str, str]) -> tuple[int, int, int]:
        try:
            before, first, count = map(int, properties[SINCE].split(","))
        except ValueError:
            raise self._damaged(row, f"has a {SINCE} that can't be read") from None
        if not 0 < before < row or first < 0 or count < 1:
            raise self._damaged(row, f"has a {SINCE} that can't be")
        return before, first, count

    def _known(self, before: int, key: str, row: int) -> dict[str, str] | None:
        found = self._look(before)
        if found is None:
            if row > self._compacted:
                raise self._damaged(row, f"depends on row {before}, which is missing")
            return None
        events.check(found)
        if found[4] != key:
            raise self._damaged(row, f"depends on row {before}, which has another key")
        return strings(found[5])

    def _damaged(self, row: int, what: str) -> Damaged:
        return Damaged(f"the event in row {row} of {self._name} {what}")


def _part(seen: str, first: int, count: int) -> str | None:
    """``count`` requests of the text ``seen``, from number ``first`` on; None if the text has fewer."""
    missing = seen.count(",") + 1 - _COLUMNS * (first + count)
    if missing < 0:
        return None
    if missing:
        return ",".join(seen.split(",")[_COLUMNS * first : _COLUMNS * (first + count)])
    begin = 0
    for _ in range(_COLUMNS * first):
        begin = seen.index(",", begin) + 1
    return seen[begin:]


class Replaced(NamedTuple):
    """A slim row and the complete one that replaces it."""

    place: int
    former: int
    """The checksum of the slim row."""
    checksum: int
    """The checksum of the complete row."""
    properties: str
    """The properties of the complete row (JSON)."""


def replaced(connection: sqlite3.Connection, completing: Completing, places: Sequence[int]) -> list[Replaced]:
    """Completes the slim rows in ``places``; leaves out those that are forgotten.

    Raises:
        sqlite3.Error: a row is missing, can't be read, or is damaged.
    """
    found = []
    for place in places:
        row = events.at(connection, place)
        if row is None:
            raise Damaged(f"the event in row {events.row_at(place)} of namespace {place >> events.ROW_BITS} is missing")
        events.check(row)
        _, published_at, schema, former, key, properties, payload = row
        whole = completing.completed(events.row_at(place), key, strings(properties))
        if whole is None:
            continue
        text = text_of(whole)
        found.append(Replaced(place, former, events.checksum_of(place, published_at, schema, key, text, payload), text))
    return found


def text_of(properties: Mapping[str, str]) -> str:
    """Encodes properties for a row, as JSON. Their names need no escaping."""
    return "{" + ",".join([f'"{name}":{encode_basestring_ascii(value)}' for name, value in properties.items()]) + "}"


def strings(text: str) -> dict[str, str]:
    """Decodes the properties of a row.

    Raises:
        ValueError: the text is not a JSON object of strings.
    """
    found = json.loads(text)
    if not isinstance(found, dict) or not all(type(value) is str for value in found.values()):
        raise ValueError("its properties are not strings by name")
    return found
