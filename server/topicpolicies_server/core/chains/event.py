"""The event of an update: the document that brokers apply, and with it what makes it an operation."""

from __future__ import annotations

from itertools import islice

from .. import rules
from ..fold.fold import KeyState
from ..fold.keystate import REMEMBERED_REQUESTS
from ..names import Scope
from ..policies.documents import WHOLE, Settings, whole_digest
from ..policies.events import ABSENT, Action, Event, Remembered, Stamp, StampKind
from .link import Link
from .request import Request


def event_of(
    request: Request,
    event_id: str,
    state: KeyState | None,
    before: Settings | None,
    after: Settings | None,
    in_flight: dict[str, Link],
) -> Event:
    """The event of a request.

    Args:
        request: what is asked for.
        event_id: the event's own, a UUID.
        state: the key's, as the fold knows it.
        before: the document that it was computed from.
        after: the document that it came to; None: it deletes.
        in_flight: those before it whose place in the log is not known yet, in order, by the id of their event.
    """
    change = request.change
    last = next(reversed(in_flight), None)
    stamp = Stamp(
        event_id=event_id,
        kind=StampKind.DELETE if change is None else StampKind.UPDATE,
        request_id=request.request_id,
        digest=request.digest,
        actor=request.actor,
        reason=request.reason,
        mask=change.paths if change is not None else (),
        base=last if last is not None else state.base if state is not None else "",
        etag=(ABSENT if before is None else request.etag) if request.conditional else None,
        skip_if_absent=request.skip_if_absent,
        reads={**change.reads(before), **rules.reads(request.key, change, before, after or {})} if change is not None else {},
        operands=change.operands if change is not None else {},
        remembered=carried(state, in_flight),
        seen=state.history if state is not None else None,
    )
    if request.etag and request.key.scope is Scope.GLOBAL:  # a version of this log means nothing in other clusters
        stamp = stamp._replace(reads={**stamp.reads, WHOLE: whole_digest(before)})
    return Event(request.key, Action.UPDATE, after if after is not None else {}, stamp)


def carried(state: KeyState | None, in_flight: dict[str, Link]) -> tuple[Remembered, ...]:
    """The requests that an event carries: the last that were applied, and those that are on their way before it."""
    last = [link.carried for link in islice(reversed(in_flight.values()), REMEMBERED_REQUESTS)]
    last.reverse()
    known = state.remembered if state is not None else ()
    return (*known, *last)[-REMEMBERED_REQUESTS:]
