"""Follows the history as it grows: what comes after a place, event by event, across the logs that a namespace has had.

A place is a log and a position in each of its partitions. Watches resume from the same places, so a reader that follows the history may
continue at another server, whose history has the same events at the same positions. Events of several partitions come in recording order.
"""

from __future__ import annotations

import heapq
import sqlite3
from collections.abc import Iterator
from operator import itemgetter
from typing import NamedTuple, TypeAlias

from ..core.policies.events import Position
from ..core.reading.watch import Token
from ..sqlite_file import Damaged
from .entries import Gap, GapReason
from .file import sealed
from .queries import COLUMNS, MOST_BYTES, Entry, found


class LogPlace(NamedTuple):
    """A place in a log: the events that a reader has had."""

    log: str
    """The log's identity; "": before every log."""
    positions: tuple[Position, ...]
    """The position by partition; "": before the first event."""


class UnknownLog(Exception):
    """Raised for a place in a log that this history does not know."""


class Recorded(NamedTuple):
    """An entry, and the partition in which its event stands."""

    entry: Entry
    partition: int

    @property
    def id(self) -> int:
        """The entry's number in the record."""
        return self.entry.id

    @property
    def position(self) -> Position:
        """The event's position in its partition."""
        return self.entry.position


Piece: TypeAlias = Recorded | Gap


class Stretch(NamedTuple):
    """What follows a place, as far as one answer goes."""

    pieces: list[Piece]
    """Entries and gaps, in order. A gap comes before the first event behind it."""
    place: LogPlace
    """The place behind the last piece, from which the next stretch begins."""
    more: bool
    """Whether the history already has more behind ``place``."""
    whole: bool
    """Whether it is certain that no event is missing between the two places."""
    log: str = ""
    """The identity of the log that the pieces belong to; "": there is no log yet."""


class Mark(NamedTuple):
    """A place behind an entry, at which a copy of the history can be divided."""

    id: int
    """The entry's number in the record."""
    token: Token
    full: bool
    """Whether there were as many events as were asked for; otherwise it is behind the last one."""


class _StreamRow(NamedTuple):
    id: int
    log: str
    partition: int
    position: Position
    dropped: Position


class _Hole(NamedTuple):
    position: Position
    gap: Gap


def with_tokens(stretch: Stretch, before: LogPlace) -> Iterator[tuple[Piece, Token]]:
    """Yields the pieces of a stretch that follows a place, each with the token behind it; a gap has that of what came before."""
    token = Token(stretch.log, before.positions if stretch.log == before.log else ())
    for piece in stretch.pieces:
        if not isinstance(piece, Gap):
            token = token.at(piece.partition, piece.position)
        yield piece, token


def stretch(connection: sqlite3.Connection, namespace: str, place: LogPlace, most: int) -> Stretch:
    """Returns at most ``most`` events behind a place, of all topics of the namespace and all actors.

    Raises:
        UnknownLog: the history knows no such log of the namespace.
    """
    logs, place = _logs(connection, namespace, place)
    if not place.log:
        return Stretch([], place, more=False, whole=True)
    return _of_log(connection, namespace, logs[place.log], _successor(list(logs), place.log), place, most)


def marks(connection: sqlite3.Connection, namespace: str, place: LogPlace, every: int) -> Iterator[Mark]:
    """Yields marks behind a place, at most ``every`` events apart, and one behind the last event. It reads an index, and no events.

    Raises:
        UnknownLog: the history knows no such log of the namespace.
    """
    logs, place = _logs(connection, namespace, place)
    while place.log:
        yield from _marks(connection, logs[place.log], place, every)
        place = LogPlace(_successor(list(logs), place.log), ())


def _logs(connection: sqlite3.Connection, namespace: str, place: LogPlace) -> tuple[dict[str, list[_StreamRow]], LogPlace]:
    """Returns the streams of a namespace by log, in order, and the place: the first log's beginning for that before every log."""
    known = sealed(connection, "namespaces", "WHERE name = ?", (namespace,))
    rows = sealed(connection, "streams", "WHERE namespace = ? ORDER BY id", (known[0][0],)) if known else []
    logs: dict[str, list[_StreamRow]] = {}
    for number, _, log, partition, position, _, dropped in rows:
        logs.setdefault(log, []).append(_StreamRow(number, log, partition, position, dropped))
    if not place.log and logs:
        place = LogPlace(next(iter(logs)), ())
    if place.log and place.log not in logs:
        raise UnknownLog(f"the history has no such log of {namespace}")
    return logs, place


def _successor(logs: list[str], log: str) -> str:
    following = logs[logs.index(log) + 1 :]
    return following[0] if following else ""


