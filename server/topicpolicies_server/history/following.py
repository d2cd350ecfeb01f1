"""Follows the history as it grows: what comes after a place, event by event, across the logs that a namespace has had.

A place is a token: a log and a position in each of its partitions. Watches resume from the same places, so a reader that follows the
history may continue at another server, whose history has the same events at the same positions. Events of several partitions come in
recording order.
"""

from __future__ import annotations

import heapq
import sqlite3
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from ..core.policies.events import Position
from ..core.reading.watch import Token
from . import file
from .entries import Entry, Gap, GapReason
from .queries import MOST_BYTES

BEGINNING = Token("", ())
"""The place before every log."""


class UnknownLog(Exception):
    """Raised for a place in a log that this history does not know."""


class Recorded(NamedTuple):
    """An entry, and the place behind it."""

    entry: Entry
    token: Token


Piece: TypeAlias = Recorded | Gap


class Stretch(NamedTuple):
    """What follows a place, as far as one answer goes."""

    pieces: list[Piece]
    """Entries and gaps, in order. A gap comes before the first event behind it."""
    place: Token
    """The place behind the last piece, from which the next stretch begins."""
    more: bool
    """Whether the history already has more behind ``place``."""
    whole: bool
    """Whether it is certain that no event is missing between the two places."""


class Division(NamedTuple):
    """A place behind an entry, at which a copy of the history can be divided."""

    id: int
    """The entry's id."""
    token: Token
    full: bool
    """Whether there were as many events as were asked for; otherwise it is behind the last one."""


class _Stream(NamedTuple):
    id: int
    partition: int
    recorded: Position
    dropped: Position
    behind: Position
    """Where the reader stands."""


def stretch(connection: sqlite3.Connection, namespace: str, place: Token, most: int) -> Stretch:
    """Returns at most ``most`` events behind a place, of all topics of the namespace and all actors.

    Raises:
        UnknownLog: the history knows no such log of the namespace.
    """
    place, streams, successor = _log(connection, namespace, place)
    begins = not place.positions
    token = place
    holes = {each.partition: _holes(connection, namespace, each, begins=begins) for each in streams}
    whole = not any(holes.values())
    pieces: list[Piece] = []
    size, more = 0, False
    found = heapq.merge(*(_entries(connection, each, most) for each in streams), key=lambda found: found[0].id)
    for count, (entry, partition) in enumerate(found):
        if count == most or size >= MOST_BYTES:
            more = True
            break
        size += entry.size
        waiting = holes[partition]
        while waiting and entry.position > waiting[0][0]:
            pieces.append(waiting.pop(0)[1])
        token = token.at(partition, entry.position)
        pieces.append(Recorded(entry, token))
    if not more:
        for each in streams:
            pieces += [gap for _, gap in holes[each.partition]]
            token = token.at(each.partition, each.recorded)
        if successor:
            return Stretch(pieces, Token(successor, ()), more=True, whole=False)
    return Stretch(pieces, token, more, whole)


def divisions(connection: sqlite3.Connection, namespace: str, place: Token, every: int) -> Iterator[Division]:
    """Yields places behind a place, at most ``every`` events apart, and one behind the last event. It reads an index, and no events.

    Raises:
        UnknownLog: the history knows no such log of the namespace.
    """
    successor = "first"
    while successor:
        place, streams, successor = _log(connection, namespace, place)
        if streams:
            yield from _divisions(connection, streams, place, every)
        place = Token(successor, ())


def _log(connection: sqlite3.Connection, namespace: str, place: Token) -> tuple[Token, list[_Stream], str]:
    """Returns the place (for that before every log, the first log's beginning), the streams of its log, and the log after it or ""."""
    known = next(file.rows(connection, "namespaces", "WHERE name = ?", (namespace,)), None)
    found = list(file.rows(connection, "streams", "WHERE namespace = ? ORDER BY id", (known[0],))) if known is not None else []
    logs = [*dict.fromkeys(row[2] for row in found), ""]
    if not place.log:
        place = Token(logs[0], ())
    if place.log not in logs:
        raise UnknownLog(f"the history has no such log of {namespace}")
    streams = [
        _Stream(number, partition, position, dropped, place.positions[partition] if partition < len(place.positions) else "")
        for number, _, log, partition, position, _, dropped in found
        if log == place.log
    ]
    return place, streams, logs[logs.index(place.log) + 1] if streams else ""


_BEHIND = "stream = ? AND position > ? ORDER BY position"


def _entries(connection: sqlite3.Connection, stream: _Stream, most: int) -> Iterator[tuple[Entry, int]]:
    """Yields the entries of a stream behind the reader, each with the partition."""

    def fits(entry: Entry) -> bool:
        return entry.stream == stream.id and entry.position > stream.behind

    for entry in file.entries(connection, "by_position", f"{_BEHIND} LIMIT ?", (stream.id, stream.behind, most + 1), fits):
        yield entry, stream.partition


def _divisions(connection: sqlite3.Connection, streams: list[_Stream], token: Token, every: int) -> Iterator[Division]:
    step = max(1, every // len(streams))
    behind = {each.id: each.behind for each in streams}
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
        yield Division(number, token, full=True)
    left = [(stream, found) for stream in streams if (found := last[stream.id]) is not None and found[1] > behind[stream.id]]
    for stream, (_, position) in left:
        token = token.at(stream.partition, position)
    if left:
        yield Division(max(number for _, (number, _) in left), token, full=False)


def _one(connection: sqlite3.Connection, query: str, *values: int | str) -> tuple[int, Position] | None:
    found: tuple[int, Position] | None = connection.execute(query, values).fetchone()
    return found


_IDS = f"SELECT id, position FROM entries INDEXED BY by_position WHERE {_BEHIND}"  # noqa: S608 (only our names)
_LAST = f"{_IDS} DESC LIMIT 1"
_AHEAD = f"{_IDS} LIMIT 1 OFFSET ?"
_UNTIL = f"SELECT id, position FROM ({_IDS} LIMIT ?) WHERE id <= ? ORDER BY position DESC LIMIT 1"  # noqa: S608 (only our names)


def _holes(connection: sqlite3.Connection, namespace: str, stream: _Stream, *, begins: bool) -> list[tuple[Position, Gap]]:
    """Returns the gaps behind the reader in a stream, each with the position up to which events may be missing, in order.

    Args:
        connection: a connection to the file.
        namespace: the namespace.
        stream: the stream.
        begins: whether the reader is at the log's beginning, and gets the gap before it too.
    """
    rest = "WHERE stream = ? AND (position > ? OR (? AND position = '')) ORDER BY position, id"
    found = [
        (position, Gap(namespace, since, until, GapReason(reason)))
        for _, _, since, until, reason, _, position in file.rows(connection, "gaps", rest, (stream.id, stream.behind, begins))
    ]
    if stream.behind < stream.dropped:
        (until,) = connection.execute("SELECT trimmed_until FROM namespaces WHERE name = ?", (namespace,)).fetchone()
        found.insert(0, (stream.dropped, Gap(namespace, None, until, GapReason.TRIMMED)))
        found.sort(key=lambda hole: hole[0])
    return found
