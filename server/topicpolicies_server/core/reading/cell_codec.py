"""Serializes a cell with everything that the fold and the view know of its key, settled or not, and reads it back.

The form is a JSON array in ASCII, followed by the bytes of the settings. A document that several parts refer to is written once, and so is
an event, and a remembered request: sixteen events of a key may carry the same request. What is of no use to another process is left out:
cached bytes, and the document before a change.

Bytes are trusted to be what was written: code that stores them must add a checksum. Bytes that can't be read raise ``Unreadable``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ..fold.fold import KeyState
from ..fold.keystate import ALONE, Joined, Noted, Owed, Superseded
from ..names import PolicyKey
from ..policies.documents import Settings
from ..policies.events import Action, Event, ListChange, Placed, Remembered, Seen, Stamp, StampKind
from .cells import name_of
from .heads import Cell, Head

FORMAT = 2
"""The format that is written, and the only one that is read."""
_ALONE = 1
"""Written in place of ``keystate.ALONE``."""
_dump = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


class Unreadable(Exception):
    """Bytes that are no cell of this format."""


def to_bytes(cell: Cell) -> bytes:
    """Returns a cell as bytes. The cell must not change meanwhile."""
    writer = _CellWriter(cell.key)
    head, state = cell.head, cell.state
    told = None
    if head is not None:
        told = [writer.document(head.document), head.version, head.previous, head.number, head.partition, writer.placed(head.placed)]
    parts = [FORMAT, cell.partition, cell.touched_at, told, writer.state(state), writer.documents, writer.events, list(writer.requests)]
    text = _dump(parts).encode("ascii")
    return b"%d:%b%b" % (len(text), text, b"".join(writer.settings))


def from_bytes(key: PolicyKey, data: bytes) -> Cell:
    """Returns the cell that ``to_bytes`` wrote.

    Raises:
        Unreadable: the bytes are no cell of this format.
    """
    try:
        length, _, rest = data.partition(b":")
        size = int(length)
        found, partition, touched_at, told, state, documents, events, requests = json.loads(rest[:size])
        if found != FORMAT:
            raise Unreadable(f"a cell has format {found}")
        reader = _CellReader(key, documents, requests, rest[size:])
        reader.take_events(events)
        cell = Cell(key, name_of(key), partition, reader.state(state))
        cell.touched_at = touched_at
        if told is not None:
            document, version, previous, number, stands, placed = told
            cell.head = Head(key, reader.document(document), version, previous, reader.placed(placed), number, stands)
    except Unreadable:
        raise
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, RecursionError) as error:
        raise Unreadable(f"a cell can't be read ({type(error).__name__})") from error
    return cell


class _CellWriter:
    """Turns the parts of a cell into JSON values; documents and events are collected once each, and referred to by index."""

    def __init__(self, key: PolicyKey) -> None:
        self._key = key
        self.settings: list[bytes] = []
        self.documents: list[list[str | int]] = []
        """For each document the names of its settings, each followed by the length of its value in bytes."""
        self.events: list[list[Any]] = []
        self.requests: dict[Remembered, int] = {}
        """The index of each request."""
        self._known: dict[int, int] = {}
        """The index of each document and event that was written, by the object's ``id()``."""
        self._held: list[object] = []
        """The objects that were written, kept alive so that no ``id()`` is used twice."""

    def document(self, document: Settings | None) -> int | None:
        if document is None:
            return None
        at = self._known.get(id(document))
        if at is None:
            at = self._known[id(document)] = len(self.documents)
            self._held.append(document)
            written: list[str | int] = []
            for setting, value in document.items():
                written += (setting, len(value))
                self.settings.append(value)
            self.documents.append(written)
        return at

    def placed(self, placed: Placed | None) -> int | None:
        if placed is None:
            return None
        at = self._known.get(id(placed))
        if at is None:
            event = placed.event
            if event is not None and event.key != self._key:
                raise ValueError("the event is another key's")
            written = [
                placed.partition,
                placed.position,
                None if event is None else self._event(event),
                placed.published_at,
                placed.producer,
                placed.problem,
            ]
            at = self._known[id(placed)] = len(self.events)
            self._held.append(placed)
            self.events.append(written)
        return at

    def _event(self, event: Event) -> list[Any]:
        known = None if event.known is None else sorted(event.known)
        stamp = None if event.stamp is None else self._stamp(event.stamp)
        return [int(event.action), self.document(event.document), stamp, known, int(event.replicated)]

    def _stamp(self, stamp: Stamp) -> list[Any]:
        trace = [stamp.trace_parent, stamp.trace_state] if stamp.trace_parent else []  # releases without traces read a stamp without it
        operands = {}
        for setting, (change, value) in stamp.operands.items():
            operands[setting] = [change.value, self.document({setting: value})]
        return [
            stamp.event_id,
            stamp.kind.value,
            stamp.request_id,
            stamp.digest,
            stamp.actor,
            stamp.reason,
            stamp.mask,
            stamp.base,
            stamp.etag,
            int(stamp.skip_if_absent),
            dict(stamp.reads),
            operands,
            self._remembered(stamp.remembered),
            stamp.head_version,
            stamp.seen,
            stamp.principal,
            stamp.claimed,
            *trace,
        ]

    def state(self, state: KeyState) -> list[Any]:
        joined: Any = None
        if state.joined is not None:
            joined = _ALONE if state.joined is ALONE else self._joined(state.joined)
        older = None
        if state.older is not None:
            older = [[self.document(raw), at, event_id] for raw, at, event_id in state.older]
        return [
            self.document(state.document),
            state.version,
            state.head_event,
            self._remembered(state.remembered),
            self.document(state.live),
            state.newest,
            older,
            state.owed,
            None if state.seen is None else list(state.seen),
            int(state.due),
            state.since,
            state.upto,
            joined,
            state.contradictions,
        ]

    def _remembered(self, requests: Sequence[Remembered]) -> list[int]:
        known = self.requests
        return [known.setdefault(request, len(known)) for request in requests]

    def _joined(self, joined: Joined) -> list[Any]:
        trail = [[self.placed(noted.placed), noted.changed, int(noted.on_absence), int(noted.certain)] for noted in joined.trail]
        return [joined.first, joined.first_at, joined.dropped, trail]


