"""The fold: what every event of a change log does to the head of its policy key. A pure function of the log.

**Every event is an operation, not a document.** A broker applies documents, the last one wins; so a document that was computed
from an old one undoes what came between. We read the same log as operations and keep the *head*: of an event of ours its mask says what it
changes, of a broker's event the documents before it do (``inference``). Where the *raw document*, which brokers show, differs from the
head, a *repair* restates the head. So nobody's change is undone, however late its document was computed, and all who read the same
prefix of the log have the same head and the same version.

What an event does, by its writer::

    ours      seen before, by its id or its request's        nothing: DUPLICATE
              its conditions do not hold for the head        nothing: REJECTED_ETAG, SKIPPED_ABSENT, REJECTED_READS
              operation                                      its masked settings and list operations; DELETE: no document any more
              REPAIR, TOMBSTONE                              nothing to a head that is right (``core/fold/joining``): RESTATED
    broker's  message without a value, DELETE                no document any more
              INSERT                                         all its settings; brokers keep the document that they have
              UPDATE                                         the inferred change
              NONE                                           nothing; but compaction would leave nothing else, so a repair is due
    unreadable                                               nothing

**Conditions** are judged when the event is folded, by everybody alike: ``etag`` against the version, ``reads`` against the settings that
the computation relied on. Of an absence, different sidecars may hold different versions, because compaction forgets it; so the only etag
that matches it is ``ABSENT``, and a writer whose caller named the absence's version stamps that.

**A repair is due** when somebody who knows nothing but the newest event (a broker that starts, a sidecar that joins after compaction)
would get another document, or another version, than the head, or would take a request for applied that is not, or, where the event is
ours, would not know one that is; or when running brokers show another document. The repair of an absence is a TOMBSTONE. An absence
needs none once a message without a value stands.

**Repairs end.** An operation makes one due once. A repair of the very head that a reader has makes another one due only for who has seen
more than its writer, or as much, and remembers requests that it lacks. Who had seen less takes over what such an answer carries, and
of equals each adds what the other one carries (``core/fold/joining``). So from answer to answer the beginnings get earlier, or
more requests are carried, ``REMEMBERED_REQUESTS`` at most. Of other heads the one is believed who has seen more.

**Another cluster's events** are operations too, but positions of its log mean nothing here: in place of an etag the digest of the whole
document is judged, which a GLOBAL event with an etag names in ``reads``; and what they remember has no versions. Each cluster repairs its
own log, whatever event made that due, and repairs are not replicated: so nothing goes to and fro, and a replicated event that was
computed from an old base undoes nothing here either. A restatement of another log says nothing about this one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import NamedTuple

from ..policies.documents import Settings, differing
from ..policies.events import Action, Event, Placed, Remembered, Stamp, StampKind
from .inference import Inference, compares, infer
from .joining import believe, certain, follow, join, learn, sight, taught, without_versions
from .keystate import ALONE, REMEMBERED_REQUESTS, WINDOW_MS, KeyState, Noted, Owed, Superseded, absent_since, repair_due, restatement
from .operation import Folded, Status, applies, apply, changed_by, judge, move, pipelined
from .overlap import OWED_MS, infer_overlapping

__all__ = [
    "FoldContext",
    "Folded",
    "KeyState",
    "Status",
    "absent_since",
    "fold",
    "repair_due",
    "restatement",
    "sight",
]


class FoldContext(NamedTuple):
    """What the fold must know besides the log."""

    window_ms: int = WINDOW_MS
    """W, in milliseconds."""
    joining: bool = False
    """Whether a log that may have been compacted is read for the first time: a key's first event need not be the first of its history."""
    sole_writer: bool = False
    """Whether this sidecar's events are the only ones in the log: then nothing is ever stale, and no raw documents are kept."""
    in_place: bool = False
    """Whether the brokers change the documents in their caches in place (``core/fold/overlap``)."""
    joined_at: int | None = None
    """When the log was opened, in milliseconds since 1970 by its clock, if it may have been compacted before: then no key's history is
    taken to begin with the first event that is seen (``core/fold/joining``). None: it does, but for what is read while joining."""


_SHARED = FoldContext()
_ID: Callable[[Remembered], str] = itemgetter(0)
"""A request's id."""


