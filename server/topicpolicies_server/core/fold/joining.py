"""Heads of keys whose history was not seen from the beginning: what they may do, and whose word they take.

A sidecar that starts to read a compacted log sees one event of many. It takes that event's document as the head and the event as its
version. Both may be wrong: the event may have been stale, or rejected, and the repair that says so may come at any time: its writer may
have been paused, its namespace may have been loading, its log out of reach. So such a head is a *guess*, and time makes no knowledge of it.

**Who has seen more is believed.** A key's state says since which event its head rests on all of the key's history (``KeyState.since``): the
beginning, or the first event that was seen. Every event of ours carries how much its writer had seen (``Stamp.seen``), and of two writers
the one with the earlier beginning has seen all that the other has, and more. So when an event of a writer who had seen more arrives::

    REPAIR, TOMBSTONE   its head is taken, and what its writer had not seen yet is folded again on top
    operation           its document is taken, if its writer had seen everything up to it; else it is judged like any other
    what it tells is known from then on as it was known to its writer, unless something between may be missing

A writer who had not seen our first event yet teaches us nothing, as what stood between would be lost; it sees that we differ, and says it
again. A restatement of a writer who had seen less, or does not say, is no news: where it differs, a repair is due. Of equal writers both
are right, as the fold is a function of the log. Should they disagree nevertheless (two releases with different rules), the
third contradiction is believed, so that nothing goes to and fro for ever.

**A guess may be written.** Where a guess and the raw document differ, a repair is due at once, as for any head: somebody's change came
after the guess was made and was undone by a stale document. If the guess is wrong its repair is too, but it says how little its writer had
seen: nobody who has seen more believes it, and whoever starts later believes those who have seen more, however late their word comes.

**What was not seen can't explain.** A broker's event is computed from a raw document of the last W. For so long after the first event that
was seen, the right one may be missing, and the change that is inferred may be wrong. A head that had been taken from somebody who knew
more rests then on what was seen here, until that one speaks again. Explanations by a document that was seen are as good as anybody's,
because the newest is believed.

An example: X was there from the beginning, the log is compacted behind 4, and Y starts then.

=====  ======================  ========================================  ========================
place  event                   X, who has seen all of it                 Y, who joins behind 4
=====  ======================  ========================================  ========================
1      broker {ttl 1}          {ttl 1}
2      broker {ttl 1, rate 2}  {ttl 1, rate 2}
3      broker {ttl 1, size 3}  {ttl 1, rate 2, size 3}, a repair is due
4      broker {size 3}         {rate 2, size 3}, a repair is due         {size 3}, since 4
5      broker {size 3, max 5}  {rate 2, size 3, max 5}, a repair is due  {size 3, max 5}, since 4
6      X's repair              {rate 2, size 3, max 5}                   {rate 2, size 3, max 5}
=====  ======================  ========================================  ========================

- 3 was computed from 1, and undid the rate of 2. X sees that, and a repair is due; something holds it up.
- 4 was computed from 3 by a broker that clears the ttl. Compaction leaves nothing else, so it is all that Y has: a guess, which rests on
  what came since 4.
- 5 changes one setting for both. Y does not know that anything is missing, and has no repair to write.
- X's repair says that it had seen all from the beginning to 5. That is more than Y, who takes its head, and knows from then on what X
  knows.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from ..policies.documents import Settings
from ..policies.events import Action, Placed, Position, Remembered, Stamp
from .inference import Inference
from .keystate import ALONE, RECENT_EVENTS, REMEMBERED_REQUESTS, WINDOW_MS, Joined, KeyState, Noted
from .operation import Folded, apply, changed_by, conditional, judge, move, pipelined

BELIEVED_AFTER = 3
"""As often must a version be restated as something else, by those who have seen as much, before that is believed."""
_TRAIL_SLACK = 64
"""A trail is looked through for what is too old when it has grown by this."""


def join(state: KeyState, placed: Placed, joined_at: int | None, window_ms: int = WINDOW_MS) -> None:
    """A key is first seen, in a log that was not read from its beginning.

    Args:
        state: the key's, as yet without an event.
        placed: its first event.
        joined_at: when reading began, in milliseconds since 1970: what is published more than W later misses nothing. None: it always may.
        window_ms: W, in milliseconds.
    """
    state.since = first = placed.position
    late = joined_at is not None and placed.published_at >= joined_at + window_ms
    state.joined = Joined(dropped=first) if late else Joined(first, placed.published_at, first)


def sight(state: KeyState, now: int, window_ms: int = WINDOW_MS) -> bool:
    """Whether nothing that brokers may compute from is missing any more; lets go of what is of no use after that.

    Args:
        state: any key's.
        now: milliseconds since 1970, by the log's clock.
        window_ms: W, in milliseconds.
    """
    known = state.joined
    if known is None or known is ALONE:
        return True
    if not state.sighted(now, window_ms):
        return False
    newest = known.trail[-1].placed.published_at if known.trail else known.first_at
    if newest < now - 2 * window_ms:  # clocks may differ by W
        state.joined = None
    return True


def follow(state: KeyState, noted: Noted, window_ms: int) -> None:
    """Notes an event of a key whose history was not seen from its beginning; the state's ``upto`` is that before the event."""
    known = state.joined
    if known is ALONE or (known is None and not state.since):
        return
    if known is None:
        known = state.joined = Joined(dropped=state.upto)
    at = noted.placed.published_at
    if known.first and state.sighted(at, 2 * window_ms):
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


