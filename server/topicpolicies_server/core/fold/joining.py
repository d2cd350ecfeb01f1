"""Heads of keys whose history was not read from the beginning: when they are corrected, and which writer is believed.

A sidecar that starts to read a compacted log sees one event of many. It takes that event's document as the head and the event as the head's
version. Either may be wrong: the event may have been stale, or rejected, and the repair that says so may come at any time, because its
writer may have been paused or loading the namespace, or may not have reached the log. So such a head is a *guess*, however old it gets.

**The writer that has seen more is believed.** A key's state says since which event its head rests on all of the key's history
(``KeyState.since``): since the beginning, or since the first event that was seen. Every event of ours carries how much its writer had seen
(``Stamp.history``), and of two writers the one with the earlier beginning has seen all that the other has, and more. When an event of a
writer that had seen more than the reader arrives, the reader does this::

    REPAIR, TOMBSTONE   takes the head from it, and folds again, on top, the events that its writer had not seen yet
    operation           takes its document, if its writer had seen everything up to it; else judges it like any other
    either              takes over its writer's ``since``, unless events between what that writer saw and the first one seen here may be
                        missing

A restatement by a writer that had not seen our first event yet teaches us nothing, because the events in between would be lost. If it
differs from our head, a repair is due here, which says how little we have seen, and that writer answers it with a restatement that we take.

A restatement by a writer that had seen less, or does not say how much, is no news: if it differs from the head, a repair is due. Of two
writers that have seen as much both are right, because the fold is a function of the log. Should they differ nevertheless (two releases with
different rules), the third contradiction is believed, so that repairs do not go on for ever.

**A guess may be written.** If a guess and the raw document differ, a repair is due at once, as for any head: a change came after the guess
was made and was undone by a stale document. If the guess is wrong the repair is wrong too, but it says how little its writer had seen: no
sidecar that has seen more believes it, and every sidecar that starts later believes those that have seen more, however late they write.

**An event that was not seen can't explain another one.** A broker's event is computed from a raw document of the last W. Within W after the
first event that was seen, the right document may be missing here, and the inferred change may be wrong. A head that had been taken from a
writer that knew more then rests only on what was seen here, until that writer restates it. An explanation by a document that was seen is
as good here as anywhere, because the newest explanation is believed.

An example: X was there from the beginning, the log is compacted after 4, and Y starts then.

=====  ======================  ========================================  ========================
place  event                   X, who has seen all of it                 Y, who joins after 4
=====  ======================  ========================================  ========================
1      broker {ttl 1}          {ttl 1}
2      broker {ttl 1, rate 2}  {ttl 1, rate 2}
3      broker {ttl 1, size 3}  {ttl 1, rate 2, size 3}, a repair is due
4      broker {size 3}         {rate 2, size 3}, a repair is due         {size 3}, since 4
5      broker {size 3, max 5}  {rate 2, size 3, max 5}, a repair is due  {size 3, max 5}, since 4
6      X's repair              {rate 2, size 3, max 5}                   {rate 2, size 3, max 5}
=====  ======================  ========================================  ========================

- 3 was computed from 1, and undid the rate of 2. X sees that, and a repair is due; something delays the repair.
- 4 was computed from 3 by a broker that clears the ttl. Compaction leaves only 4, so Y's head is a guess, which rests on what came since 4.
- 5 changes one setting, for X and for Y. Y does not know that anything is missing, and has no repair to write.
- X's repair, 6, says that X had seen everything from the beginning to 5. That is more than Y has seen, so Y takes the head from the repair,
  and from then on Y's state, too, rests on the history from its beginning.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from ..policies.documents import Document
from ..policies.events import Action, Placed, Position, Remembered, Stamp
from .inference import Inference
from .keystate import ALONE, RECENT_EVENTS, REMEMBERED_REQUESTS, WINDOW_MS, Joined, KeyState, TrailEvent
from .operation import Folded, apply, changed_by, move, operate, pipelined

BELIEVED_AFTER = 3
"""How often writers that have seen as much must restate a version as something else before the restatement is believed."""
_TRAIL_SLACK = 64


def join(state: KeyState, placed: Placed, joined_at: int | None, window_ms: int = WINDOW_MS) -> None:
    """Notes the first event that is seen of a key, in a log that was not read from its beginning.

    ``joined_at``: when reading began, in milliseconds since 1970: no document that an event published W later or more may be computed from
    is missing. None: one always may be.
    """
    state.since = first = placed.position
    late = joined_at is not None and placed.published_at >= joined_at + window_ms
    state.joined = Joined(dropped=first) if late else Joined(first, placed.published_at, first)


def note_in_trail(state: KeyState, noted: TrailEvent, window_ms: int) -> None:
    """Adds an event to the trail of a key whose history was not seen from its beginning; ``state.upto`` must still be the event before."""
    known = state.joined
    if known is ALONE or (known is None and not state.since):
        return
    if known is None:
        known = state.joined = Joined(dropped=state.upto)
    at = noted.placed.published_at
    if known.first and state.all_seen(at, 2 * window_ms):
        known.dropped, known.first, known.first_at = max(known.dropped, known.first), "", 0
    trail = known.trail
    trail.append(noted)
    if len(trail) % _TRAIL_SLACK == 0:
        count = max(len(trail) - RECENT_EVENTS, 0)
        while trail[count].placed.published_at < at - window_ms:
            count += 1
        if count:
            known.dropped = trail[count - 1].placed.position
            del trail[:count]


def check_certainty(state: KeyState, at: int, window_ms: int, *, stamp: Stamp | None = None, inferred: Inference | None = None) -> bool:
    """Returns whether a sidecar that had the same head and had seen more would fold an event to the same result.

    If not, the head rests only on what was seen here from now on (``state.since`` is set), even if it had been taken from a writer that
    knew more. An event of ours may be the copy of one that was folded before the first event that was seen here; the true base of a
    broker's event may have stood before that one.

    ``state``: with ``upto`` still at the event before; ``inferred``: what was inferred from a broker's event.
    """
    known = state.joined
    if known is None or not known.first or state.all_seen(at, 2 * window_ms):  # clocks may differ by W
        return True
    if stamp is not None and stamp.history is not None and stamp.history.upto >= known.first:
        return True
    if inferred is not None and inferred.base is not None and inferred.certain:
        return True
    state.since = max(state.since, known.first)
    return False


def learn_from_operation(state: KeyState, placed: Placed, stamp: Stamp, document: Document | None) -> Folded | None:
    """Takes the document of an operation whose writer had seen more of the key than we have, and everything up to the operation.

    Returns None, and takes nothing, if the writer had not, or if the document is not certainly the result: the operation was computed from
    an event that was on its way, or repeats a request that was applied before, or there was no document to change.
    """
    if not has_seen_more(state, stamp):
        return None
    assert stamp.history is not None, "its writer had seen more"
    if _after(state, stamp.history.upto) != [] or pipelined(stamp) or (stamp.skip_if_absent and not stamp.base):
        return None
    if any(request.version and request.request_id == stamp.request_id for request in stamp.remembered):
        return None
    state.remembered = _completed(state, stamp)
    folded = apply(state, placed, stamp, document, stale=False)
    _know(state, stamp)
    return folded


def learn_from_restatement(state: KeyState, claimed: Document | None, stamp: Stamp) -> None:
    """Takes over what a restatement of ``claimed`` says about the head, if its writer is to be believed."""
    if claimed == state.document and (claimed is None or stamp.head_version == state.version):
        if not has_seen_more(state, stamp):
            if stamp.history is not None and stamp.history.since == state.since:
                state.remembered = _remembered(state, stamp)
            return
        assert stamp.history is not None, "its writer had seen more"
        later = _after(state, stamp.history.upto)
        if not later:
            same = claimed is not None or later is not None  # else it may be an older absence than ours
            state.remembered = _completed(state, stamp) if same else _remembered(state, stamp)
            _know(state, stamp)
            return
    elif not (has_seen_more(state, stamp) or _insists(state, stamp)):
        return
    assert stamp.history is not None, "its writer said what it had seen"
    upto = stamp.history.upto
    later = _after(state, upto)
    if later is None:
        return  # what followed is not all kept, so it can't be folded again on top; the writer sees that we differ, and repairs again
    state.remembered = tuple(request for request in state.remembered if request.version <= upto)  # _fold_again applies the others
    believe(state, claimed, stamp)
    if all(noted.certain for noted in later):
        _know(state, stamp)
    _fold_again(state, later)


def believe(state: KeyState, claimed: Document | None, stamp: Stamp) -> None:
    """Takes the head and its version from a restatement."""
    state.document = claimed
    state.version = state.head_event = stamp.head_version
    state.remembered = _completed(state, stamp)


def has_seen_more(state: KeyState, stamp: Stamp) -> bool:
    """Returns whether the writer of an event had seen the key's history from an earlier event on than we have."""
    return stamp.history is not None and stamp.history.since < state.since


