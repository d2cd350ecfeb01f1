"""Computing a request on the document before it: its answer, if it needs no event, or else its event.

The event has the document that brokers apply, and the stamp that makes it an operation (``core/fold/fold``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice, takewhile
from typing import NamedTuple

from topicpolicies.v1.policies_pb2 import TopicPolicies

from ..changes import constraints, rules
from ..errors import PolicyError, Violation
from ..fold.fold import KeyState
from ..fold.keystate import REMEMBERED_REQUESTS
from ..names import Scope
from ..policies import documents
from ..policies.documents import LISTS, MAPS, MOST_ELEMENTS, WHOLE, Document, Setting, elements, family, whole_digest
from ..policies.events import ABSENT, Action, Event, Position, Remembered, Stamp, StampKind
from ..policies.secrets import SETTING as OFFLOAD
from ..reasons import ViolationReason
from .link import AppendState, Link
from .request import Outcome, Request, Result, conflict

_CONFIGURATIONS = "managed_ledger_extra_configurations"


class Computed(NamedTuple):
    """What the event of a request must carry."""

    document: Document | None
    """The document after it; None: it deletes."""
    reads: Mapping[Setting, str]
    """Digests of the settings on which this depends (``Stamp.reads``)."""


def judge_request(request: Request, before: Document | None, version: Position) -> Result | PolicyError | Computed:
    """Judges a request against the document before it. Returns its answer, if it needs no event."""
    if (request.version and request.version != version) or (request.exists is not None and request.exists is (before is None)):
        return conflict(request, version)
    after: Document | None = None
    reads: Mapping[Setting, str] = {}
    if request.change is None:
        if before is None:
            return Result(Outcome.UNCHANGED, None, version, version)
    elif before is None and request.skip_if_absent:
        return Result(Outcome.SKIPPED, None, version, version)
    else:
        after, changed, reads, violations = request.change.applied(before)
        size = documents.size(after)
        if size > documents.MOST_BYTES:
            most = f"{documents.MOST_BYTES:,} bytes"
            problem = f"The document of {request.key.topic} would have more than {most}: name fewer subscriptions or clusters."
            violations.append(Violation("policies", ViolationReason.DOCUMENT_TOO_LARGE, problem))
        elif size > MOST_ELEMENTS:  # an element has at least one byte
            for path, count in crowded(before, after):
                problem = f"{path} would have {count:,} elements; at most {MOST_ELEMENTS:,} are allowed: remove some first."
                violations.append(Violation(f"policies.{path}", ViolationReason.TOO_MANY_ELEMENTS, problem))
        if request.constraints:
            violations += constraints.violations(request.constraints, changed, after)
        found, relied = rules.judge(request.key, changed, before, after, request.facts, request.change.operands)
        if violations or found:
            return rules.refused(found, violations)
        if not changed:
            return Result(Outcome.UNCHANGED, before, version, version, before=before)
        if relied:
            reads = {**reads, **relied}
    if request.validate_only:
        return Result(Outcome.WOULD_APPLY, after, version, version, before=before)
    return Computed(after, reads)


def crowded(before: Document | None, after: Document) -> Iterator[tuple[str, int]]:
    """Yields the path of each list or map with more than ``MOST_ELEMENTS``, and their number, if a change has made it longer.

    A list that others have made too long can still be made shorter, and other settings can be changed beside it.
    """
    old: Document = before or {}
    if len(after) > MOST_ELEMENTS:
        for name in sorted(MAPS.intersection(map(family, after.keys() - old.keys()))):
            count = _entries(name, after)
            if count > MOST_ELEMENTS and count > _entries(name, old):
                yield name, count
    for name in sorted(LISTS):
        value = after.get(name, b"")
        if len(value) > MOST_ELEMENTS and value != old.get(name):
            count = len(elements(value))
            if count > MOST_ELEMENTS and count > len(elements(old.get(name, b""))):
                yield name, count
    offload = after.get(OFFLOAD, b"")
    if len(offload) > MOST_ELEMENTS and offload != old.get(OFFLOAD):
        count = _configurations(offload)
        if count > MOST_ELEMENTS and count > _configurations(old.get(OFFLOAD, b"")):
            yield f"{OFFLOAD}.{_CONFIGURATIONS}", count


def _entries(name: str, settings: Document) -> int:
    return sum(family(setting) == name for setting in settings)


def _configurations(offload: bytes) -> int:
    return len(TopicPolicies.FromString(offload).offload_policies.managed_ledger_extra_configurations)


def event_of(
    request: Request, event_id: str, state: KeyState | None, before: Document | None, computed: Computed, in_flight: dict[str, Link]
) -> Event:
    """Returns the event of a request that was computed on the document ``before``; None: there is no document.

    ``in_flight``: the earlier links of the chain whose events are appended and not folded yet, in order, by event id.
    """
    change, (after, reads) = request.change, computed
    base, history = "", None
    remembered: tuple[Remembered, ...] = ()
    if state is not None:
        base, remembered, history = state.base, state.remembered, state.history
    if in_flight and (coming := on_their_way(in_flight)):
        base = coming[-1].event_id
        remembered = (*remembered, *(link.carried for link in coming))[-REMEMBERED_REQUESTS:]
    if request.version and request.key.scope is Scope.GLOBAL:  # other clusters can't judge a version of this log
        reads = {**reads, WHOLE: whole_digest(before)}
    stamp = Stamp(
        event_id,
        StampKind.DELETE if change is None else StampKind.UPDATE,
        request.request_id,
        request.digest,
        request.actor,
        request.reason,
        change.plan.paths if change is not None else (),
        base,
        (ABSENT if before is None else request.version) if request.conditional else None,  # etag
        request.skip_if_absent or request.exists is True,
        reads,
        change.operands if change is not None else {},
        remembered,
        "",  # head_version
        history,
        request.principal,
        request.claimed,
        request.owner,
        request.trace.parent,
        request.trace.state,
    )
    return Event(request.key, Action.UPDATE, after if after is not None else {}, stamp)


def on_their_way(in_flight: dict[str, Link]) -> list[Link]:
    """Returns the last links whose events may still be folded, as many as there are requests to carry, in order.

    Overtaken events are not in the log: nothing that is computed now may rest on them. They stand before all others.
    """
    links = takewhile(lambda link: link.state is not AppendState.OVERTAKEN, reversed(in_flight.values()))
    return list(islice(links, REMEMBERED_REQUESTS))[::-1]
