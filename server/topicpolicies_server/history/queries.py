"""The queries of the history. Each reads one index, from where the page begins to where it ends."""

from __future__ import annotations

import heapq
import sqlite3
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ..core.names import PolicyKey, Scope
from ..core.policies.events import Position
from . import file
from .entries import Entry, EntryPlace, Gap, GapReason

LATEST = 2**62
"""Later than every time, in milliseconds since 1970."""
MOST_GAPS = 100
"""The most gaps that an answer lists."""
MOST_BYTES = 1 << 20
"""A page or stretch ends with the entry that makes it exceed this size, so that every client can receive it."""
_UNREADABLE_SCOPE = 0


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
    found = [_entries(connection, namespace[0], scope, query) for scope in scopes]
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


def _entries(connection: sqlite3.Connection, namespace: int, scope: int, query: Query) -> Iterator[Entry]:
    """Yields the wanted entries of one scope, in order."""
    index = "by_topic" if query.topic else "by_namespace"
    start, end = query.start, query.end
    if query.after is not None:
        start, end = (start, min(end, query.after.at + 1)) if query.newest_first else (max(start, query.after.at), end)
    rest = f"{'topic' if query.topic else 'namespace'} = ? AND scope = ? AND at >= ? AND at < ?"
    values: list[int | str] = [query.topic or namespace, scope, start, end]
    if query.actor is not None:
        index, rest = f"{index}_and_actor", f"{rest} AND actor = ?"
        values.append(query.actor)
    if query.after is not None:
        rest += f" AND (at, id) {'<' if query.newest_first else '>'} (?, ?)"
        values += query.after
    order = "DESC" if query.newest_first else "ASC"

    def fits(entry: Entry) -> bool:
        wanted = entry.scope == scope and start <= entry.at < end and query.actor in (None, entry.actor)
        return wanted and (not query.topic or entry.topic == query.topic)

    return file.entries(connection, index, f"{rest} ORDER BY at {order}, id {order} LIMIT ?", (*values, query.most + 1), fits)


def around(connection: sqlite3.Connection, namespace: str, key: PolicyKey, at: int) -> tuple[Entry | None, Entry | None, list[Gap]]:
    """Returns what decides which document there was at a time (``as_of.of_time``).

    Returns:
        The last entry of the policy key at that time or before it, the first one after it, and the gaps: the newest ones between the two,
        and the newest one that was over by then.
    """
    last = _one(connection, "by_topic", key, "at <= ? ORDER BY at DESC, id DESC", at, lambda entry: entry.at <= at)
    first = _one(connection, "by_topic", key, "at > ? ORDER BY at, id", at, lambda entry: entry.at > at)
    start, end = at if last is None else last.at, LATEST if first is None else first.at
    return last, first, _gaps(connection, namespace, start, end, over_by=at)


def of_version(connection: sqlite3.Connection, key: PolicyKey, version: Position) -> Entry | None:
    """Returns an entry at which a policy key had a version; None: there is none."""
    return _one(connection, "by_version", key, "version = ? ORDER BY id", version, lambda entry: entry.version == version)


def _one(
    connection: sqlite3.Connection, index: str, key: PolicyKey, rest: str, value: int | str, fits: Callable[[Entry], bool]
) -> Entry | None:
    """Returns the first entry of a policy key that an index has; None: there is none."""
    topic, scope = key.topic, int(key.scope)
    condition = f"topic = ? AND scope = ? AND {rest} LIMIT 1"
    found = file.entries(
        connection, index, condition, (topic, scope, value), lambda entry: (entry.topic, entry.scope) == (topic, scope) and fits(entry)
    )
    return next(found, None)


def _gaps(connection: sqlite3.Connection, namespace: str, start: int, end: int, *, over_by: int | None = None) -> list[Gap]:
    """Returns the newest gaps of a namespace that overlap a time, newest first, then what was trimmed.

    Args:
        connection: a connection to the file.
        namespace: the namespace.
        start: the beginning of the time.
        end: its end, not included.
        over_by: also the newest gap that was over by then; None: no other.
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