def _of_log(
    connection: sqlite3.Connection,
    namespace: str,
    streams: list[_StreamRow],
    successor: str,
    place: LogPlace,
    most: int,
) -> Stretch:
    here = {stream.partition: _position(place, stream.partition) for stream in streams}
    begins = not place.positions
    holes = {stream.id: _holes(connection, namespace, stream, here[stream.partition], begins=begins) for stream in streams}
    whole = not any(holes.values())
    walks = [_walk(connection, stream, here[stream.partition], most) for stream in streams]
    pieces: list[Piece] = []
    by_partition = {stream.partition: stream for stream in streams}
    size, more = 0, False
    for count, (_, bytes_, position, piece) in enumerate(heapq.merge(*walks, key=itemgetter(0))):
        if count == most or size >= MOST_BYTES:
            more = True
            break
        size += bytes_
        waiting = holes[by_partition[piece.partition].id]
        while waiting and position > waiting[0].position:
            pieces.append(waiting.pop(0).gap)
        pieces.append(piece)
        here[piece.partition] = position
    if not more:
        for stream in streams:
            pieces += [hole.gap for hole in holes[stream.id]]
            here[stream.partition] = max(here[stream.partition], stream.position)
        if successor:
            return Stretch(pieces, LogPlace(successor, ()), more=True, whole=False, log=place.log)
    return Stretch(pieces, LogPlace(place.log, _positions(place, here)), more, whole, place.log)


def _position(place: LogPlace, partition: int) -> Position:
    return place.positions[partition] if partition < len(place.positions) else ""


def _positions(place: LogPlace, here: dict[int, Position]) -> tuple[Position, ...]:
    count = max([len(place.positions), *(partition + 1 for partition in here)])
    return tuple(here.get(partition, _position(place, partition)) for partition in range(count))


def _walk(connection: sqlite3.Connection, stream: _StreamRow, behind: Position, most: int) -> Iterator[tuple[int, int, Position, Recorded]]:
    """Yields the entries of a stream behind a position: the id, the size, the position and the entry."""
    for row in connection.execute(f"SELECT {COLUMNS} {_BEHIND} LIMIT ?", (stream.id, behind, most + 1)):
        entry = found(row, lambda entry: entry.stream == stream.id and entry.position > behind)
        yield entry.id, entry.size, entry.position, Recorded(entry, stream.partition)


def _marks(connection: sqlite3.Connection, streams: list[_StreamRow], place: LogPlace, every: int) -> Iterator[Mark]:
    token, step = Token(place.log, place.positions), max(1, every // len(streams))
    behind = {stream.id: _position(place, stream.partition) for stream in streams}
    last = {each.id: _one(connection, _LAST, each.id, behind[each.id]) for each in streams}
    ends = [found[0] for found in last.values() if found is not None]
    while ends and step <= max(ends):  # ids are counted through all namespaces, so that no stream has more entries than that
        ahead = [_one(connection, _AHEAD, each.id, behind[each.id], step - 1) for each in streams]
        if not any(ahead):
            break
        number = min(found[0] for found in ahead if found is not None)
        for stream in streams:
            found = _one(connection, _UNTIL, stream.id, behind[stream.id], step, number)
            if found is not None:
                behind[stream.id] = found[1]
                token = token.at(stream.partition, found[1])
        yield Mark(number, token, full=True)
    left = [(stream, found) for stream in streams if (found := last[stream.id]) is not None and found[1] > behind[stream.id]]
    for stream, (_, position) in left:
        token = token.at(stream.partition, position)
    if left:
        yield Mark(max(number for _, (number, _) in left), token, full=False)


def _one(connection: sqlite3.Connection, query: str, *values: int | str) -> tuple[int, Position] | None:
    found: tuple[int, Position] | None = connection.execute(query, values).fetchone()
    return found


_BEHIND = "FROM entries INDEXED BY by_position WHERE stream = ? AND position > ? ORDER BY position"
_LAST = f"SELECT id, position {_BEHIND} DESC LIMIT 1"
_AHEAD = f"SELECT id, position {_BEHIND} LIMIT 1 OFFSET ?"
_UNTIL = f"SELECT id, position FROM (SELECT id, position {_BEHIND} LIMIT ?) WHERE id <= ? ORDER BY position DESC LIMIT 1"  # noqa: S608 (ours)


def _holes(connection: sqlite3.Connection, namespace: str, stream: _StreamRow, behind: Position, *, begins: bool) -> list[_Hole]:
    """Returns the holes behind a position, in order. ``begins``: the reader is at the log's beginning, and gets the hole before it too."""
    rows = sealed(
        connection,
        "holes",
        "WHERE stream = ? AND (position > ? OR (? AND position = '')) ORDER BY position, gap",
        (stream.id, behind, begins),
    )
    found = [_Hole(position, _gap(connection, namespace, gap)) for _, _, position, gap in rows]
    if behind < stream.dropped:
        (until,) = connection.execute("SELECT trimmed_until FROM namespaces WHERE name = ?", (namespace,)).fetchone()
        found.insert(0, _Hole(stream.dropped, Gap(namespace, None, until, GapReason.TRIMMED)))
        found.sort(key=lambda hole: hole.position)
    return found


def _gap(connection: sqlite3.Connection, namespace: str, number: int) -> Gap:
    found = sealed(connection, "gaps", "WHERE id = ?", (number,))
    if not found:
        raise Damaged("one of its gaps is missing")
    ((_, _, since, until, reason),) = found
    return Gap(namespace, since, until, GapReason(reason))
