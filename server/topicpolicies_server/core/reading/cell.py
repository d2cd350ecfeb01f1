"""One policy key of a view: an object while it is in use, bytes while it is at rest. Bytes are how 100,000 topics fit into memory.

**Turning a cell into bytes and back changes nothing that matters**: the state folds every further event as before, and the head has the
same document, version, previous version, number and position, so that watchers and answers show the same. Of the head's event, the requests
that it carries are not kept (the state has them), and of the head neither ``before`` nor bytes for watchers.

The bytes are a ``Header``, the head's position, and two tuples as ``marshal`` writes them: what is kept for ever, and what is needed only
for a while after the key's events, last, so that it can be cut off. ``marshal`` is bound to a release of Python, and damaged bytes raise
``Damaged`` or are read as something else: whoever stores them must know the release, and have a checksum.
"""

from __future__ import annotations

import marshal
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from ..fold.keystate import ALONE, Joined, KeyState, Owed, Superseded, TrailEvent
from ..names import PolicyKey, Scope
from ..policies import documents
from ..policies.documents import Document
from ..policies.events import Action, Event, ListChange, Placed, Position, Remembered, Seen, Stamp, StampKind

_HEADER = struct.Struct(">BQHHqIB")
_DUE, _DOCUMENT, _OWED = 1, 2, 4
_DAMAGES = (struct.error, LookupError, ValueError, TypeError, EOFError, MemoryError, AttributeError)
_KINDS = {kind.value: kind for kind in StampKind}
_NOT_FOLDED: tuple[Any, ...] = "", None, False, (), (), (), "", None
"""What only the fold needs of a stamp, for an event that is not folded again."""
_ACTIONS = {int(action): action for action in Action}
_HEXADECIMAL = re.compile("[0-9a-f]*")
_DASHED = re.compile("(?:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})*")
_CODES = {name: chr(field.number) for name, field in documents.FIELDS.items() if name not in documents.MAPS and field.number < 128}
"""One character for each field, in place of its name: no name has one character. Field numbers never change."""
_NAMES = {code: name for name, code in _CODES.items()}
_GLOBAL = "\x02"
"""Begins the names of GLOBAL keys; no topic begins with it."""
LOCAL_FROM = "\x03"
"""Less than all names of LOCAL keys, and greater than all names of GLOBAL keys."""


class Before(NamedTuple):
    """The state of a key before a change."""

    document: Document | None
    """None: there was no document."""
    size: int = 0
    """The size of the document's settings in bytes."""


@dataclass(slots=True, eq=False)
class Head:
    """A head, and the event that made it. Immutable, but for cached values and ``before``."""

    key: PolicyKey
    document: Document | None
    version: Position
    previous: Position
    """The version before this one; "" if unknown, as for the first event seen of a key whose log was compacted."""
    placed: Placed | None
    """The event that made this head; None for an absence of which there is no event."""
    number: int
    """The number of the change that made this head: the view counts its changes. 0: no change made it."""
    partition: int = 0
    """The partition of the event that made this head."""
    size: int = 0
    """The size of the document's settings in bytes; 0 if there is no document."""
    before: Before | None = None
    """The document before this one, while this is in the ring of its hub (``WatchHub.publish``); None: it is not known (any more)."""
    encoded: bytes | None = None
    """The change as watchers are sent it, serialized once for all of them."""
    with_before: bytes | None = None
    """The change as watchers are sent it that want the document before too."""

    @property
    def event(self) -> Event | None:
        """The decoded event that made this head; None for an absence of which there is no event."""
        return self.placed.event if self.placed is not None else None

    @property
    def position(self) -> Position:
        """The position of the event that made this head; of an absence without an event, its version."""
        return self.placed.position if self.placed is not None else self.version

    @property
    def sent_bytes(self) -> int:
        """About how many bytes watchers are sent of the change: the documents, and the paths that its event names."""
        event = self.event
        named = event.stamp.mask if event is not None and event.stamp is not None else ()
        return self.size + (self.before.size if self.before is not None else 0) + sum(map(len, named))

    def forget_before(self) -> None:
        """Drops the document before this one: heads are kept for long."""
        self.before = self.with_before = None


class Damaged(ValueError):
    """Raised for bytes that are no cell at rest."""


def name_of(key: PolicyKey) -> str:
    """Returns a key as one string, its name. The names of one scope's keys are in the order of the keys."""
    return key.topic if key.scope is Scope.LOCAL else _GLOBAL + key.topic


def key_of(name: str) -> PolicyKey:
    """Returns the key of a name."""
    return PolicyKey(name[1:], Scope.GLOBAL) if name.startswith(_GLOBAL) else PolicyKey(name, Scope.LOCAL)