def fold(state: KeyState, placed: Placed, context: FoldContext = _SHARED, computed_on: Settings | None = None) -> Folded:
    """Folds the next event of a key, in log order, into its state.

    Each position is folded once: the caller skips what it has already folded.

    Args:
        state: the key's.
        placed: the event.
        context: what is to be known besides.
        computed_on: of an event that this process computed, for a request that was not applied before, the document from which it did.
            While that very object is the head, it is known what the event does: it need not be found out. None: nothing is said.
    """
    event = placed.event
    if event is None:
        return Folded(Status.IGNORED, state.version, state.version)
    stamp = event.stamp
    first = False
    if state.newest is None:
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
        folded = _operation(state, placed, event, stamp, context, first, computed_on)
    else:
        folded = _restated(state, placed, event, stamp, context, first)
    if not context.sole_writer:
        state.upto = placed.position
    return folded


def _goes_on(stamp: Stamp | None) -> bool:
    """Whether a key's first event after joining shows that there was a document: a tombstone that came too early was compacted."""
    if stamp is None:
        return False
    return stamp.kind is StampKind.REPAIR or (stamp.base != "" and not pipelined(stamp))  # its base may be on its way, on no document


def _operation(
    state: KeyState, placed: Placed, event: Event, stamp: Stamp, context: FoldContext, first: bool, computed_on: Settings | None
) -> Folded:
    """An event of ours that changes something."""
    document = event.document
    sure = False
    if stamp.event_id == state.newest or (state.seen is not None and stamp.event_id in state.seen):
        request = state.remembers(stamp.request_id)
        folded = Folded(Status.DUPLICATE, request.version if request else "", request.previous if request else "")
    elif computed_on is not None and computed_on is state.document and context.sole_writer and applies(state, event, stamp):
        folded = apply(state, placed, stamp, document, stamp.base not in (state.version, state.head_event))
    else:
        if first:
            state.remembered = without_versions(stamp.remembered) if event.replicated else tuple(stamp.remembered)
        if first and stamp.base:  # what it was computed from was not seen: its word is taken for all of it
            state.version = ""  # what it was applied to is not told
            state.remembered = tuple(request for request in state.remembered if request.request_id != stamp.request_id)  # it is once
            folded = apply(state, placed, stamp, None if stamp.kind is StampKind.DELETE else document or {})
        else:
            told = None
            if stamp.seen is not None and not event.replicated:
                told = taught(state, placed, stamp, None if stamp.kind is StampKind.DELETE else document or {})
            folded = told or judge(state, placed, event, stamp)
            sure = told is not None or certain(state, placed.published_at, context.window_ms, stamp=None if event.replicated else stamp)
        if state.joined is not None or state.since:
            follow(state, Noted(placed, certain=sure), context.window_ms)
    knows_before = not (first and stamp.base)
    state.advance(document, stamp.event_id, placed.published_at, context.window_ms, context.sole_writer, knows_before=knows_before)
    head = state.document
    if head is None:
        state.due = document is not None
    else:
        skipped = stamp.skip_if_absent and not stamp.base  # by who sees it alone
        wrong = not folded.changed or (head is not document and head != document) or skipped
        state.due = wrong or _misremembers(state, stamp, folded.stale or event.replicated)
    return folded


def _misremembers(state: KeyState, stamp: Stamp, elsewhere: bool) -> bool:
    """Whether an event that was applied, seen alone, tells of other requests than were applied.

    It may lack what its writer had not seen, and carry what was on its way before it and never came. Who wrote on this very head, and
    has seen as much as we have, carries what we remember.
    """
    on_its_way = pipelined(stamp)
    if not (on_its_way or elsewhere or not stamp.base or (stamp.seen is not None and stamp.seen.since > state.since)):
        return False
    before = state.remembered[:-1]
    carried = stamp.remembered
    forgotten = len(carried) - len(before)  # for this one's sake
    in_line = forgotten == 0 or (forgotten == 1 and len(carried) == REMEMBERED_REQUESTS)
    if stamp.request_id and in_line and list(map(_ID, carried[forgotten:])) == list(map(_ID, before)):
        return False  # mostly so, and quick
    known = set(map(_ID, state.remembered))
    if _lacks(known, stamp):
        return True
    if not on_its_way:
        return False
    recent = len(known) < REMEMBERED_REQUESTS  # if not, the first may have been forgotten since
    for request in carried:
        if request.request_id in known:
            recent = True
        elif recent and not request.version:
            return True
    return False


