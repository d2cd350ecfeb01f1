"""Applies single events to a head: operations of ours under their conditions, and the changes inferred from brokers' events.

These functions change the head alone (document, version, remembered requests); the raw documents are kept by ``core/fold/fold``.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

from ..changes.plan import touched_by
from ..policies.documents import WHOLE, Document, Setting, digest, merged, subtract, union, whole_digest
from ..policies.events import ABSENT, Event, ListChange, Placed, Position, Remembered, Stamp, StampKind
from .keystate import ALONE, REMEMBERED_REQUESTS, KeyState


class Status(enum.Enum):
    """What became of an event."""

    __hash__ = object.__hash__  # Enum's own hashes the name, which is slow

    APPLIED = "applied"
    DUPLICATE = "duplicate"
    """The same request was applied before, or the same event was judged before."""
    REJECTED_ETAG = "rejected-etag"
    """The head does not have the version that the event's ``etag`` demands."""
    REJECTED_READS = "rejected-reads"
    """Settings that the event's computation relied on have changed; its writer computes the update again."""
    SKIPPED_ABSENT = "skipped-absent"
    """There is no document, and the request asked to be skipped in that case."""
    RESTATED = "restated"
    """The event repeats a head."""
    IGNORED = "ignored"
    """The event says nothing, or nothing new."""


class Folded(NamedTuple):
    """What one event did to its key."""

    status: Status
    version: Position
    """The key's version after the event. DUPLICATE: the version that the first event made; empty if it made none, or if that is
    forgotten."""
    previous: Position
    """The key's version before the event, empty if the log does not tell. DUPLICATE: that before the first event, empty if unknown."""
    changed: bool = False
    """Whether the head changed, so that watchers are notified."""
    settings: tuple[Setting, ...] = ()
    """The settings that a broker's event was inferred to change."""
    stale: bool = False
    """Whether the event was computed from something else than the head that it met."""
    unexplained: bool = False
    """Whether no recent raw document explains a broker's event; its difference from the nearest was applied, which may undo a change."""
    ambiguous: bool = False
    """Whether two recent raw documents explain a broker's event differently; the newer was believed, which may undo a change."""


def operate(state: KeyState, placed: Placed, event: Event, stamp: Stamp) -> Folded:
    """Applies an operation to the head, unless its request was applied before or its conditions do not hold."""
    if stamp.request_id and state.remembered and (first := state.remembers(stamp.request_id)) is not None:
        if first.version or event.replicated or not _follows_what_was_seen(state, stamp):
            return Folded(Status.DUPLICATE, first.version, first.previous)
        state.remembered = tuple(request for request in state.remembered if request is not first)  # carried as on its way, but lost
    if state.joined is ALONE and not pipelined(stamp) and (stamp.base == state.version or _came_after(state, stamp)):
        state.joined, state.version = None, stamp.base  # the only writer has judged the conditions, and knows all events before
        state.remembered = tuple(stamp.remembered)
        return apply(state, placed, stamp, None if stamp.kind is StampKind.DELETE else event.document or {})
    head = state.document
    version = state.version
    on_this_head = head is not None and stamp.base == version and not event.replicated
    stale = not on_this_head and stamp.base != (state.head_event if head is not None else "")
    etag = stamp.etag
    if etag is not None and not event.replicated and etag != (version if head is not None else ABSENT):
        return Folded(Status.REJECTED_ETAG, version, version, stale=stale)
    if stamp.skip_if_absent and head is None:
        return Folded(Status.SKIPPED_ABSENT, version, version, stale=stale)
    document: Document = event.document or {}
    if stamp.reads:
        present: Document = head or {}
        for name, expected in stamp.reads.items():
            if (whole_digest(head) if name == WHOLE else digest(present.get(name))) != expected:
                return Folded(Status.REJECTED_READS, version, version, stale=stale)
    if stamp.kind is StampKind.DELETE:
        return apply(state, placed, stamp, None, stale)
    return apply(state, placed, stamp, operated(head, document, stamp), stale)


def _follows_what_was_seen(state: KeyState, stamp: Stamp) -> bool:
    """Returns whether the writer of an event knew which events came before.

    That is so if its base is an event that was seen here; or if it had seen as much as we have, from the first event that was seen here on.
    """
    base, seen = stamp.base, stamp.history
    if seen is not None and seen.since <= state.since <= seen.upto:
        return True
    return (
        base == state.newest_event
        or (base == state.version and base != "")
        or (state.superseded_ids is not None and base in state.superseded_ids)
    )


def _came_after(state: KeyState, stamp: Stamp) -> bool:
    """Returns whether the event carries the newest request that the state remembers.

    If the event's base is another version than the state's nevertheless, the state's version is the wrong one.
    """
    return bool(state.remembered) and any(request.request_id == state.remembered[-1].request_id for request in stamp.remembered)


def pipelined(stamp: Stamp) -> bool:
    """Returns whether an event was computed from one that was on its way to the log: its base is that event's id then, not a version."""
    return bool(stamp.remembered) and stamp.remembered[-1].version == ""


def restates(stamp: Stamp) -> bool:
    """Returns whether an event of ours repeats a head."""
    return stamp.kind is StampKind.REPAIR or stamp.kind is StampKind.TOMBSTONE


def conditional(stamp: Stamp) -> bool:
    """Returns whether an operation counts only under conditions."""
    return stamp.etag is not None or stamp.skip_if_absent or bool(stamp.reads)


def operated(head: Document | None, document: Document, stamp: Stamp) -> Document:
    """Returns the head after an operation: masked settings are taken from the document, list operations are applied to the head's lists."""
    result = merged(head, document, touched_by(stamp.mask, head, document))
    if stamp.operands:
        present: Document = head or {}
        for name, (change, operand) in stamp.operands.items():
            value = (union if change is ListChange.UNION else subtract)(present.get(name), operand)
            if value:
                result[name] = value
            else:
                result.pop(name, None)
    return document if result == document else result


def apply(state: KeyState, placed: Placed, stamp: Stamp, head: Document | None, stale: bool = False) -> Folded:
    """Makes the result of an operation the head, and remembers its request. ``stale``: as in ``Folded``."""
    previous = state.version
    position = placed.position
    state.document = head
    state.version = position
    state.head_event = stamp.event_id
    state.contradictions = 0
    if stamp.request_id:
        request = Remembered(stamp.request_id, stamp.digest, position, previous)
        state.remembered = (*state.remembered[1 - REMEMBERED_REQUESTS :], request)
    return Folded(Status.APPLIED, position, previous, True, (), stale)


def move(state: KeyState, placed: Placed, head: Document | None) -> Folded:
    """Makes the result of a broker's event the head."""
    previous = state.version
    state.document = head
    state.version = state.head_event = placed.position
    state.contradictions = 0
    return Folded(Status.APPLIED, placed.position, previous, True)


def changed_by(head: Document | None, document: Document, changed: list[Setting] | None, *, on_absence: bool) -> Document | None:
    """Returns the head after a broker's event that changed some settings; None: all.

    ``on_absence``: whether the event was computed from no document; if not, clearing settings does not bring back a deleted document.
    """
    if changed is None:
        return document
    result = merged(head, document, changed)
    if not result and head is None and not on_absence:
        return None
    return document if result == document else result