class _CellReader:
    """Turns what ``_CellWriter`` wrote into the parts of a cell."""

    def __init__(self, key: PolicyKey, documents: list[list[Any]], requests: list[list[str]], settings: bytes) -> None:
        self._key = key
        self._documents: list[Settings] = []
        self._events: list[Placed] = []
        self._known = [Remembered(*request) for request in requests]
        at = 0
        for written in documents:
            document: dict[str, bytes] = {}
            for setting, size in zip(written[::2], written[1::2], strict=True):
                document[setting] = settings[at : at + size]
                at += size
            self._documents.append(document)
        if at != len(settings):
            raise Unreadable("a cell has another length")

    def document(self, at: int | None) -> Settings | None:
        return None if at is None else self._documents[at]

    def placed(self, at: int | None) -> Placed | None:
        return None if at is None else self._events[at]

    def take_events(self, events: list[list[Any]]) -> None:
        for partition, position, event, published_at, producer, problem in events:
            self._events.append(
                Placed(partition, position, None if event is None else self._event(*event), published_at, producer, problem)
            )

    def _event(self, action: int, document: int | None, stamp: list[Any] | None, known: list[str] | None, replicated: int) -> Event:
        families = None if known is None else frozenset(known)
        told = None if stamp is None else self._stamp(stamp)
        return Event(self._key, Action(action), self.document(document), told, families, bool(replicated))

    def _stamp(self, written: list[Any]) -> Stamp:
        (
            event_id, kind, request_id, digest, actor, reason, mask, base, etag, skip, reads, operands, remembered, head_version, seen,
            principal, claimed, *trace,
        ) = written  # fmt: skip
        lists = {}
        for setting, (change, at) in operands.items():
            (value,) = self._documents[at].values()
            lists[setting] = ListChange(change), value
        return Stamp(
            event_id, StampKind(kind), request_id, digest, actor, reason, tuple(mask), base, etag, bool(skip), reads, lists,
            self._requests(remembered), head_version, None if seen is None else Seen(*seen), principal, claimed, *trace,
        )  # fmt: skip

    def state(self, written: list[Any]) -> KeyState:
        document, version, head_event, remembered, live, newest, older, owed, seen, due, since, upto, joined, contradictions = written
        state = KeyState()
        state.document = self.document(document)
        state.version = version
        state.head_event = head_event
        state.remembered = self._requests(remembered)
        state.live = self.document(live)
        state.newest = newest
        if older is not None:
            state.older = [Superseded(self.document(raw), at, event_id) for raw, at, event_id in older]
        state.owed = None if owed is None else Owed(*owed)
        state.seen = None if seen is None else dict.fromkeys(seen)
        state.due = bool(due)
        state.since = since
        state.upto = upto
        if joined == _ALONE:
            state.joined = ALONE
        elif joined is not None:
            state.joined = self._joined(*joined)
        state.contradictions = contradictions
        return state

    def _requests(self, written: list[int]) -> tuple[Remembered, ...]:
        return tuple(self._known[at] for at in written)

    def _joined(self, first: str, first_at: int, dropped: str, trail: list[list[Any]]) -> Joined:
        joined = Joined(first, first_at, dropped)
        for at, changed, on_absence, certain in trail:
            joined.trail.append(Noted(self._events[at], changed, bool(on_absence), bool(certain)))
        return joined
