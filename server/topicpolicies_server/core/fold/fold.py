"""The fold: computes what every event of a change log does to the head of its policy key. A pure function of the log.

**Every event is an operation, not a document.** Brokers apply whole documents and the last one wins, so a document that was computed
from an old one undoes the changes in between. A sidecar reads the same log as operations and computes the *head*: the mask of a sidecar's
event says what that event changes; what a broker's event changes is inferred from the documents before it (``inference``). Where the
*raw document*, which brokers show, differs from the head, a *repair* restates the head in the log. So no change is undone, however old the
document that a later writer started from, and all sidecars that read the same prefix of the log have the same head and the same version.

"Ours" are the events of any sidecar: those with a stamp. What an event does to the head, by its writer::

    ours      its id, or its request's, was folded before    nothing: DUPLICATE
              its conditions do not hold for the head        nothing: REJECTED_ETAG, SKIPPED_ABSENT, REJECTED_READS
              operation                                      sets its masked settings, applies its list operations; DELETE: no document
              REPAIR, TOMBSTONE                              nothing to a head that is right (``core/fold/joining``): RESTATED
    broker's  message without a value, DELETE                no document
              INSERT                                         sets all its settings; brokers keep a document that they already have
              UPDATE                                         makes the inferred change
              NONE                                           nothing; but compaction would leave only this event, so a repair is due
    unreadable                                               nothing

**Conditions** are judged when the event is folded, and every sidecar judges alike: ``etag`` against the head's version, ``reads`` against
the settings that the computation relied on. Different sidecars may hold different versions of the same absence, because compaction erases
its events; so the only etag that matches an absence is ``ABSENT``, and a writer whose caller named the absence's version stamps ``ABSENT``.

**A repair is due** when a reader that sees only the newest event of the key (a broker that starts, a sidecar that joins after a compaction)
would get another document or another version than the head, would take a request for applied that was not, or, if the event is ours,
would not know of a request that was; also when running brokers show another document. The repair of an absence is a TOMBSTONE. An absence
needs no repair once a message without a value is the newest event.

**Repairs end.** An operation makes a repair due once. A repair that restates the very head that a reader has makes another one due only
for a reader that has seen as much as the repair's writer, or more, and remembers requests that the repair lacks. A reader that has seen
less takes over what the repair carries, and a reader that has seen as much adds it to its own (``core/fold/joining``). So from repair to
repair the writers have seen more, or more requests are carried, up to ``REMEMBERED_REQUESTS``. If a repair restates another head, the
writer that has seen more is believed.

**Another cluster's events** are operations too, but positions in that cluster's log mean nothing here. In place of an etag, the digest of
the whole document is judged, which a GLOBAL event with an etag names in ``reads``; remembered requests lose their versions. Each cluster
repairs its own log, whichever event made the repair due, and repairs are not replicated: so clusters do not answer each other's repairs,
and a replicated event that was computed from an old document undoes nothing here either. A restatement of another log says nothing about
this one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..policies.documents import Document, differing
from ..policies.events import Action, Event, Placed, Position, Stamp, StampKind
from .inference import Inference, compares, infer
from .joining import (
    believe,
    check_certainty,
    join,
    learn_from_operation,
    learn_from_restatement,
    note_in_trail,
    without_versions,
)
from .keystate import ALONE, REMEMBERED_REQUESTS, REQUEST_ID, WINDOW_MS, KeyState, Owed, Superseded, TrailEvent, restatement
from .operation import Folded, Status, apply, changed_by, move, operate, pipelined
from .overlap import OWED_MS, infer_overlapping

__all__ = ["FoldContext", "Folded", "KeyState", "Status", "fold", "restatement"]


class FoldContext(NamedTuple):
    """What the fold must know besides the key's state and the event."""

    window_ms: int = WINDOW_MS
    """W, in milliseconds."""
    joining: bool = False
    """Whether a log that may have been compacted is being loaded: the first event seen of a key need not be the first of its history."""
    sole_writer: bool = False
    """Whether only this sidecar writes the log: then no event is ever stale, and no superseded raw documents are kept."""
    in_place: bool = False
    """Whether the brokers change their cached documents in place (``core/fold/overlap``)."""
    joined_at: int | None = None
    """When the log was opened, in milliseconds since 1970 by the log's clock, if it may have been compacted before: then no key's history
    is taken to begin with the first event that is seen (``core/fold/joining``). None: every key's is, unless ``joining`` is set."""
    complete: Sequence[Position | None] = ()
    """By partition, the position behind which nothing was compacted away ("": nothing ever was); None: it is not known. Without
    partitions: it is known of none. Where it is known, it has the last word on what ``joining`` and ``joined_at`` say."""


_SHARED = FoldContext()


