"""The queries of the history. Each reads one index, from where its answer begins to where it ends.

A listing has the entries of a topic or a namespace by their times. A copy has those of a namespace as they were recorded, from a place on,
across the logs that the namespace has had. A place is a token: a log and a position in each of its partitions. Watches resume from the same
places, so a reader may go on at another server, whose history has the same events at the same positions.

A document of a past time is derived from the key's last event before, the first one after, the present head, and the gaps. It is returned
only if it is certain. If an event may be missing between what is known and the requested time, an error says so.
"""

from __future__ import annotations

import heapq
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from ..core.errors import Kind, PolicyError
from ..core.names import PolicyKey, Scope
from ..core.policies import secrets
from ..core.policies.events import ABSENT, Position
from ..core.reading.cell import Head
from ..core.reading.tokens import Token
from ..core.reasons import Reason
from . import file
from .entries import Entry, EntryPlace, Gap, GapReason
from .file import Condition

LATEST = 2**62
"""Later than every time, in milliseconds since 1970."""
MOST_GAPS = 100
"""The most gaps that an answer lists."""
MOST_BYTES = 1 << 20
"""A page or stretch ends with the entry that makes it exceed this size, so that every client can receive it."""
_UNREADABLE_SCOPE = 0
_MISSING = "an event is missing between those that it has"


class Query(NamedTuple):
    """A query: which entries are wanted."""

    namespace: str
    topic: str = ""
    """The topic's full name; "": all topics of the namespace."""
    scopes: frozenset[Scope] = frozenset(Scope)
    start: int = 0
    """The earliest time, in milliseconds since 1970, included."""
    end: int = LATEST
    """The latest time, not included."""
    actor: str | None = None
    """The actor whose entries are wanted; None: those of all actors."""
    newest_first: bool = True
    after: EntryPlace | None = None
    """The place of the last entry of the page before; None: this is the first page."""
    most: int = 100


class Page(NamedTuple):
    """The answer to a query."""

    entries: list[Entry]
    more: bool
    gaps: list[Gap]


def page(connection: sqlite3.Connection, query: Query) -> Page:
    """Returns the wanted entries, at most ``most``; whether there are more; and the gaps in the wanted time."""
    namespace = connection.execute("SELECT id FROM namespaces WHERE name = ?", (query.namespace,)).fetchone()
    if namespace is None:
        return Page([], False, [])
    scopes = sorted(int(scope) for scope in query.scopes)
    if len(scopes) == len(Scope) and not query.topic:
        scopes.insert(0, _UNREADABLE_SCOPE)
    found = [_wanted(connection, namespace[0], scope, query) for scope in scopes]
    entries: list[Entry] = []
    size, more = 0, False
    for entry in heapq.merge(*found, key=lambda entry: entry.place, reverse=query.newest_first):
        if len(entries) == query.most or size >= MOST_BYTES:
            more = True
            break
        entries.append(entry)
        size += entry.size
    gaps = [gap for gap in _gaps(connection, query.namespace, query.start, query.end) if gap.until >= query.start]
    return Page(entries, more, gaps)


def _wanted(connection: sqlite3.Connection, namespace: int, scope: int, query: Query) -> Iterator[Entry]:
    index = "by_topic" if query.topic else "by_namespace"
    of = ("topic", "=", query.topic) if query.topic else ("namespace", "=", namespace)
    start, end, order = query.start, query.end, "DESC" if query.newest_first else "ASC"
    rest, values = f"ORDER BY at {order}, id {order} LIMIT ?", [query.most + 1]
    if query.after is not None:
        start, end = (start, min(end, query.after.at + 1)) if query.newest_first else (max(start, query.after.at), end)
        rest, values = f"AND (at, id) {'<' if query.newest_first else '>'} (?, ?) {rest}", [*query.after, *values]
    conditions: list[Condition] = [of, ("scope", "=", scope), ("at", ">=", start), ("at", "<", end)]
    if query.actor is not None:
        index = f"{index}_and_actor"
        conditions.append(("actor", "=", query.actor))
    return file.entries(connection, index, conditions, rest, values)