def _lacks(known: set[str], stamp: Stamp) -> bool:
    """Whether who sees an event alone does not know all of these requests: it does one of them again when it is repeated."""
    carried = [request_id for request_id in map(_ID, stamp.remembered) if request_id != stamp.request_id]
    if stamp.request_id:
        carried = [*carried[1 - REMEMBERED_REQUESTS :], stamp.request_id]
    return not known.issubset(carried)


def _restated(state: KeyState, placed: Placed, event: Event, stamp: Stamp, context: FoldContext, first: bool) -> Folded:
    """A head, as its writer knew it."""
    document = event.document
    claimed = None if stamp.kind is StampKind.TOMBSTONE else document
    head, version = state.document, state.version
    if event.replicated:
        pass
    elif first or state.joined is ALONE:  # its writer had seen more
        believe(state, claimed, stamp)
        version = "" if first else version
    elif state.newest is not None:
        learn(state, claimed, stamp)
    state.advance(document, stamp.event_id, placed.published_at, context.window_ms, context.sole_writer, knows_before=not first)
    if state.document is None:
        state.due = document is not None
    else:
        wrong = state.document != claimed or state.version != stamp.head_version
        state.due = wrong or _lacks(set(map(_ID, state.remembered)), stamp)
    changed = state.version != version or state.document != head
    return Folded(Status.RESTATED, state.version, version, changed)


def _broker_event(state: KeyState, placed: Placed, event: Event, context: FoldContext, first: bool) -> Folded:
    """An event of a broker: the document that it came to, from which what it meant is told."""
    document = event.document
    if event.action is Action.NONE:
        state.due = state.document is not None or state.live is not None
        return Folded(Status.IGNORED, state.version, state.version)
    if document is None or event.action is Action.DELETE:
        return _gone(state, placed, context)
    if first:
        follow(state, Noted(placed, certain=False), context.window_ms)
        folded = move(state, placed, document)._replace(previous="")
        state.advance(document, "", placed.published_at, context.window_ms, context.sole_writer)
        state.due = False
        return folded
    if event.action is Action.INSERT:
        changed = [name for name in document if compares(name, event.known)]
        on_absence = sure = True
        result = changed_by(state.document, document, changed, on_absence=True)
        folded = move(state, placed, result)
        if state.live is None:
            state.advance(document, "", placed.published_at, context.window_ms, context.sole_writer)
    else:
        older = () if context.sole_writer or state.older is None else state.older
        oldest = placed.published_at - context.window_ms
        inferred = _inferred(state, placed, document, older, oldest, event.known, context)
        changed = inferred.changed
        sure = certain(state, placed.published_at, context.window_ms, inferred=inferred)
        on_absence = inferred.base is None
        result = changed_by(state.document, document, changed, on_absence=on_absence)
        folded = move(state, placed, result)._replace(unexplained=inferred.unexplained, ambiguous=inferred.ambiguous)
        state.advance(document, "", placed.published_at, context.window_ms, context.sole_writer)
    follow(state, Noted(placed, changed, on_absence, sure), context.window_ms)
    state.due = result != document or result != state.live
    stale = result is not document and any(compares(name, event.known) for name in differing(result, document))
    return folded._replace(settings=tuple(changed), stale=stale)


def _inferred(
    state: KeyState,
    placed: Placed,
    document: Settings,
    older: Sequence[Superseded],
    oldest: int,
    known: frozenset[str] | None,
    context: FoldContext,
) -> Inference:
    if not context.in_place:
        return infer(document, state.live, older, state.document, known, oldest)
    owed = 0 if state.owed is None or state.owed.until < placed.published_at else state.owed.events
    newest = Superseded(state.live, placed.published_at, state.newest or "")
    inferred = infer_overlapping(document, newest, older, state.document, known, oldest, owed)
    owed = max(owed + len(inferred.changed) - 1, 0)
    state.owed = Owed(owed, placed.published_at + OWED_MS) if owed else None
    return inferred


def _gone(state: KeyState, placed: Placed, context: FoldContext) -> Folded:
    """A broker removed the document. Where there is none the head stays as it is: one absence is like another."""
    folded = Folded(Status.IGNORED, state.version, state.version)
    if state.document is not None:
        folded = move(state, placed, None)
    follow(state, Noted(placed), context.window_ms)
    state.advance(None, "", placed.published_at, context.window_ms, context.sole_writer)
    state.due = False
    return folded