def fold(state: KeyState, placed: Placed, context: FoldContext = _SHARED) -> Folded:
    """Folds the next event of a key, in log order, into its state.

    Each position must be folded once: the caller skips positions that it has already folded.
    """
    event = placed.event
    if event is None:
        return Folded(Status.IGNORED, state.version, state.version)
    stamp = event.stamp
    first = False
    if state.newest_event is None:
        context = _of_a_first_event(context, placed)
        first = (context.joining and (stamp is not None or event.action is not Action.NONE)) or (
            context.joined_at is not None and _goes_on(stamp)
        )
        if context.sole_writer:
            state.joined = ALONE if first else None
        elif context.joining or context.joined_at is not None:
            join(state, placed, context.joined_at, context.window_ms)
    if stamp is None:
        folded = _broker_event(state, placed, event, context, first)
    elif stamp.kind is StampKind.UPDATE or stamp.kind is StampKind.DELETE:
        folded = _operation(state, placed, event, stamp, context, first)
    else:
        folded = _restated(state, placed, event, stamp, context, first)
    if not context.sole_writer:
        state.upto = placed.position
    return folded


def _of_a_first_event(context: FoldContext, placed: Placed) -> FoldContext:
    """Returns the context for the first event seen of a key: what stands behind ``FoldContext.complete`` was seen from its beginning."""
    complete = context.complete[placed.partition] if context.complete else None
    if complete is None or placed.position <= complete:
        return context
    if complete == "":
        return context._replace(joining=False, joined_at=None)
    return context._replace(joining=False)  # the event's base was not compacted away: if it was not seen, there is none


def _goes_on(stamp: Stamp | None) -> bool:
    """Returns whether the first event seen of a key shows that there was a document before.

    Compaction has then erased all earlier events of the key, because a tombstone came too early.
    """
    if stamp is None:
        return False
    return stamp.kind is StampKind.REPAIR or (stamp.base != "" and not pipelined(stamp))  # a pipelined base may start from no document


def _operation(state: KeyState, placed: Placed, event: Event, stamp: Stamp, context: FoldContext, first: bool) -> Folded:
    document = event.document
    sure = False
    if stamp.event_id == state.newest_event or (state.superseded_ids is not None and stamp.event_id in state.superseded_ids):
        request = state.remembers(stamp.request_id)
        folded = Folded(Status.DUPLICATE, request.version if request else "", request.previous if request else "")
    else:
        if first:
            state.remembered = without_versions(stamp.remembered) if event.replicated else tuple(stamp.remembered)
        if first and stamp.base:  # the event's base was not seen: its whole document is taken
            state.version = ""  # the log does not say which version it was applied to
            state.remembered = tuple(request for request in state.remembered if request.request_id != stamp.request_id)  # apply() adds it
            folded = apply(state, placed, stamp, None if stamp.kind is StampKind.DELETE else document or {})
        else:
            learned, sure = None, True
            if stamp.history is not None and not event.replicated:
                learned = learn_from_operation(state, placed, stamp, None if stamp.kind is StampKind.DELETE else document or {})
            folded = learned or operate(state, placed, event, stamp)
            if learned is None and state.joined is not None:
                known = None if event.replicated else stamp
                sure = check_certainty(state, placed.published_at, context.window_ms, stamp=known)
        if state.joined is not None or state.since:
            note_in_trail(state, TrailEvent(placed, certain=sure), context.window_ms)
    knows_before = not (first and stamp.base)
    state.advance(document, stamp.event_id, placed.published_at, context.window_ms, context.sole_writer, knows_before=knows_before)
    head = state.document
    if head is None:
        state.repair_due = document is not None
    else:
        skipped = stamp.skip_if_absent and not stamp.base  # by a reader that sees only this event
        wrong = not folded.changed or (head is not document and head != document) or skipped
        state.repair_due = wrong or _misremembers(state, stamp, folded.stale or event.replicated)
    return folded


def _misremembers(state: KeyState, stamp: Stamp, elsewhere: bool) -> bool:
    """Returns whether a reader that sees only this applied event would remember other requests than were applied.

    The event may lack requests that its writer had not seen, and may carry requests whose events were on their way before it and never
    came. If it was computed from this very head, by a writer that has seen as much as we have, it carries what the state remembers.

    ``elsewhere``: whether the event was computed from something else than the head that it met, or came from another cluster.
    """
    on_its_way = pipelined(stamp)
    if not (on_its_way or elsewhere or not stamp.base or (stamp.history is not None and stamp.history.since > state.since)):
        return False
    before = state.remembered[:-1]
    carried = stamp.remembered
    forgotten = len(carried) - len(before)  # to make room for this event's request
    in_line = forgotten == 0 or (forgotten == 1 and len(carried) == REMEMBERED_REQUESTS)
    if stamp.request_id and in_line and list(map(REQUEST_ID, carried[forgotten:])) == list(map(REQUEST_ID, before)):
        return False  # the common case, and cheap
    known = set(map(REQUEST_ID, state.remembered))
    if _lacks(known, stamp):
        return True
    if not on_its_way:
        return False
    recent = len(known) < REMEMBERED_REQUESTS  # else the state may have applied the oldest carried ones, and forgotten them since
    for request in carried:
        if request.request_id in known:
            recent = True
        elif recent and not request.version:
            return True
    return False