def around(connection: sqlite3.Connection, namespace: str, key: PolicyKey, at: int) -> tuple[Entry | None, Entry | None, list[Gap]]:
    """Returns what decides which document there was at a time (``document_at``).

    That is the last entry of the policy key at that time or before it, the first one after it, and the gaps: the newest ones between the
    two, and the newest one that was over by then.
    """
    last = _one(connection, "by_topic", key, ("at", "<=", at), "ORDER BY at DESC, id DESC")
    first = _one(connection, "by_topic", key, ("at", ">", at), "ORDER BY at, id")
    start, end = at if last is None else last.at, LATEST if first is None else first.at
    return last, first, _gaps(connection, namespace, start, end, over_by=at)


def entry_of_version(connection: sqlite3.Connection, key: PolicyKey, version: Position) -> Entry | None:
    """Returns an entry at which a policy key had a version; None: there is none."""
    return _one(connection, "by_version", key, ("version", "=", version), "ORDER BY id")


def _one(connection: sqlite3.Connection, index: str, key: PolicyKey, last: Condition, order: str) -> Entry | None:
    conditions: list[Condition] = [("topic", "=", key.topic), ("scope", "=", int(key.scope)), last]
    return next(file.entries(connection, index, conditions, f"{order} LIMIT 1"), None)


def _gaps(connection: sqlite3.Connection, namespace: str, start: int, end: int, *, over_by: int | None = None) -> list[Gap]:
    """Returns the newest gaps of a namespace that overlap a time, newest first, then what was trimmed.

    ``end`` is not included. ``over_by``: also the newest gap that was over by then; None: no other.
    """
    known = next(file.rows(connection, "namespaces", "WHERE name = ?", (namespace,)), None)
    if known is None:
        return []
    number, _, _, trimmed_until = known
    rest = "WHERE namespace = ? AND until >= ? AND (since IS NULL OR since < ?) ORDER BY until DESC LIMIT ?"
    found = list(file.rows(connection, "gaps", rest, (number, start, end, MOST_GAPS)))
    if over_by is not None:
        found += file.rows(connection, "gaps", "WHERE namespace = ? AND until <= ? ORDER BY until DESC LIMIT 1", (number, over_by))
    gaps = [Gap(namespace, since, until, GapReason(reason)) for _, _, since, until, reason, *_ in found]
    if trimmed_until:
        gaps.append(Gap(namespace, None, trimmed_until, GapReason.TRIMMED))
    return list(dict.fromkeys(gaps))  # a gap in several streams has several rows


# --- documents of the past -------------------------------------------------------------------------------------------


class Past(NamedTuple):
    """A document as it was at a time or version."""

    document: bytes | None
    """The document's Protobuf form, without secrets; None: there was no document."""
    version: Position


def document_at(at: int, now: int, last: Entry | None, first: Entry | None, head: Head | None, gaps: Sequence[Gap]) -> Past:
    """Returns the document at a time.

    ``last``: the key's last entry at that time or before; ``first``: its first one after; ``head``: its present head (None: the log knows
    no event of the key); ``gaps``: the times in which events may be missing, newest first. Times are milliseconds since 1970.

    Raises:
        PolicyError: OUT_OF_RANGE, reason ``NOT_IN_HISTORY``: the document is not certain; the metadata names the gap, if there is one.
    """
    now = max(now, at + 1)
    # Versions prove that no event stands between two documents. Between absences there may be any number, which compaction forgets.
    if first is not None and not first.timed:
        raise _uncertain(at, None, "the clock was set back since, so the time of the next event is not exact")
    if last is not None:
        if first is not None and first.before_known:
            proven = last.version == first.previous or (last.after is None and first.before is None)
            refuted = not proven
        else:
            proven = first is None and head is not None and head.version == last.version
            refuted = (
                first is None and head is not None and head.version > last.version and not (head.document is None and last.after is None)
            )
        gap = None if proven else _between(gaps, last.at, first.at if first is not None else now)
        if gap is None and not refuted:
            return Past(last.after, last.version)
        raise _uncertain(at, gap, _MISSING if gap is None else "")
    if first is not None and first.before_known:
        gap = _between(gaps, at, first.at)
        # The event that made the document before ``first`` has no entry, so it must have been in a gap, which must have ended by ``at``.
        # An absence of which the log knew nothing (ABSENT) needs no such event; but a key that was deleted in a gap may be forgotten.
        if gap is None and (first.previous == ABSENT or any(each.until <= at for each in gaps)):
            return Past(first.before, first.previous)
        raise _uncertain(at, gap, _MISSING if gap is None else "")
    if first is None and head is not None and _published_by(head, at):
        return Past(secrets.wire(head.document) if head.document is not None else None, head.version)
    gap = _between(gaps, at, first.at if first is not None else now)
    if gap is None and first is None and (head is None or head.document is None):
        return Past(None, ABSENT)
    raise _uncertain(at, gap)


