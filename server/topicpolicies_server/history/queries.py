"""The queries of the history. Each walks one index, from where the page begins to where it ends."""

from __future__ import annotations

import heapq
import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from ..core.names import PolicyKey, Scope
from ..core.policies.events import Position
from ..sqlite_file import Damaged
from .entries import AS_AFTER, BEFORE_KNOWN, UNTIMED, Gap, GapReason
from .file import COLUMNS as ROW
from .file import check_entry, sealed

LAST = (2**62, 2**62)
MOST_GAPS = 100
"""The most gaps that an answer lists."""
_UNREADABLE_SCOPE = 0
COLUMNS = f"checksum, id, {', '.join(ROW)}"
"""The columns that ``read`` makes an entry of."""


class EntryPlace(NamedTuple):
    """The place of an entry in the order of a history: its time in milliseconds since 1970, then its id."""

    at: int
    id: int


MOST_BYTES = 1 << 20
"""A page or stretch ends with the entry that makes it exceed this size, so that every client can receive it."""


class Query(NamedTuple):
    """A query: which entries are wanted."""

    namespace: str
    topic: str = ""
    """The topic's full name; "": all topics of the namespace."""
    scopes: frozenset[Scope] = frozenset(Scope)
    start: int = 0
    """The earliest time, in milliseconds since 1970, included."""
    end: int = LAST[0]
    """The latest time, not included."""
    actor: str | None = None
    """The actor whose entries are wanted; None: those of all actors."""
    newest_first: bool = True
    after: EntryPlace | None = None
    """The place of the last entry of the page before; None: this is the first page."""
    most: int = 100


_STORED = {"kept_before": "before", "changed_json": "changed", "clusters_json": "clusters", "own_document": "written"}
"""Columns that have another name than the field of ``Entry``."""


class Entry(NamedTuple):
    """One entry, as it is stored in the file; ``file`` explains the columns."""

    id: int
    topic: str
    scope: int
    at: int
    published_at: int
    kind: int
    outcome: int
    actor: str
    standing: int
    reason: str
    request_id: str
    mask: str
    producer: str
    version: Position
    previous: Position
    flags: int
    kept_before: bytes | None
    after: bytes | None
    changed_json: str
    problem: str
    position: Position
    stream: int
    principal: str = ""
    claimed: str = ""
    trace_parent: str = ""
    action: int = 0
    clusters_json: str = "[]"
    own_document: bytes | None = None

    @property
    def place(self) -> EntryPlace:
        """The entry's place in the order of the history."""
        return EntryPlace(self.at, self.id)

    @property
    def before_known(self) -> bool:
        """Whether the document before the event is known."""
        return bool(self.flags & BEFORE_KNOWN)

    @property
    def timed(self) -> bool:
        """Whether the event happened at ``at``; if not, only that it happened before then is known."""
        return not self.flags & UNTIMED

    @property
    def before(self) -> bytes | None:
        """The document before the event; None: there was none, or it is not known."""
        if not self.before_known:
            return None
        return self.kept_before if self.changed_json else self.after

    @property
    def written(self) -> bytes | None:
        """The document of the event itself; None: it has none."""
        return self.after if self.flags & AS_AFTER else self.own_document

    @property
    def clusters(self) -> list[str]:
        """The clusters that the event names."""
        found: list[str] = json.loads(self.clusters_json)
        return found

    @property
    def size(self) -> int:
        """The entry's size in an answer in bytes, by estimate."""
        texts = len(self.mask) + len(self.changed_json) + len(self.reason) + len(self.actor) + len(self.problem)
        return len(self.before or b"") + len(self.after or b"") + len(self.written or b"") + 4 * texts

    @property
    def changed(self) -> list[str]:
        """The paths in which the documents before and after differ."""
        found: list[str] = json.loads(self.changed_json) if self.changed_json and self.before_known else []
        return found

    @property
    def paths(self) -> list[str]:
        """The paths of the event's mask."""
        found: list[str] = json.loads(self.mask)
        return found


_CHOSEN = itemgetter(*(0 if name == "id" else 1 + ROW.index(_STORED.get(name, name)) for name in Entry._fields))


def read(row: Sequence[Any]) -> Entry:
    """Makes an entry of a row of ``COLUMNS``.

    Raises:
        Damaged: the row is not what was written.
    """
    sure, *values = row
    check_entry(values[0], sure, values[1:])
    return Entry(*_CHOSEN(values))


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
    walks = [_walk(connection, namespace[0], scope, query) for scope in scopes]
    merged = heapq.merge(*walks, key=lambda entry: entry.place, reverse=query.newest_first)
    entries: list[Entry] = []
    size, more = 0, False
    for entry in merged:
        if len(entries) == query.most or size >= MOST_BYTES:
            more = True
            break
        entries.append(entry)
        size += entry.size
    return Page(entries, more, gaps(connection, query.namespace, query.start, query.end))