@dataclass(slots=True, eq=False)
class Cell:
    """One policy key of a view, while it is in use: the fold's state, and the head that watchers were sent. Only the view changes it."""

    key: PolicyKey
    name: str
    """The key as one string (``name_of``)."""
    partition: int
    """The partition of the key's last event, which may not be that of earlier events: a log may get more partitions."""
    state: KeyState
    head: Head | None = None
    """None: no event of the key has made a head."""
    touched_at: int = 0
    """When the key's last event was published, in milliseconds since 1970."""


Kept: TypeAlias = "Cell | bytes"


class Header(NamedTuple):
    """The beginning of a cell at rest: what can be known of it without reading all of it."""

    flags: int
    number: int
    """The number of the head; 0: there is no head."""
    partition: int
    """The partition of the key's last event."""
    head_partition: int
    """The partition of the head's event."""
    touched_at: int
    """When the key's last event was published, in milliseconds since 1970."""
    end: int
    """Where begins what is needed only for a while after the key's events."""
    length: int
    """The length of the head's position, which follows."""

    @classmethod
    def of(cls, data: bytes) -> Header:
        """Reads the header of a cell at rest.

        Raises:
            Damaged: the bytes are too few.
        """
        try:
            return cls._make(_HEADER.unpack_from(data))
        except struct.error as error:
            raise Damaged(str(error)) from error

    @property
    def has_document(self) -> bool:
        """Whether the head has a document."""
        return bool(self.flags & _DOCUMENT)

    @property
    def is_owed(self) -> bool:
        """Whether events are owed to the key (``KeyState.owed``), perhaps also once it is idle."""
        return bool(self.flags & _OWED)

    def position(self, data: bytes) -> Position:
        """Returns the position of the head of the cell whose header this is."""
        return data[_HEADER.size : _HEADER.size + self.length].decode("utf-8", "surrogatepass")


def is_due(kept: Kept) -> bool:
    """Returns whether a repair of the key is due (``KeyState.repair_due``)."""
    return bool(kept[0] & _DUE) if isinstance(kept, bytes) else kept.state.repair_due


# --- to bytes --------------------------------------------------------------------------------------------------------


def _index(document: Document | None, found: list[Document]) -> int | None:
    """Returns the index of a document among those of its cell; that of the first or the last one, if it is like these."""
    if document is None:
        return None
    if found and _is_like(document, found[0]):
        return 0
    if not found or not _is_like(document, found[-1]):
        found.append(document)
    return len(found) - 1


def _written(found: Sequence[Document]) -> tuple[tuple[str | bytes, ...], ...]:
    """Returns documents, each as names and values in turn."""
    return tuple([tuple([part for name, value in document.items() for part in (_CODES.get(name, name), value)]) for document in found])


def _is_like(document: Document, other: Document) -> bool:
    """Returns whether two documents have the same settings in the same order. Reports of changes list settings in that order."""
    return document is other or (document == other and list(document) == list(other))


def to_bytes(cell: Cell) -> bytes:
    """Returns a cell as bytes. The cell must not change meanwhile."""
    state, head = cell.state, cell.head
    known: dict[str, str] = {}
    same = known.setdefault  # ``marshal`` writes one object once
    found: list[Document] = []
    first = _index(state.document, found)
    flags = state.repair_due * _DUE | (state.owed is not None) * _OWED
    number = partition = 0
    position, head_fields = "", None
    if head is not None:
        number, partition, position = head.number, head.partition, head.position
        shown = _index(head.document, found)
        flags |= (shown is not None) * _DOCUMENT
        event = None if head.placed is None else _placed(head.placed, found, known, state.remembered)
        head_fields = shown, same(head.version, head.version), same(head.previous, head.previous), event
    kept = (
        first,
        _index(state.raw, found),
        same(state.version, state.version),
        same(state.head_event, state.head_event),
        None if state.newest_event is None else same(state.newest_event, state.newest_event),
        same(state.since, state.since),
        same(state.upto, state.upto),
        state.contradictions,
        _requests(state.remembered, known),
        state.joined is ALONE,
        head_fields,
    )
    text = marshal.dumps((kept, _written(found)))
    at = position.encode("utf-8", "surrogatepass")
    end = _HEADER.size + len(at) + len(text)
    header = _HEADER.pack(flags, number, cell.partition, partition, cell.touched_at, end, len(at))
    return b"".join((header, at, text, _leftovers(state, found)))