def certain(state: KeyState, at: int, window_ms: int, *, stamp: Stamp | None = None, inferred: Inference | None = None) -> bool:
    """Whether what was just made of an event is what anybody would make of it who knew the head as we do, and had seen more.

    If not, a head that had been taken from somebody who knew more rests on what was seen here.

    Args:
        state: the key's, before the event counts as folded.
        at: when the event was published, in milliseconds since 1970.
        window_ms: W, in milliseconds.
        stamp: of an event of ours. It may be the copy of one that was judged before seeing began.
        inferred: what was inferred from a broker's event. Its true base may have been there before seeing began.
    """
    known = state.joined
    if known is None or not known.first or state.sighted(at, 2 * window_ms):  # clocks may differ by W
        return True
    if stamp is not None and stamp.seen is not None and stamp.seen.upto >= known.first:
        return True
    if inferred is not None and inferred.base is not None and inferred.certain:
        return True
    state.since = max(state.since, known.first)
    return False


def learn(state: KeyState, claimed: Settings | None, stamp: Stamp) -> None:
    """Takes a restatement of ``claimed`` for what it tells about the head, if anything."""
    if claimed == state.document and (claimed is None or stamp.head_version == state.version):
        if _has_seen_more(state, stamp):
            same = claimed is not None  # else it may be an older absence
            state.remembered = _completed(state, stamp) if same else _remembered(state, stamp)
            _know(state, stamp)
        elif stamp.seen is not None and stamp.seen.since == state.since:
            state.remembered = _remembered(state, stamp)
        return
    if not (_has_seen_more(state, stamp) or _insists(state, stamp)):
        return
    assert stamp.seen is not None, "its writer said what it had seen"
    upto = stamp.seen.upto
    later = _after(state, upto)
    if later is None:
        return  # it comes too late to be told apart from what followed it; its writer sees that too, and repeats it
    state.remembered = tuple(request for request in state.remembered if request.version <= upto)  # the others are applied again
    believe(state, claimed, stamp)
    if all(noted.certain for noted in later):
        _know(state, stamp)
    _fold_again(state, later)


def taught(state: KeyState, placed: Placed, stamp: Stamp, document: Settings | None) -> Folded | None:
    """Takes the document of an operation whose writer had seen more of the key than we have, and everything up to it; None: it had not."""
    if not _has_seen_more(state, stamp):
        return None
    assert stamp.seen is not None, "its writer had seen more"
    if not _stands_on_its_own(state, stamp, stamp.seen.upto):
        return None
    state.remembered = _completed(state, stamp)
    folded = apply(state, placed, stamp, document, stale=False)
    _know(state, stamp)
    return folded