def _walk(connection: sqlite3.Connection, namespace: int, scope: int, query: Query) -> Iterator[Entry]:
    index = "by_topic" if query.topic else "by_namespace"
    terms = ["topic = ?" if query.topic else "namespace = ?", "scope = ?"]
    values: list[int | str] = [query.topic or namespace, scope]
    if query.actor is not None:
        index += "_and_actor"
        terms.append("actor = ?")
        values.append(query.actor)
    terms += ["at >= ?", "at < ?"]
    start, end = query.start, query.end
    if query.after is not None:
        if query.newest_first:
            end = min(end, query.after.at + 1)
        else:
            start = max(start, query.after.at)
        terms.append(f"(at, id) {'<' if query.newest_first else '>'} (?, ?)")
    values += [start, end, *(query.after or ())]
    direction = "DESC" if query.newest_first else "ASC"
    sql = (
        f"SELECT {COLUMNS} FROM entries INDEXED BY {index} WHERE {' AND '.join(terms)}"  # noqa: S608 (only our names)
        f" ORDER BY at {direction}, id {direction} LIMIT ?"
    )

    def fits(entry: Entry) -> bool:
        wanted = entry.scope == scope and start <= entry.at < end and query.actor in (None, entry.actor)
        return wanted and (not query.topic or entry.topic == query.topic)

    return (found(row, fits) for row in connection.execute(sql, (*values, query.most + 1)))


def gaps(connection: sqlite3.Connection, namespace: str, start: int, end: int) -> list[Gap]:
    """Returns the newest gaps of a namespace that overlap a time, newest first."""
    known = _namespace(connection, namespace)
    if known is None:
        return []
    return [*_overlapping(connection, known, start, end), *(gap for gap in known.trimmed if gap.until >= start)]


def gaps_around(connection: sqlite3.Connection, namespace: str, at: int, last: Entry | None, first: Entry | None) -> list[Gap]:
    """Returns the gaps that decide whether a document is certain at a time (``as_of.of_time``).

    These are the newest ones between the entries around the time, and the newest one that was over by then.

    Args:
        connection: a connection to the file.
        namespace: the namespace of the document's topic.
        at: the time, in milliseconds since 1970.
        last: the last entry of the policy key at that time or before it.
        first: the first entry of the policy key after that time.
    """
    known = _namespace(connection, namespace)
    if known is None:
        return []
    start, end = at if last is None else last.at, LAST[0] if first is None else first.at
    over = _read_gaps(connection, known, "until <= ? ORDER BY until DESC LIMIT 1", (at,))
    return [*_overlapping(connection, known, start, end), *over, *known.trimmed]


class _Namespace(NamedTuple):
    id: int
    name: str
    trimmed: list[Gap]


def _namespace(connection: sqlite3.Connection, name: str) -> _Namespace | None:
    known = sealed(connection, "namespaces", "WHERE name = ?", (name,))
    if not known:
        return None
    ((number, _, _, until),) = known
    return _Namespace(number, name, [Gap(name, None, until, GapReason.TRIMMED)] if until else [])


def _overlapping(connection: sqlite3.Connection, namespace: _Namespace, start: int, end: int) -> list[Gap]:
    rest = "until >= ? AND (since IS NULL OR since < ?) ORDER BY until DESC LIMIT ?"
    return _read_gaps(connection, namespace, rest, (start, end, MOST_GAPS))


def _read_gaps(connection: sqlite3.Connection, namespace: _Namespace, rest: str, values: tuple[int, ...]) -> list[Gap]:
    rows = sealed(connection, "gaps", f"WHERE namespace = ? AND {rest}", (namespace.id, *values))
    return [Gap(namespace.name, since, until, GapReason(reason)) for _, _, since, until, reason in rows]


def around(connection: sqlite3.Connection, key: PolicyKey, at: int) -> tuple[Entry | None, Entry | None]:
    """Returns the last entry of a policy key at a time or before it, and the first one after it."""
    sql = f"SELECT {COLUMNS} FROM entries INDEXED BY by_topic WHERE topic = ? AND scope = ? AND"  # noqa: S608 (only our names)
    last = connection.execute(f"{sql} at <= ? ORDER BY at DESC, id DESC LIMIT 1", (key.topic, int(key.scope), at)).fetchone()
    first = connection.execute(f"{sql} at > ? ORDER BY at, id LIMIT 1", (key.topic, int(key.scope), at)).fetchone()
    before = found(last, lambda entry: is_of(entry, key) and entry.at <= at) if last else None
    return before, found(first, lambda entry: is_of(entry, key) and entry.at > at) if first else None


def found(row: Sequence[Any], fits: Callable[[Entry], bool]) -> Entry:
    """Reads an entry to which an index led, and checks from the entry itself that it is a wanted one.

    Raises:
        Damaged: the entry does not belong there, or is not what was written.
    """
    entry = read(row)
    if not fits(entry):
        raise Damaged(f"one of its indexes leads to the entry {entry.id}, which does not belong there")
    return entry


def is_of(entry: Entry, key: PolicyKey) -> bool:
    """Whether the entry is one of a policy key."""
    return entry.topic == key.topic and entry.scope == int(key.scope)


def of_version(connection: sqlite3.Connection, key: PolicyKey, version: Position) -> Entry | None:
    """Returns an entry at which a policy key had a version; None: there is none."""
    sql = (
        f"SELECT {COLUMNS} FROM entries INDEXED BY by_version WHERE topic = ? AND scope = ? AND version = ?"  # noqa: S608 (only our names)
        " ORDER BY id LIMIT 1"
    )
    row = connection.execute(sql, (key.topic, int(key.scope), version)).fetchone()
    return found(row, lambda entry: is_of(entry, key) and entry.version == version) if row else None