def _leftovers(state: KeyState, found: list[Document]) -> bytes:
    joined, owed, older, seen = state.joined, state.owed, state.older, state.superseded_ids
    if joined is ALONE:
        joined = None
    if older is None and seen is None and joined is None and owed is None:
        return b""
    count = len(found)
    parts = (
        None if older is None else tuple([(_index(raw, found), at, event_id) for raw, at, event_id in older]),
        None if seen is None else tuple(seen),
        None if owed is None else tuple(owed),
        None if joined is None else (joined.first, joined.first_at, joined.dropped, tuple([_noted(each, found) for each in joined.trail])),
    )
    return marshal.dumps((parts, _written(found[count:])))


def _noted(noted: TrailEvent, found: list[Document]) -> tuple[Any, ...]:
    changed = None if noted.changed is None else tuple(noted.changed)
    return _placed(noted.placed, found, {}), changed, noted.on_absence, noted.certain


def _placed(placed: Placed, found: list[Document], known: dict[str, str], requests: Sequence[Remembered] | None = None) -> tuple[Any, ...]:
    """Returns an event as plain values, but for its document, which ``found`` gets.

    ``requests``: of the head's event, the requests that are kept anyway; None: the event may be folded again, so that needs more.
    """
    event = placed.event
    event_fields = None
    if event is not None:
        stamp = None if event.stamp is None else _stamp(event.stamp, known, requests)
        event_fields = int(event.action), _index(event.document, found), stamp, event.known, event.replicated, event.clusters
    return (
        placed.partition,
        known.setdefault(placed.position, placed.position),
        event_fields,
        placed.published_at,
        placed.producer,
        placed.problem,
    )


def _stamp(stamp: Stamp, known: dict[str, str], requests: Sequence[Remembered] | None) -> tuple[Any, ...]:
    same = known.setdefault
    asked: tuple[str | None, str | None] = same(stamp.request_id, stamp.request_id), same(stamp.digest, stamp.digest)
    if requests and asked == requests[-1][:2]:
        asked = None, None  # the last of the requests
    folding = None
    if requests is None:
        folding = (
            same(stamp.base, stamp.base),
            stamp.etag,
            stamp.skip_if_absent,
            tuple(stamp.reads.items()),
            tuple([(setting, change.value, value) for setting, (change, value) in stamp.operands.items()]),
            tuple([tuple(request) for request in stamp.remembered]),
            stamp.head_version,
            None if stamp.history is None else tuple([same(each, each) for each in stamp.history]),
        )
    return (
        same(stamp.event_id, stamp.event_id),
        stamp.kind.value,
        *asked,
        stamp.actor,
        stamp.reason,
        tuple([_CODES.get(path, path) for path in stamp.mask]),
        folding,
        *stamp[stamp._fields.index("history") + 1 :],
    )


def _requests(requests: Sequence[Remembered], known: dict[str, str]) -> tuple[Any, ...] | None:
    """Returns requests as columns, and UUIDs and digests, which are most of it, as bytes if there are several."""
    if not requests:
        return None
    ids, digests, versions, previous = zip(*requests, strict=True)
    if len(ids) > 2 and previous[1:-1] == versions[:-2]:  # each was applied to what the one before had made; of the last it may be unknown
        previous = previous[0], previous[-1]
    if len(ids) > 1:
        together = "".join(ids)
        size = 36 if _DASHED.fullmatch(together) else 32
        if set(map(len, ids)) == {size} and set(map(len, digests)) == {16}:
            together = "".join((together.replace("-", ""), *digests))
            if _HEXADECIMAL.fullmatch(together) and _HEXADECIMAL.fullmatch("".join((*versions, *previous))):
                return bytes.fromhex(together), size, ",".join((*versions, *previous))
    return tuple([tuple([known.setdefault(each, each) for each in column]) for column in (ids, digests, versions, previous)])


# --- from bytes ---------------------------------------------------------------------------------------------------


def from_bytes(name: str, data: bytes) -> Cell:
    """Returns the cell of a name that ``to_bytes`` made bytes of.

    Raises:
        Damaged: the bytes are no cell at rest.
    """
    try:
        key = key_of(name)
        header, kept, found = _main(data)
        first, live, version, head_event, newest, since, upto, contradictions, requests, alone, head_fields = kept
        state = KeyState()
        if header.end != len(data):
            parts, more = _read(memoryview(data)[header.end :])
            found += map(_document, more)
            _restore_leftovers(state, parts, key, found)
        state.document, state.raw = _at(found, first), _at(found, live)
        state.version, state.head_event, state.newest_event, state.since, state.upto = version, head_event, newest, since, upto
        state.contradictions = contradictions
        state.repair_due = bool(header.flags & _DUE)
        if requests is not None:
            state.remembered = _remembered(*requests)
        if alone:
            state.joined = ALONE
        cell = Cell(key, name, header.partition, state)
        cell.touched_at = header.touched_at
        if head_fields is not None:
            cell.head = _head(key, header, head_fields, found, requests)
    except _DAMAGES as error:
        raise Damaged(f"what is kept of {name} can't be read: {error}") from error
    return cell