def _insists(state: KeyState, stamp: Stamp) -> bool:
    """Returns whether writers that have seen as much as we have contradicted this version often enough; counts this contradiction."""
    if stamp.history is None or stamp.history.since != state.since or stamp.history.upto < state.upto:
        return False
    state.contradictions += not state.repair_due  # while a repair is due already this may be a copy, which does not count
    return state.contradictions >= BELIEVED_AFTER


def _know(state: KeyState, stamp: Stamp) -> None:
    """Takes over the writer's ``since``, unless compaction has erased events between what the writer saw and the first one seen here."""
    first = state.joined.first if state.joined is not None else ""
    if stamp.history is not None and stamp.history.upto >= (first or state.since):
        state.since = stamp.history.since


def _after(state: KeyState, upto: Position) -> list[TrailEvent] | None:
    """Returns the events after a position; None: not all of them were seen, or are kept."""
    if upto >= state.upto:
        return []
    known = state.joined
    if known is None or upto < known.dropped:
        return None
    return known.trail[bisect_right(known.trail, upto, key=_position) :]


def _position(noted: TrailEvent) -> Position:
    return noted.placed.position


def _remembered(state: KeyState, stamp: Stamp) -> tuple[Remembered, ...]:
    """Returns the requests to remember after a restatement: those that it carries, and those with a version here.

    Requests without a version here were on their way when we joined, and may never have come. The restatement may be of an older absence
    than ours: then the requests applied here since are the newest nevertheless.
    """
    ours = {request.request_id: request for request in state.remembered if request.version}
    told = {request.request_id: request if request.version else ours.get(request.request_id, request) for request in stamp.remembered}
    older, newer = (told, ours) if stamp.head_version < state.version else (ours, told)
    return (*(request for request_id, request in older.items() if request_id not in newer), *newer.values())[-REMEMBERED_REQUESTS:]


def _completed(state: KeyState, stamp: Stamp) -> tuple[Remembered, ...]:
    """Returns the requests that a writer remembers that had seen more; those whose outcome it did not know yet as they are known here."""
    ours = {request.request_id: request for request in state.remembered}
    return tuple(request if request.version else ours.get(request.request_id, request) for request in stamp.remembered)


def without_versions(requests: Sequence[Remembered]) -> tuple[Remembered, ...]:
    """Returns the requests that another cluster remembers, without their versions: its positions mean nothing here."""
    return tuple(Remembered(request.request_id, request.digest, "", "") for request in requests)


def _fold_again(state: KeyState, later: Sequence[TrailEvent]) -> None:
    for noted in later:
        placed, event = noted.placed, noted.placed.event
        assert event is not None, "only events are noted"
        if event.stamp is not None:
            operate(state, placed, event, event.stamp)
        elif event.document is not None and event.action is not Action.DELETE:
            move(state, placed, changed_by(state.document, event.document, noted.changed, on_absence=noted.on_absence))
        elif state.document is not None:
            move(state, placed, None)
