"""The sequencer: one chain of updates per policy key, pipelined.

An update is computed on the document that the update before it in its chain produced, and its event is handed to the log at once; the
chain does not wait for the log. The result of the update is known when its event has been folded. Because every event is an operation
(``core/fold/fold``), an update that fails fails alone: the updates that were computed after it stay valid.

Three things make a request, and all behind it, wait in its chain: a full pipeline, a precondition on a version or on absence (the one
before it must be known), and an answer that writes nothing (it holds only if the events in flight before it succeed).

**An answer that writes nothing** is *confirmed* first where others write the log too: once the view has come to where the log ended after
the request arrived, the request is computed again, and written if the document now calls for it. A conflict with a version that the key has
left behind needs no confirmation, since versions only grow. One confirmation is of all requests of the key that had arrived by then.

**A failed append** does not prove that the event is not in the log. Events of one key stand in the log in the order in which they were
appended, so the next later event that is folded decides: what was not folded before it is not in the log. If no append is outstanding
that could decide, the last event is appended once more, under its own id; the fold counts it once.

A request whose event does not count (it is not in the log, or was rejected because another writer changed what it had read) is computed
again, behind the events that are in flight by then. Requests of one batch are applied in their order: if a later request of the batch has
an event by then, the request fails instead.

A dry run is a request like others, whose answer writes nothing.

Its caller reports what happens (``add``, ``withdraw``, ``folded``, ``failed``, ``confirmed``, ``reopened``, ``abandon``). The sequencer
passes each report to the chain of the key, and adds to its ``effects``. It does no I/O and keeps no time.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import takewhile
from typing import NamedTuple, TypeAlias

from ..errors import PolicyError
from ..fold.fold import Folded, KeyState, Status, restatement
from ..fold.operation import conditional
from ..names import PolicyKey
from ..policies.documents import Document
from ..policies.events import ABSENT, Event, Position, Remembered
from ..reading.view import View
from .computing import Computed, event_of, judge_request
from .link import OUTSTANDING, AppendState, EventReport, Link
from .request import (
    Outcome,
    Request,
    Result,
    conflict,
    contention,
    not_appended,
    not_confirmed,
    repeated,
    reused,
    too_many,
    unknown_outcome,
)

ATTEMPTS = 16
"""How often an update is computed again, because its event was lost or another writer changed what it had read, before it fails."""


class Append(NamedTuple):
    """Effect: hand an event to the log."""

    event: Event
    request: Request | None = None
    """The request of the event, if this is its first append; None: the event is appended once more, or is of no request (a restatement)."""


class Confirm(NamedTuple):
    """Effect: look up where the log ends, not before now; call ``Sequencer.confirmed`` once the view has come there."""

    request: Request


class Settled(NamedTuple):
    """Effect: a request has its answer."""

    request: Request
    answer: Result | PolicyError


Effect: TypeAlias = Append | Confirm | Settled


class Sequencer:
    """The chains of one namespace."""

    def __init__(self, ids: str, shared: Callable[[], bool], *, most_in_flight: int, most_waiting: int = 10_000) -> None:
        """Creates a sequencer without chains.

        ``ids``: the first 20 of the 32 hexadecimal digits of its events' ids; ``shared``: whether others write the log too, so that
        answers which write nothing have to be confirmed; ``most_in_flight``: events of one key that may be in flight; ``most_waiting``:
        requests of one key that may wait to be computed or confirmed.
        """
        self.view: View | None = None
        """What is known of the log: the view that answers, or answered last; None: none has, so nothing is known."""
        self.shared = shared
        self.most_in_flight = most_in_flight
        self.most_waiting = most_waiting
        self.effects: deque[Effect] = deque()
        """What is to be done, in this order, by whoever calls a method; each effect is then taken out."""
        self._ids, self._number = ids, 0
        self.chains: dict[PolicyKey, Chain] = {}
        """The chains of the keys that have a request without an answer; each leaves when its last one is answered."""
        self._added = 0

    @property
    def depth(self) -> int:
        """How many events of one key are in flight: the most of any key. Safe to call from other threads."""
        return max((chain.in_flight for chain in list(self.chains.values())), default=0)

    @property
    def waiting(self) -> int:
        """How many requests in the chains have no event: they wait to be computed or confirmed. Safe to call from other threads."""
        return sum(chain.waiting for chain in list(self.chains.values()))

    def busy(self, key: PolicyKey) -> bool:
        """Whether events of a key are in flight."""
        chain = self.chains.get(key)
        return chain is not None and chain.in_flight > 0

    def add(self, request: Request, state: KeyState | None) -> None:
        """Takes a new request. A repeat of a request that is remembered or in a chain gets the answer of that request."""
        chain = self.chains.get(request.key)
        self._added += 1
        first = chain.find_original(request) if chain is not None else None
        if first is not None and first.digest == request.digest:
            first.repeats.append(request)
        elif first is not None:
            self.effects.append(Settled(request, reused(request)))
        elif (remembered := self.applied_before(request, state)) is not None:
            self.effects.append(Settled(request, repeated(request, state, remembered)))
        elif chain is not None and chain.waiting >= self.most_waiting:
            self.effects.append(Settled(request, too_many(request, self.most_waiting)))
        else:
            if chain is None:
                chain = self.chains[request.key] = Chain(request.key, self)
            request.number, request.checked_version = self._added, state.version if state is not None else ABSENT
            chain.add(request, state)

    def withdraw(self, request: Request) -> bool:
        """Takes note that the caller has given a request up. Returns whether it has no event, and so certainly will not be applied."""
        request.given_up = True
        chain = self.chains.get(request.key)
        if chain is None:
            return False
        certain = chain.withdraw(request)
        if certain:
            self._advance((request,))
        return certain

    def confirmed(self, requests: Sequence[Request], why_not: str = "") -> None:
        """Handles a view that has come to where the log ended after these requests had arrived: computes them again.

        ``why_not``: why that could not be found out; those that still have no event then fail, with nothing done. "": it was found out.
        """
        for request in requests:
            chain = self.chains.get(request.key)
            request.confirmed |= not why_not
            if chain is not None and request.confirmed:
                chain.confirm(request.asked_number)
            elif chain is not None:
                chain.fail_unconfirmed(request, why_not)
        self._advance(requests)

    def folded(self, event: Event, result: Folded, before: Document | None, state: KeyState) -> None:
        """Handles an event that was folded, of this process or of another writer."""
        chain = self.chains.get(event.key)
        if chain is not None:
            chain.folded(event, result, before, state)

    def failed(self, event: Event, error: PolicyError, outcome_unknown: bool) -> None:
        """Handles a failed append. ``outcome_unknown``: the event may be in the log all the same."""
        chain = self.chains.get(event.key)
        if chain is not None and event.stamp is not None:
            chain.failed(event.stamp.event_id, error, outcome_unknown)

    def reopened(self) -> None:
        """Handles a log that was opened anew and read to its end.

        A request that is not among the applied ones then is computed again if only this process writes the log. Others are appended again,
        under their ids: where others write too, the event may still come; that an event with conditions was applied may not be known; and
        the changes of a batch keep their order.
        """
        for chain in list(self.chains.values()):
            chain.reopened()

    def abandon(self, error: PolicyError) -> None:
        """Settles all requests with an error and drops all chains."""
        for chain in self.chains.values():
            chain.abandon(error)
        self.chains.clear()

    # --- called by chains -------------------------------------------------------------------------------------------

    def new_id(self) -> str:
        """Makes the id of an event, a UUID."""
        self._number += 1
        return f"{self._ids}{self._number:012x}"

    def state(self, key: PolicyKey) -> KeyState | None:
        """Returns the fold's state of a key; None: nothing is known of the key."""
        return self.view.state(key) if self.view is not None else None

    def applied_before(self, request: Request, state: KeyState | None) -> Remembered | None:
        """Returns the record of an applied request with the same id; None: none is known, or the request is a dry run."""
        if request.validate_only:
            return None
        remembered = state.remembers(request.request_id) if state is not None else None
        return remembered or (self.view.applied(request.key, request.request_id) if self.view is not None else None)

    def require_confirmation(self, request: Request, version: Position) -> bool:
        """Returns whether an answer that writes nothing, found at this version, must be confirmed; if so, adds the effect ``Confirm``."""
        left_behind = "" < request.version < version  # versions only grow: the demanded one never comes back
        if left_behind or not self.shared():
            return False
        if not request.asked_number:
            request.asked_number = self._added
            if not request.confirmed:
                self.effects.append(Confirm(request))
        return not request.confirmed

    # ----------------------------------------------------------------------------------------------------------------

    def _advance(self, requests: Iterable[Request]) -> None:
        for key in dict.fromkeys(request.key for request in requests):
            if (chain := self.chains.get(key)) is not None:
                chain.advance(self.state(key))