def document_of_version(entry: Entry | None, version: Position, head: Head | None) -> Past:
    """Returns the document that has a version.

    Raises:
        PolicyError: OUT_OF_RANGE, reason ``NOT_IN_HISTORY``: neither the history nor the log knows the version.
    """
    if entry is not None:
        return Past(entry.after, version)
    if head is not None and head.version == version:
        return Past(secrets.wire(head.document) if head.document is not None else None, version)
    if version == ABSENT:
        return Past(None, ABSENT)
    raise PolicyError(
        Kind.OUT_OF_RANGE,
        Reason.NOT_IN_HISTORY,
        "The history has no such version of this topic and scope: list the history to see its versions.",
        metadata={"version": version},
    )


def _published_by(head: Head, at: int) -> bool:
    placed = head.placed
    return placed is not None and placed.published_at <= at and not (placed.event is not None and placed.event.replicated)


def _between(gaps: Sequence[Gap], start: int, end: int) -> Gap | None:
    return next((gap for gap in gaps if gap.until > start and (gap.since is None or gap.since < end)), None)


def _uncertain(at: int, gap: Gap | None, why: str = "") -> PolicyError:
    metadata = {"as_of_ms": str(at)}
    why = why or "it begins later"
    if gap is not None:
        metadata |= {"gap_reason": gap.reason.name, "gap_end_ms": str(gap.until)}
        if gap.since is not None:
            metadata["gap_start_ms"] = str(gap.since)
        why = f"it may miss events ({gap.reason.name}) there"
    return PolicyError(
        Kind.OUT_OF_RANGE,
        Reason.NOT_IN_HISTORY,
        f"The history can't tell for certain what was there at that time: {why}. List the history to see what it has.",
        metadata=metadata,
    )


# --- copies -----------------------------------------------------------------------------------------------------------

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
    token: Token
    """The place behind the last piece, from which the next stretch begins."""
    more: bool
    """Whether the history already has more behind ``token``."""
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
    found = heapq.merge(*(_behind(connection, each, most) for each in streams), key=lambda found: found[0].id)
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
    """Yields a place behind every so many events behind a place, and one behind the last event. It reads an index, and no events.

    Raises:
        UnknownLog: the history knows no such log of the namespace.
    """
    successor = "first"
    while successor:
        token, streams, successor = _log(connection, namespace, place)
        behind: dict[int, Position] = {}
        number = count = 0
        for number, position, partition in heapq.merge(*(_ids(connection, each) for each in streams)):
            behind[partition] = position
            count += 1
            if count % every == 0:
                yield Division(number, _at(token, behind), full=True)
        if count % every:
            yield Division(number, _at(token, behind), full=False)
        place = Token(successor, ())


def _at(token: Token, positions: Mapping[int, Position]) -> Token:
    for partition, position in positions.items():
        token = token.at(partition, position)
    return token


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


def _behind(connection: sqlite3.Connection, stream: _Stream, most: int) -> Iterator[tuple[Entry, int]]:
    conditions = ("stream", "=", stream.id), ("position", ">", stream.behind)
    found = file.entries(connection, "by_position", conditions, "ORDER BY position LIMIT ?", (most + 1,))
    return ((entry, stream.partition) for entry in found)


def _ids(connection: sqlite3.Connection, stream: _Stream) -> Iterator[tuple[int, Position, int]]:
    ids = "SELECT id, position FROM entries INDEXED BY by_position WHERE stream = ? AND position > ? ORDER BY position"
    return ((number, position, stream.partition) for number, position in connection.execute(ids, (stream.id, stream.behind)))


def _holes(connection: sqlite3.Connection, namespace: str, stream: _Stream, *, begins: bool) -> list[tuple[Position, Gap]]:
    """Returns the gaps behind the reader in a stream, each with the position up to which events may be missing, in order.

    ``begins``: whether the reader is at the log's beginning, and gets the gap before it too.
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
