"""Builds the event of an update: the document that brokers apply, and the stamp that makes the event an operation (``core/fold/fold``)."""

from __future__ import annotations

from itertools import islice, takewhile

from .. import rules
from ..fold.fold import KeyState
from ..fold.keystate import REMEMBERED_REQUESTS
from ..names import Scope
from ..policies.documents import WHOLE, Settings, whole_digest
from ..policies.events import ABSENT, Action, Event, Remembered, Stamp, StampKind
from .link import Link, State
from .request import Request


def event_of(
    request: Request,
    event_id: str,
    state: KeyState | None,
    before: Settings | None,
    after: Settings | None,
    in_flight: dict[str, Link],
) -> Event:
    """Returns the event of a request.

    Args:
        request: the update or delete.
        event_id: the id of the new event, a UUID.
        state: the fold's state of the key.
        before: the document that the request was applied to.
        after: the document after the request; None: the request deletes it.
        in_flight: the earlier links of the chain whose events are appended and not folded yet, in order, by event id.
    """
    change = request.change
    coming = on_their_way(in_flight) if in_flight else []
    reads: dict[str, str] = {}
    if change is not None:
        reads = change.reads(before)
        if judged := rules.reads(request.key, change, before, after or {}):
            reads |= judged
    stamp = Stamp(
        event_id,
        StampKind.DELETE if change is None else StampKind.UPDATE,
        request.request_id,
        request.digest,
        request.actor,
        request.reason,
        change.paths if change is not None else (),
        coming[-1].event_id if coming else state.base if state is not None else "",  # base
        (ABSENT if before is None else request.version) if request.conditional else None,  # etag
        request.skip_if_absent or request.exists is True,
        reads,
        change.operands if change is not None else {},
        carried(state, coming),
        "",  # head_version
        state.history if state is not None else None,  # seen
        request.principal,
        request.claimed,
        request.trace.parent,
        request.trace.state,
    )
    if request.version and request.key.scope is Scope.GLOBAL:  # other clusters can't judge a version of this log
        stamp = stamp._replace(reads={**stamp.reads, WHOLE: whole_digest(before)})
    return Event(request.key, Action.UPDATE, after if after is not None else {}, stamp)


def on_their_way(in_flight: dict[str, Link]) -> list[Link]:
    """Returns the last links whose events may still be folded, as many as there are requests to carry, in order.

    Overtaken events are not in the log: nothing that is computed now may rest on them. They stand before all others.
    """
    links = takewhile(lambda link: link.state is not State.OVERTAKEN, reversed(in_flight.values()))
    return list(islice(links, REMEMBERED_REQUESTS))[::-1]


def carried(state: KeyState | None, coming: list[Link]) -> tuple[Remembered, ...]:
    """Returns the requests that an event carries: those that were applied last, then those whose events are in flight before it."""
    known = state.remembered if state is not None else ()
    if not coming:
        return known
    last = [link.carried for link in coming]
    return (*known[len(last) - REMEMBERED_REQUESTS :], *last) if len(last) < REMEMBERED_REQUESTS else tuple(last)