def believe(state: KeyState, claimed: Settings | None, stamp: Stamp) -> None:
    """Takes the head and its version from a restatement."""
    state.document = claimed
    state.version = state.head_event = stamp.head_version
    state.remembered = _completed(state, stamp)


def _has_seen_more(state: KeyState, stamp: Stamp) -> bool:
    """Whether the writer of an event had seen what goes before all that we have seen."""
    return stamp.seen is not None and stamp.seen.since < state.since


def _insists(state: KeyState, stamp: Stamp) -> bool:
    """Whether somebody who has seen as much has contradicted us often enough."""
    if stamp.seen is None or stamp.seen.since != state.since or stamp.seen.upto < state.upto:
        return False
    state.contradictions += not state.due  # a copy of a contradiction is none
    return state.contradictions >= BELIEVED_AFTER


def _know(state: KeyState, stamp: Stamp) -> None:
    """What an event told is known as it was known to its writer, unless compaction kept from us what came between."""
    first = state.joined.first if state.joined is not None else ""
    if stamp.seen is not None and stamp.seen.upto >= (first or state.since):
        state.since = stamp.seen.since


def _after(state: KeyState, upto: Position) -> list[Noted] | None:
    """What followed an event; None if not all of it was seen, or is kept."""
    if upto >= state.upto:
        return []
    known = state.joined
    if known is None or upto < known.dropped:
        return None
    return known.trail[bisect_right(known.trail, upto, key=_position) :]


def _position(noted: Noted) -> Position:
    return noted.placed.position


def _stands_on_its_own(state: KeyState, stamp: Stamp, upto: Position) -> bool:
    """Whether an operation certainly came to its document.

    It did if, since what its writer had seen, nothing came but operations of that same writer, each computed from the one before and
    without conditions, and this one from the last; and if each has a request of its own, as a repeat of one that was on its way
    changes nothing.
    """
    later = _after(state, upto)
    if later is None or (stamp.skip_if_absent and not stamp.base):
        return False
    requests = {stamp.request_id}
    for noted in reversed(later):
        before = noted.placed.event.stamp if noted.placed.event is not None else None
        if before is None or before.event_id != stamp.base or conditional(stamp) or conditional(before):
            return False
        if before.request_id:
            if before.request_id in requests:
                return False
            requests.add(before.request_id)
        stamp = before
    return not pipelined(stamp)  # else something is missing that was on its way


def _remembered(state: KeyState, stamp: Stamp) -> tuple[Remembered, ...]:
    """What is remembered after a restatement: of what was on its way when we joined, only what its writer knows to have come.

    An older absence than ours may be restated late: what was applied since is the newest all the same.
    """
    ours = {request.request_id: request for request in state.remembered if request.version}
    told = {request.request_id: request if request.version else ours.get(request.request_id, request) for request in stamp.remembered}
    older, newer = (told, ours) if stamp.head_version < state.version else (ours, told)
    return (*(request for request_id, request in older.items() if request_id not in newer), *newer.values())[-REMEMBERED_REQUESTS:]


def _completed(state: KeyState, stamp: Stamp) -> tuple[Remembered, ...]:
    """What somebody remembers who had seen more; where he did not know yet what became of a request, as we know it."""
    ours = {request.request_id: request for request in state.remembered}
    return tuple(request if request.version else ours.get(request.request_id, request) for request in stamp.remembered)


def without_versions(requests: Sequence[Remembered]) -> tuple[Remembered, ...]:
    """Remembered requests of another cluster, whose positions mean nothing here."""
    return tuple(Remembered(request.request_id, request.digest, "", "") for request in requests)


def _fold_again(state: KeyState, later: Sequence[Noted]) -> None:
    """Folds what a writer had not seen once more, on top of what it restated."""
    for noted in later:
        placed, event = noted.placed, noted.placed.event
        assert event is not None, "only events are noted"
        if event.stamp is not None:
            judge(state, placed, event, event.stamp)
        elif event.document is not None and event.action is not Action.DELETE:
            move(state, placed, changed_by(state.document, event.document, noted.changed, on_absence=noted.on_absence))
        elif state.document is not None:
            move(state, placed, None)
