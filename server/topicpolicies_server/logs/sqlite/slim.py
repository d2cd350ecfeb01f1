"""Rows that leave out what an older row of their key tells.

Every event of a key carries the requests before it (``tp-seen``, see ``logs/stamps``), because compaction erases their events. In a file
that one process writes and compacts, they need not stand in every row. A row is one of these:

=========  =====================================================================  ====================================================
row        what it holds                                                          it becomes
=========  =====================================================================  ====================================================
complete   all requests that its event carries                                    nothing else
slim       ``tp-since``, "row,first,count": so many of the requests that the row  complete, if it outlives that row: a compaction
           before it of its key carries, from one on; and in ``tp-seen`` those    writes it anew before it deletes the other one;
           that come behind them                                                  forgotten, if it is to be deleted itself
forgotten  the same, and the row that it leans on is gone; it stands where        deleted
           compactions have been, and a complete row of its key behind it
=========  =====================================================================  ====================================================

Whoever reads the file gets the events as they were appended: slim rows are completed, and forgotten ones passed over, as if they were
deleted already. A row leans only on one that the same process wrote a short while ago, on none without a value (a compaction deletes those
that nothing follows), and over at most ``DEPTH`` others on a complete one: so what any row leans on is found by its number.
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
"""The property of a slim row."""
KEYS = 4_096
"""How many keys' last rows are known to whoever writes, or reads; of other keys the next row is complete, or one is looked up."""
DEPTH = 32
"""How many rows lead from a slim one to the complete one at most."""
_COLUMNS = 4
_MARK = f'"{SINCE}"'


class _Written(NamedTuple):
    """The last row of a key."""

    row: int
    remembered: Sequence[Remembered]
    """What its event carries."""
    depth: int
    """How many rows lead from it to a complete one."""


class Shortening:
    """What is known of the last rows that were written. Used on the writer's thread."""

    def __init__(self, keys: int = KEYS, depth: int = DEPTH) -> None:
        """Knows nothing."""
        self._keys = keys
        self._depth = depth
        self._last: OrderedDict[tuple[int, str], _Written] = OrderedDict()

    def properties(self, space: int, row: int, key: str, event: Event, text: str) -> str:
        """The properties of an event's row, as JSON.

        Args:
            space: the namespace's id.
            row: the row's number.
            key: the message's.
            event: the event.
            text: its properties without the requests that it carries.
        """
        last, place = self._last, (space, key)
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
        """Rows that were to be written are not there: the next ones are complete."""
        self._last.clear()


def _shared(known: Sequence[Remembered], remembered: Sequence[Remembered]) -> tuple[int, int]:
    """From which of the known requests on the others begin with them, and with how many."""
    try:
        first = known.index(remembered[0])
    except ValueError:
        return 0, 0
    count = len(known) - first
    if known[first:] == remembered[:count]:
        return first, count  # mostly so: one was added
    count = 1
    while remembered[count : count + 1] == known[first + count : first + count + 1]:
        count += 1
    return first, count


def is_slim(properties: str) -> bool:
    """Whether a row with these properties, as JSON, is slim."""
    return _MARK in properties


class Completing:
    """Gives the rows of a namespace what they leave out. Most quickly if they come in the order of the log."""

    def __init__(self, look: Callable[[int], events.EventRow | None], name: str, compacted: int, keys: int = KEYS) -> None:
        """Knows nothing yet.

        Args:
            look: gives the row of a number; None: there is none.
            name: the namespace's.
            compacted: up to where compactions may have deleted rows.
            keys: of how many keys the last row is kept.
        """
        self._look = look
        self._name = name
        self._compacted = compacted
        self._keys = keys
        self._last: OrderedDict[str, tuple[int, str]] = OrderedDict()

    def completed(self, row: int, key: str, properties: dict[str, str]) -> dict[str, str] | None:
        """The properties of a row with all that its event carries; None: the row is forgotten.

        Args:
            row: its number.
            key: the message's.
            properties: as they stand there; changed.

        Raises:
            sqlite3.Error: what it leans on can't be read, or is damaged.
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
        """What the event of a slim row carries; None: it is forgotten."""
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
                raise self._damaged(at, "leans on more than there is")
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
                raise self._damaged(row, f"leans on row {before}, which is missing")
            return None
        events.check(found)
        if found[4] != key:
            raise self._damaged(row, f"leans on row {before}, which is of another key")
        return strings(found[5])

    def _damaged(self, row: int, what: str) -> Damaged:
        return Damaged(f"the event in row {row} of {self._name} {what}")


def _part(seen: str, first: int, count: int) -> str | None:
    """So many requests of a text, from one on; None: it has not so many."""
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
    """A row that is to be written anew."""

    place: int
    former: int
    """Its checksum as it stands."""
    checksum: int
    properties: str


def replaced(connection: sqlite3.Connection, completing: Completing, places: Sequence[int]) -> list[Replaced]:
    """Slim rows as complete ones, but for those that are forgotten.

    Raises:
        sqlite3.Error: they can't be read, or are damaged.
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
    """Properties as they stand in a row: JSON. Their names are plain."""
    return "{" + ",".join([f'"{name}":{encode_basestring_ascii(value)}' for name, value in properties.items()]) + "}"


def strings(text: str) -> dict[str, str]:
    """Properties as they stand in a row.

    Raises:
        ValueError: they are not strings by name.
    """
    found = json.loads(text)
    if not isinstance(found, dict) or not all(type(value) is str for value in found.values()):
        raise ValueError("its properties are not strings by name")
    return found
