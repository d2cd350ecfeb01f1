"""Operations of which a newcomer takes the whole document, instead of applying what they change to the head that it has.

A newcomer is a reader that has not seen a key's history from the beginning (``core/fold/joining``). It does so in two cases::

    ``learn_from_operation``  the writer had seen more, and everything up to the operation: its document is the head, and certainly
    ``continue_from_first``   all events that were seen are the writer's own, each computed from the one before: its document is a guess,
                              as the head is that it replaces, and no worse

The second matters if the first event that was seen rests on one that was on its way and never came. The writer computed that event's
document as if the other had come, and learnt later that it had not. The operations after it show what the writer knew by then. A repair
may have been due after the first event, but none is after the last one, if that shows the right document to those who see nothing else.
"""

from __future__ import annotations

from ..policies.documents import Settings
from ..policies.events import Placed, Position, Stamp
from .joining import after, completed, has_seen_more, know
from .keystate import REMEMBERED_REQUESTS, KeyState
from .operation import Folded, apply, conditional, pipelined, restates


def learn_from_operation(state: KeyState, placed: Placed, stamp: Stamp, document: Settings | None) -> Folded | None:
    """Takes the document of an operation whose writer had seen more of the key than we have, and everything up to the operation.

    Returns None, and takes nothing, if the writer had not.
    """
    if not has_seen_more(state, stamp):
        return None
    assert stamp.seen is not None, "its writer had seen more"
    if not _stands_on_its_own(state, stamp, stamp.seen.upto):
        return None
    state.remembered = completed(state, stamp)
    folded = apply(state, placed, stamp, document, stale=False)
    know(state, stamp)
    return folded


def continue_from_first(state: KeyState, placed: Placed, stamp: Stamp, document: Settings | None) -> Folded | None:
    """Takes the document of an operation that goes on from the first event that was seen, if all events since are its writer's too.

    Each of them is an operation without conditions, computed from the one before, so nothing is known here that the writer did not know.
    Meanwhile it may have learnt that an event before the first one never came, or that there was another. Returns None, and takes nothing,
    if the head does not rest on that first event alone, if it is not so, or if the request may have been applied before.
    """
    known = state.joined
    trail = known.trail if known is not None else []
    if known is None or not trail or not trail[0].placed.position == known.dropped == state.since or not has_seen_more(state, stamp):
        return None
    if stamp.etag is not None or stamp.skip_if_absent or (stamp.request_id and state.remembers(stamp.request_id) is not None):
        return None
    base = stamp.base
    for noted in reversed(trail):
        event = noted.placed.event
        before = event.stamp if event is not None and not event.replicated else None
        if before is None or restates(before) or before.event_id != base or conditional(before):
            return None
        base = before.base
    state.remembered = completed(state, stamp)
    return apply(state, placed, stamp, document, stale=False)


def _stands_on_its_own(state: KeyState, stamp: Stamp, upto: Position) -> bool:
    """Returns whether an operation's result certainly is its document.

    It is if the only events after those that its writer had seen are operations of that same writer, without conditions, each computed
    from the one before, and this one from the last of them; and if each has a request of its own, which was not applied before, because
    a repeat changes nothing. The first of them was computed from a version, or from an event of which the writer knew by then what it had
    done; then the operation carries no other request as on its way, whose event its document might rest on and the log may lack. The
    settings that this one relies on are as they were when it was computed, but a version that it names may not be.
    """
    later = after(state, upto)
    if later is None or (stamp.skip_if_absent and not stamp.base):
        return False
    if later and (stamp.etag is not None or stamp.skip_if_absent):
        return False
    carried, requests, seen = stamp.remembered, {stamp.request_id}, upto
    for noted in reversed(later):
        before = noted.placed.event.stamp if noted.placed.event is not None else None
        if before is None or before.event_id != stamp.base or conditional(before):
            return False
        if before.request_id:
            known = state.remembers(before.request_id)
            if before.request_id in requests or (known is not None and known.version not in ("", noted.placed.position)):
                return False
            requests.add(before.request_id)
        seen = min(seen, before.seen.upto if before.seen is not None else "")
        stamp = before
    if len(carried) >= REMEMBERED_REQUESTS and later and not "" < carried[0].version <= seen:
        return False  # a request that was applied before its repeat in between may be missing among those that it carries
    if any(request.version and request.request_id in requests for request in carried):
        return False
    if not pipelined(stamp):
        return True
    complete = len(later) < REMEMBERED_REQUESTS and all(request.version or request.request_id in requests for request in carried)
    return complete and _is_up_to(state, stamp.base, upto)


def _is_up_to(state: KeyState, event_id: str, upto: Position) -> bool:
    """Returns whether an event of ours was seen here, at a position or before it."""
    trail = state.joined.trail if state.joined is not None else []
    events = (noted.placed.event for noted in trail if noted.placed.position <= upto)
    return any(event is not None and event.stamp is not None and event.stamp.event_id == event_id for event in events)
