"""The sequencer: one chain of updates per policy key, pipelined.

An update is computed on the document that the update before it in its chain produced, and its event is handed to the log at once; the
chain does not wait for the log. The result of the update is known when its event has been folded. Because every event is an operation
(``core/fold/fold``), an update that fails fails alone: the updates that were computed after it stay valid.

Only three things make a request wait in its chain: a version that it names (the one before it must be known), a full pipeline, and an
answer that writes nothing (it holds only if the events in flight before it succeed).

**An answer that writes nothing** (nothing to change, no document, a refusal, a dry run) has no position in the log that would prove what it
was computed from. Where others write the log too, the view may lack what they had written when the request arrived, and "unchanged" would
lose an update. So such an answer is *confirmed* first: the view has to come to where the log ended after the request arrived. Then the
request is computed again, and written if the document now calls for it. No confirmation is needed where this process is the only writer,
nor for a conflict with a version that the key has left behind, since versions only grow. Meanwhile the chain goes on, but no later
request of the same batch is written.

**A failed append** does not prove that the event is not in the log. Events of one key stand in the log in the order in which they were
appended, so the next later event that is folded decides: what was not folded before it is not in the log. If no append is outstanding
that could decide, the last event is appended once more, under its own id; the fold counts it once.

A request whose event does not count (it is not in the log, or was rejected because another writer changed what it had read) is computed
again, behind what was computed meanwhile. Requests of one batch are applied in their order: if a later request of the batch has an
event by then, the request fails instead.

The namespace reports what happens (``submit``, ``withdraw``, ``folded``, ``failed``, ``confirmed``, ``reopened``). The sequencer passes
each report to the chain of the key, and returns effects: events to append, requests to confirm, and requests that are settled. It does no
I/O and keeps no time. A chain exists only while it has a request.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..errors import PolicyError
from ..fold.fold import Folded, KeyState
from ..names import PolicyKey
from ..policies.documents import Settings
from ..policies.events import ABSENT, Event
from .answers import judge_request, not_confirmed, outcome_not_known, repeated, reused, too_many
from .chain import ATTEMPTS, DEPTH, QUEUE, Append, Chain, ChainContext, Confirm, Effect, FoundEvent, Known, Settled
from .request import Outcome, Request, Result

__all__ = [
    "ATTEMPTS",
    "Append",
    "Confirm",
    "Effect",
    "FoundEvent",
    "Outcome",
    "Request",
    "Result",
    "Sequencer",
    "Settled",
    "outcome_not_known",
]


class Sequencer:
    """The chains of one namespace."""

    def __init__(self, outside: Known, *, depth: int = DEPTH, queue: int = QUEUE) -> None:
        """Creates a sequencer without chains.

        ``depth``: events of one key that may be in flight; ``queue``: updates of one key that may wait to be computed or confirmed, and dry
        runs of all keys.
        """
        self._context = ChainContext(outside, depth, queue)
        self._chains: dict[PolicyKey, Chain] = {}
        self._dry: dict[Request, None] = {}
        """Dry runs that wait to be confirmed."""
        self._submitted = 0

    @property
    def chains(self) -> int:
        """How many keys have a request without an answer."""
        return len(self._chains)

    @property
    def depth(self) -> int:
        """How many events of one key are in flight: the most of any key. Safe to call from other threads."""
        return max((chain.in_flight for chain in list(self._chains.values())), default=0)

    @property
    def waiting(self) -> int:
        """How many requests in the chains have no event: they wait to be computed or confirmed. Safe to call from other threads."""
        return sum(chain.waiting for chain in list(self._chains.values()))

    def busy(self, key: PolicyKey) -> bool:
        """Whether events of a key are in flight."""
        chain = self._chains.get(key)
        return chain is not None and chain.in_flight > 0

    def submit(self, request: Request, state: KeyState | None) -> list[Effect]:
        """Takes a new request. A repeat of a request that is remembered or in a chain gets the answer of that request."""
        context, chain = self._context, self._chains.get(request.key)
        if request.validate_only:
            self._submit_dry(request, chain)
            return context.take_effects()
        first = chain.find_original(request) if chain is not None else None
        if first is not None and first.digest == request.digest:
            first.repeats.append(request)
            return []
        if first is not None:
            context.settle(request, reused(request))
        elif (remembered := context.known(request, state)) is not None:
            context.settle(request, repeated(request, state, remembered))
        elif chain is not None and chain.waiting >= context.queue:
            context.settle(request, too_many(request, context.queue))
        else:
            if chain is None:
                chain = self._chains[request.key] = Chain(request.key, context)
            self._submitted += 1
            request.number, request.submitted_at = self._submitted, state.version if state is not None else ABSENT
            chain.add(request, state)
            if chain.idle:
                del self._chains[request.key]
        return context.take_effects()

    def withdraw(self, request: Request) -> bool:
        """Takes note that the caller has given a request up. Returns whether it has no event, and so certainly will not be applied."""
        request.given_up = True
        if request.validate_only:
            self._dry.pop(request, None)
            return True
        chain = self._chains.get(request.key)
        if chain is None:
            return False
        certain = chain.withdraw(request)
        self._forget_idle(request.key)
        return certain

    def confirmed(self, requests: Sequence[Request]) -> list[Effect]:
        """Handles a view that has come to where the log ended after these requests had arrived: computes them again."""
        for request in requests:
            request.confirmed = True
            if request in self._dry:
                del self._dry[request]
                self._context.settle(request, self._validated(request, self._chains.get(request.key)))
        return self._advance(requests)

    def confirmation_failed(self, requests: Sequence[Request], why: str) -> list[Effect]:
        """Handles requests that could not be confirmed, and why: those that still have no event fail, with nothing done."""
        left: dict[PolicyKey, list[Request]] = {}
        for request in requests:
            if request in self._dry:
                del self._dry[request]
                self._context.settle(request, not_confirmed(request, why))
            elif request.unconfirmed and not request.validate_only:
                left.setdefault(request.key, []).append(request)
        for key, unconfirmed in left.items():
            if (chain := self._chains.get(key)) is not None:
                chain.give_up(unconfirmed, why)
        return self._advance(requests)

    def folded(self, event: Event, result: Folded, before: Settings | None, state: KeyState | None) -> list[Effect]:
        """Handles an event that was folded, of this process or another writer (``Chain.folded``)."""
        chain = self._chains.get(event.key)
        if chain is None:
            return []
        chain.folded(event, result, before, state)
        if chain.idle:
            del self._chains[event.key]
        return self._context.take_effects()

    def failed(self, event: Event, error: PolicyError, outcome_unknown: bool) -> list[Effect]:
        """Handles a failed append. ``outcome_unknown``: the event may be in the log all the same."""
        if not self.expects(event) or event.stamp is None:
            return []
        self._chains[event.key].failed(event.stamp.event_id, error, outcome_unknown)
        self._forget_idle(event.key)
        return self._context.take_effects()

    def expects(self, event: Event) -> bool:
        """Whether an event is one of a chain, not folded yet, whose request waits for it."""
        chain = self._chains.get(event.key)
        return chain is not None and event.stamp is not None and chain.expects(event.stamp.event_id)

    def reopened(self, found: Mapping[str, FoundEvent]) -> list[Effect]:
        """Handles a log that was opened anew and read to its end. Expected events that were not found are appended again, under their ids.

        ``found``: by event id.
        """
        for key, chain in list(self._chains.items()):
            chain.reopened(found)
            self._forget_idle(key)
        return self._context.take_effects()

    def abandon(self, error: PolicyError) -> list[Effect]:
        """Settles all requests with an error and drops all chains."""
        for chain in self._chains.values():
            chain.abandon(error)
        for request in self._dry:
            self._context.settle(request, error)
        self._chains.clear()
        self._dry.clear()
        return self._context.take_effects()

    def _submit_dry(self, request: Request, chain: Chain | None) -> None:
        context = self._context
        if len(self._dry) >= context.queue:
            context.settle(request, too_many(request, context.queue))
        elif context.require_confirmation(request, ABSENT):
            self._dry[request] = None
        else:
            context.settle(request, self._validated(request, chain))

    def _validated(self, request: Request, chain: Chain | None) -> Result | PolicyError:
        """Returns the answer to a dry run: what the request would do at the end of its chain."""
        state = self._context.outside.state(request.key)
        head = state.document if state is not None else None
        version = state.version if state is not None else ABSENT
        # A precondition names the head's version, so the request is judged on the head, not on what is in flight behind it.
        before = chain.newest(head) if chain is not None and not request.conditional else head
        answer, after = judge_request(request, before, version)
        return answer if answer is not None else Result(Outcome.WOULD_APPLY, after, version, version, before=before)

    def _advance(self, requests: Iterable[Request]) -> list[Effect]:
        for key in dict.fromkeys(request.key for request in requests):
            if (chain := self._chains.get(key)) is not None:
                chain.advance(self._context.outside.state(key))
                self._forget_idle(key)
        return self._context.take_effects()

    def _forget_idle(self, key: PolicyKey) -> None:
        chain = self._chains.get(key)
        if chain is not None and chain.idle:
            del self._chains[key]