def head_from_bytes(name: str, data: bytes) -> Head | None:
    """Returns the head of a cell at rest, without its state; None: it has none.

    Raises:
        Damaged: the bytes are no cell at rest.
    """
    try:
        header, kept, found = _main(data)
        return None if kept[-1] is None else _head(key_of(name), header, kept[-1], found, kept[-3])
    except _DAMAGES as error:
        raise Damaged(f"what is kept of {name} can't be read: {error}") from error


def _read(data: memoryview) -> Any:
    return marshal.loads(data)  # noqa: S302 (bytes that this process wrote, or that stand in its own file with a checksum)


def _main(data: bytes) -> tuple[Header, tuple[Any, ...], list[Document]]:
    header = Header.of(data)
    kept, written = _read(memoryview(data)[_HEADER.size + header.length :])
    return header, kept, [_document(each) for each in written]


def _document(written: tuple[Any, ...]) -> Document:
    return {_NAMES.get(name, name): value for name, value in zip(written[::2], written[1::2], strict=True)}


def _at(found: list[Document], index: int | None) -> Document | None:
    return None if index is None else found[index]


def _head(key: PolicyKey, header: Header, fields: tuple[Any, ...], found: list[Document], requests: tuple[Any, ...] | None) -> Head:
    shown, version, previous, event = fields
    placed = None if event is None else _event_of(key, event, found, requests)
    document = _at(found, shown)
    return Head(key, document, version, previous, placed, header.number, header.head_partition, documents.size(document or {}))


def _restore_leftovers(state: KeyState, parts: tuple[Any, ...], key: PolicyKey, found: list[Document]) -> None:
    older, seen, owed, joined = parts
    if older is not None:
        state.older = [Superseded(_at(found, raw), at, event_id) for raw, at, event_id in older]
    if seen is not None:
        state.superseded_ids = dict.fromkeys(seen)
    if owed is not None:
        state.owed = Owed(*owed)
    if joined is not None:
        first, first_at, dropped, trail = joined
        state.joined = Joined(first, first_at, dropped)
        for event, changed, on_absence, certain in trail:
            placed = _event_of(key, event, found)
            state.joined.trail.append(TrailEvent(placed, None if changed is None else list(changed), on_absence, certain))


def _event_of(key: PolicyKey, written: tuple[Any, ...], found: list[Document], requests: tuple[Any, ...] | None = None) -> Placed:
    partition, position, event_fields, *others = written
    event = None
    if event_fields is not None:
        action, document, stamp, *of_writer = event_fields
        event = Event(key, _ACTIONS[action], _at(found, document), None if stamp is None else _stamp_of(stamp, requests), *of_writer)
    return Placed(partition, position, event, *others)


def _stamp_of(written: tuple[Any, ...], requests: tuple[Any, ...] | None) -> Stamp:
    event_id, kind, request_id, digest, actor, reason, mask, folding, *others = written
    if request_id is None and requests is not None:
        request_id, digest = _last(*requests)
    base, etag, skip, reads, operands, remembered, head_version, seen = folding or _NOT_FOLDED
    return Stamp(
        event_id,
        _KINDS[kind],
        request_id,
        digest,
        actor,
        reason,
        tuple([_NAMES.get(path, path) for path in mask]),
        base,
        etag,
        skip,
        dict(reads),
        {setting: (ListChange(change), value) for setting, change, value in operands},
        tuple([Remembered(*each) for each in remembered]),
        head_version,
        None if seen is None else Seen(*seen),
        *others,
    )


def _remembered(ids: Any, digests: Any, *places: Any) -> tuple[Remembered, ...]:
    if isinstance(ids, bytes):
        text, count, size, together = ids.hex(), len(ids) // 24, digests, places[0].split(",")
        ids = [_id_of(text[at : at + 32], size) for at in range(0, 32 * count, 32)]
        digests = [text[at : at + 16] for at in range(32 * count, 48 * count, 16)]
        places = together[:count], together[count:]
    versions, previous = places
    if len(previous) != len(versions):
        previous = previous[0], *versions[:-2], previous[-1]
    return tuple(map(Remembered._make, zip(ids, digests, versions, previous, strict=True)))


def _last(ids: Any, digests: Any, *_: Any) -> tuple[str, str]:
    if not isinstance(ids, bytes):
        return ids[-1], digests[-1]
    end = len(ids) // 24 * 16
    return _id_of(ids[end - 16 : end].hex(), digests), ids[-8:].hex()


def _id_of(text: str, size: int) -> str:
    return text if size == 32 else f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