class Chain:
    """The requests of one policy key that have no answer yet."""

    __slots__ = ("_expected", "_expected_valid", "_held", "_in_flight", "_key", "_queue", "_requests", "_sequencer")

    def __init__(self, key: PolicyKey, sequencer: Sequencer) -> None:
        self._key = key
        self._sequencer = sequencer
        self._in_flight: dict[str, Link] = {}
        """The requests whose events were appended and are not folded, by the event's id, in order."""
        self._queue: OrderedDict[Request, None] = OrderedDict()
        """The requests behind these, in order."""
        self._held = False
        """Whether the first request of the queue has an answer that writes nothing, if the events in flight succeed."""
        self._requests: dict[str, Request] = {}
        """All of them but dry runs, by the request's id."""
        self._expected: Document | None = None
        """What ``expected`` returns, while ``_expected_valid``."""
        self._expected_valid = False

    # --- requests and queries -----------------------------------------------------------------------------------

    @property
    def in_flight(self) -> int:
        """How many events of this chain are appended and not yet folded."""
        return len(self._in_flight)

    @property
    def waiting(self) -> int:
        """How many requests of this chain have no event."""
        return len(self._queue)

    def find_original(self, request: Request) -> Request | None:
        """Returns the request with the same id; None: there is none. The id of a dry run counts for nothing."""
        return None if request.validate_only else self._requests.get(request.request_id)

    def add(self, request: Request, state: KeyState | None) -> None:
        """Adds a new request. ``state``: the fold's present state of the key."""
        if not request.validate_only:
            self._requests[request.request_id] = request
        is_first = not self._queue
        self._queue[request] = None
        if is_first:
            self.advance(state)

    def withdraw(self, request: Request) -> bool:
        """Takes note that the caller has given a request up. Returns whether it has no event, and so certainly will not be applied."""
        first = request if request in self._queue else self._requests.get(request.request_id)
        if first is None or first not in self._queue or not first.abandoned:
            return False
        self._remove(first)
        return True

    def expected(self, head: Document | None) -> Document | None:
        """Returns the head with all events applied to it that are on their way: the document that the next request is computed on."""
        if not self._expected_valid:
            document = head
            for link in self._in_flight.values():
                change = link.request.change
                if link.state is not AppendState.OVERTAKEN:
                    with suppress(PolicyError):  # the fold decides whether it counts; this is an estimate
                        document = change.apply(document) if change is not None else None
            self._expected, self._expected_valid = document, True
        return self._expected

    # --- reports --------------------------------------------------------------------------------------------------

    def folded(self, event: Event, result: Folded, before: Document | None, state: KeyState) -> None:
        """Handles an event of the key that was folded, this chain's or another writer's.

        ``before``: the document before the event; ``state``: the fold's state after it.
        """
        link = self._in_flight.get(event.stamp.event_id) if event.stamp is not None else None
        if link is None:
            if not result.changed:
                return
            self._expected_valid = False  # another writer's change: the next request is computed on it
        else:
            if result.status is not Status.APPLIED:
                self._expected_valid = False
            self._conclude(link, result, before, state)
        self.advance(state)

    def failed(self, event_id: str, error: PolicyError, outcome_unknown: bool) -> None:
        """Handles a failed append of an event of this chain. ``outcome_unknown``: the event may be in the log all the same."""
        link = self._in_flight.get(event_id)
        if link is None:
            return
        self._expected_valid = False
        state = link.on(EventReport.NOT_ACKNOWLEDGED if outcome_unknown else EventReport.NOT_THERE)
        if state is not AppendState.DOUBTFUL:
            del self._in_flight[event_id]
        if state is AppendState.LOST:
            self._again(link.request, not_appended(link.request))
        elif state is not AppendState.DOUBTFUL:
            self._settle(link.request, unknown_outcome(link.request.request_id) if state is AppendState.UNKNOWN else error)
        self._probe()
        self.advance(self._sequencer.state(self._key))

    def reopened(self) -> None:
        """See ``Sequencer.reopened``."""
        self._expected_valid = False
        state = self._sequencer.state(self._key)
        lost: list[Request] = []
        for link in list(self._in_flight.values()):
            request, stamp = link.request, link.event.stamp
            remembered = self._sequencer.applied_before(request, state)
            unsure = state is not None and state.joining and stamp is not None and conditional(stamp)
            alone = not self._sequencer.shared() and request.batch is None and not unsure
            if remembered is not None:
                self._settle_overtaken(link)
                del self._in_flight[link.event_id]
                self._settle(request, repeated(request, state, remembered))
            elif link.on(EventReport.NOT_ACKNOWLEDGED) is AppendState.LOST or alone:
                del self._in_flight[link.event_id]
                lost.append(request)
        for request in reversed(lost):
            self._again(request, not_appended(request))
        for link in list(self._in_flight.values()):
            self._append_again(link)
        self.advance(state)

    def confirm(self, upto: int) -> None:
        """Notes that the view has come to where the log ended when the requests up to a number had arrived."""
        for request in self._queue:
            request.confirmed |= request.number <= upto

    def fail_unconfirmed(self, request: Request, why: str) -> None:
        """Settles a request that could not be confirmed, if it still has no event."""
        if request in self._queue:
            self._remove(request)
            self._settle(request, not_confirmed(request, why))

    def abandon(self, error: PolicyError) -> None:
        """Settles all requests with an error. The caller discards the chain."""
        for request in [*(link.request for link in self._in_flight.values()), *self._queue]:
            self._settle(request, error)

    def advance(self, state: KeyState | None) -> None:
        """Computes the requests of the queue, as far as they need not wait. A chain without requests leaves the sequencer."""
        queue, in_flight = self._queue, self._in_flight
        while queue and len(in_flight) < self._sequencer.most_in_flight:
            request = next(iter(queue))
            if (request.asked_number and not request.confirmed) or (in_flight and (self._held or request.conditional)):
                return
            if request.given_up and request.abandoned:
                return  # it is about to be withdrawn
            self._held = not self._compute(request, state)
            if self._held:
                return
            del queue[request]
        if not queue and not in_flight:
            del self._sequencer.chains[self._key]

    # --- computing --------------------------------------------------------------------------------------------------

    def _compute(self, request: Request, state: KeyState | None) -> bool:
        """Settles a request or appends its event. Returns False if it has to wait instead, since its answer writes nothing."""
        head = state.document if state is not None else None
        version = state.version if state is not None else ABSENT
        if version != request.checked_version and (remembered := self._sequencer.applied_before(request, state)) is not None:
            self._settle(request, repeated(request, state, remembered))  # the same request went through another sidecar, which was faster
            return True
        if request.batch is not None and request.overtaken_in_batch:  # it can't be written behind a later request of its batch
            self._settle(request, not_appended(request))
            return True
        before = self.expected(head) if self._in_flight else head
        computed = judge_request(request, before, version)
        if not isinstance(computed, Computed):
            if self._sequencer.require_confirmation(request, version) or self._in_flight:
                return False
            self._settle(request, computed)
            return True
        event_id = self._sequencer.new_id()
        event = event_of(request, event_id, state, before, computed, self._in_flight)
        self._in_flight[event_id] = Link(request, event, event_id, Remembered(request.request_id, request.digest, "", ""))
        self._expected, self._expected_valid = computed.document, True
        self._sequencer.effects.append(Append(event, request))
        if request.batch is not None:
            request.batch[request.key] = request.number
        return True

    def _again(self, request: Request, error: PolicyError) -> None:
        """Puts a request whose event is lost or does not count back into the queue, or settles it with ``error`` if it must not go on."""
        if request.overtaken_in_batch or request.abandoned or request.attempts == ATTEMPTS:
            self._settle(request, error)
        else:
            request.attempts += 1
            self._queue[request] = None
            self._queue.move_to_end(request, last=False)
            self._held = False

    def _remove(self, request: Request) -> None:
        if request is next(iter(self._queue)):
            self._held = False
        del self._queue[request]
        if self._requests.get(request.request_id) is request:
            del self._requests[request.request_id]

    # --- events in flight -------------------------------------------------------------------------------------------

    def _conclude(self, link: Link, result: Folded, before: Document | None, state: KeyState) -> None:
        """Settles a link whose event was folded. Events that were appended before it and are not folded are not in the log."""
        if link is not next(iter(self._in_flight.values())):
            self._settle_overtaken(link)
        del self._in_flight[link.event_id]
        request, sequencer = link.request, self._sequencer
        if result.status is Status.APPLIED:
            self._settle(request, Result(Outcome.APPLIED, state.document, result.version, result.previous, before=before))
            if request.change is None and not self._in_flight and not self._queue:
                sequencer.effects.append(Append(restatement(self._key, state, sequencer.new_id())))
        elif result.status is Status.DUPLICATE:
            remembered = sequencer.applied_before(request, state)  # None: the event was read while the log was opened, and did not count
            self._settle(request, unknown_outcome(request.request_id) if remembered is None else repeated(request, state, remembered))
        elif result.status is Status.SKIPPED_ABSENT:  # the event's version: after a reopening the state is later
            skipped = Result(Outcome.SKIPPED, None, result.version, result.version)
            self._settle(request, conflict(request, result.version) if request.exists else skipped)
        elif result.status is Status.REJECTED_READS:
            self._again(request, contention(request, ATTEMPTS))
        else:
            self._settle(request, conflict(request, state.version))

    def _settle_overtaken(self, folded: Link) -> None:
        """Reports to the links before a folded one that a later event was folded before theirs."""
        for link in reversed(list(takewhile(lambda link: link is not folded, self._in_flight.values()))):
            self._expected_valid = self._expected_valid and link.state is AppendState.OVERTAKEN
            if link.on(EventReport.PASSED) is AppendState.LOST:
                del self._in_flight[link.event_id]
                self._again(link.request, not_appended(link.request))

    def _probe(self) -> None:
        """Makes sure that an append is outstanding whose outcome decides about the doubtful events: at need, appends the last one again."""
        for link in list(reversed(self._in_flight.values())):
            if link.state in OUTSTANDING or self._append_again(link):
                return

    def _append_again(self, link: Link) -> bool:
        """Appends a doubtful event again. If no caller waits, its outcome stays unknown instead; a repeat of the request learns it."""
        if link.request.abandoned:
            del self._in_flight[link.event_id]
            self._settle(link.request, unknown_outcome(link.request.request_id))
            return False
        link.on(EventReport.APPENDED_AGAIN)
        self._sequencer.effects.append(Append(link.event))
        return True

    def _settle(self, request: Request, answer: Result | PolicyError) -> None:
        effects = self._sequencer.effects
        effects.append(Settled(request, answer))
        if request.repeats:
            replayed = answer._replace(replayed=True) if isinstance(answer, Result) else answer
            effects.extend(Settled(repeat, replayed) for repeat in request.repeats)
            request.repeats = []
        if self._requests.get(request.request_id) is request:
            del self._requests[request.request_id]