def _lacks(known: set[str], stamp: Stamp) -> bool:
    """Returns whether a reader that sees only this event misses one of these request ids: it would apply a repeat of that request."""
    carried = [request_id for request_id in map(REQUEST_ID, stamp.remembered) if request_id != stamp.request_id]
    if stamp.request_id:
        carried = [*carried[1 - REMEMBERED_REQUESTS :], stamp.request_id]
    return not known.issubset(carried)


def _restated(state: KeyState, placed: Placed, event: Event, stamp: Stamp, context: FoldContext, first: bool) -> Folded:
    document = event.document
    claimed = None if stamp.kind is StampKind.TOMBSTONE else document
    head, version = state.document, state.version
    if event.replicated:
        pass
    elif first or state.joined is ALONE:  # its writer had seen more than we have
        believe(state, claimed, stamp)
        version = "" if first else version
    elif state.newest_event is not None:
        learn_from_restatement(state, claimed, stamp)
    state.advance(document, stamp.event_id, placed.published_at, context.window_ms, context.sole_writer, knows_before=not first)
    if state.document is None:
        state.repair_due = document is not None
    else:
        wrong = state.document != claimed or state.version != stamp.head_version
        state.repair_due = wrong or _lacks(set(map(REQUEST_ID, state.remembered)), stamp)
    changed = state.version != version or state.document != head
    return Folded(Status.RESTATED, state.version, version, changed)


def _broker_event(state: KeyState, placed: Placed, event: Event, context: FoldContext, first: bool) -> Folded:
    """Folds a broker's event: infers from the document that it carries what the broker changed."""
    document = event.document
    if event.action is Action.NONE:
        state.repair_due = state.document is not None or state.raw is not None
        return Folded(Status.IGNORED, state.version, state.version)
    if document is None or event.action is Action.DELETE:
        return _gone(state, placed, context)
    if first:
        note_in_trail(state, TrailEvent(placed, certain=False), context.window_ms)
        folded = move(state, placed, document)._replace(previous="")
        state.advance(document, "", placed.published_at, context.window_ms, context.sole_writer)
        state.repair_due = False
        return folded
    if event.action is Action.INSERT:
        changed = [name for name in document if compares(name, event.known)]
        on_absence = sure = True
        result = changed_by(state.document, document, changed, on_absence=True)
        folded = move(state, placed, result)
        if state.raw is None:
            state.advance(document, "", placed.published_at, context.window_ms, context.sole_writer)
    else:
        inferred = _inferred(state, placed, event.known, document, context)
        changed = inferred.changed
        sure = check_certainty(state, placed.published_at, context.window_ms, inferred=inferred)
        on_absence = inferred.base is None
        result = changed_by(state.document, document, changed, on_absence=on_absence)
        folded = move(state, placed, result)._replace(unexplained=inferred.unexplained, ambiguous=inferred.ambiguous)
        state.advance(document, "", placed.published_at, context.window_ms, context.sole_writer)
    note_in_trail(state, TrailEvent(placed, changed, on_absence, sure), context.window_ms)
    state.repair_due = result != document or result != state.raw
    stale = result is not document and any(compares(name, event.known) for name in differing(result, document))
    return folded._replace(settings=tuple(changed), stale=stale)


def _inferred(state: KeyState, placed: Placed, known: frozenset[str] | None, document: Document, context: FoldContext) -> Inference:
    older = () if context.sole_writer or state.older is None else state.older
    oldest = placed.published_at - context.window_ms
    if not context.in_place:
        return infer(document, state.raw, older, state.document, known, oldest)
    owed = 0 if state.owed is None or state.owed.until < placed.published_at else state.owed.events
    newest = Superseded(state.raw, placed.published_at, state.newest_event or "")
    inferred = infer_overlapping(document, newest, older, state.document, known, oldest, owed)
    owed = max(owed + len(inferred.changed) - 1, 0)
    state.owed = Owed(owed, placed.published_at + OWED_MS) if owed else None
    return inferred


def _gone(state: KeyState, placed: Placed, context: FoldContext) -> Folded:
    """Folds a broker's deletion. If there is no document the head stays as it is: an absence need not be made again."""
    folded = Folded(Status.IGNORED, state.version, state.version)
    if state.document is not None:
        folded = move(state, placed, None)
    note_in_trail(state, TrailEvent(placed), context.window_ms)
    state.advance(None, "", placed.published_at, context.window_ms, context.sole_writer)
    state.repair_due = False
    return folded
