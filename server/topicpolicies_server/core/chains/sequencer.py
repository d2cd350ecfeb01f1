"""The sequencer: one chain of updates per policy key, pipelined.

An update is computed on the document that the update before it in its chain produced, and its event is handed to the log at once; the
chain does not wait for the log. What became of it is known when its event has been folded. Because every event is an operation
(``core/fold/fold``), an update that fails fails alone: what was computed after it stays valid.

Only three things make a chain wait: an etag (the version before it must be known), a full pipeline, and an answer that says that
nothing was to be done (it holds only if what is in flight before it succeeds).

**An answer that writes nothing** has no place in the log that would tell what it was computed from. Where others write too, the view may
not have come to what they had written when the request arrived, and "unchanged" would lose an update. So such an answer (nothing to
change, nothing there, a refusal, a dry run) is *confirmed* first: the view has to come to where the log ended after the request's arrival.
Then the request is computed anew, and written if that is called for. No confirmation is needed where nobody else writes, nor for a
conflict with a version that the key has left behind, since versions only grow. Meanwhile the chain goes on, but no later request of the
same stream is written.

An event that the log has not acknowledged may be there all the same. Events of one key stand in the log in the order in which they were
appended, so the first later one that is folded tells: what was not folded before it is not in the log. If none is under way that
could tell, the last one is appended once more, under its own id; the fold counts it once.

What is known not to count (lost, or rejected because another writer changed what it was computed from) is computed again, behind what was
computed meanwhile. Requests of one stream are to be applied in their order: if a later one of its stream was computed, it fails instead.

The sequencer is told what happens (``submit``, ``withdraw``, ``folded``, ``failed``, ``confirmed``, ``reopened``) and answers with effects:
events to append, requests to be confirmed, and requests that are settled. It does no I/O and keeps no time. A chain is gone when nothing
is in flight in it.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, takewhile
from typing import NamedTuple, TypeAlias

from .. import rules
from ..changes.change import Change
from ..errors import Kind, PolicyError, Violation, invalid
from ..fold.fold import Folded, KeyState, Status, restatement
from ..fold.keystate import REMEMBERED_REQUESTS
from ..names import PolicyKey, Scope
from ..policies import documents
from ..policies.documents import WHOLE, Settings, whole_digest
from ..policies.events import ABSENT, Action, Event, Position, Remembered, Stamp, StampKind
from ..policies.facts import Facts
from ..reasons import Reason

DEPTH = 64
"""Events of one key that may be in flight, unless told otherwise."""
QUEUE = 10_000
"""Updates of one key that may wait to be computed, unless told otherwise."""
ATTEMPTS = 16
"""How often an update is computed anew because another writer changed what it had read."""
_NOTHING = Remembered("", "", "", "")


class Outcome(enum.Enum):
    """What became of a request that did not fail."""

    APPLIED = 1
    UNCHANGED = 2
    SKIPPED = 3
    WOULD_APPLY = 4
    """Of a dry run: it would be applied."""


class Result(NamedTuple):
    """The answer to a request that did not fail."""

    outcome: Outcome
    document: Settings | None
    version: Position
    previous: Position
    """The version that it was applied to."""
    replayed: bool = False
    """Whether it is the answer to an earlier request of the same id, given again."""
    known: bool = True
    """Whether ``document`` is the one after the change; a repeat may come too late for that."""
    before: Settings | None = None
    """The document that it was applied to."""
    before_known: bool = True
    """Whether ``before`` is that document; a repeat comes too late for that."""


@dataclass(eq=False, slots=True)
class Request:
    """An update or a delete, once it is validated. Compared by identity."""

    key: PolicyKey
    change: Change | None
    """What to change; None deletes."""
    request_id: str
    digest: str
    """Of the request's body."""
    actor: str = ""
    reason: str = ""
    """Why, in the requester's words."""
    etag: Position = ""
    """The version that the document, or its absence, must have; "" is any."""
    must_not_exist: bool = False
    include_previous: bool = False
    """Whether its answer shows the document before."""
    skip_if_absent: bool = False
    validate_only: bool = False
    facts: Facts | None = None
    """What is known of the cluster, as of its arrival; None: nothing."""
    settle: Callable[[Result | PolicyError], None] = field(default=lambda _: None)
    """Whom to tell; called with the effect ``Settled``, not by the sequencer."""
    repeats: list[Request] = field(default_factory=list)
    """Requests of the same id that wait for this one's answer."""
    stream: dict[PolicyKey, list[Request]] | None = None
    """If it came on a stream, which keeps its order: by key, the stream's last request that has an event, and those that wait behind it."""
    followed: bool = False
    """Whether a later one of its stream and key has an event: it is not computed again."""
    attempts: int = 0
    submitted_at: Position = ""
    """The key's version when it was submitted."""
    doubted: bool = False
    """Whether it was found that nothing is to be written for it, by a view that may have been behind the log."""
    confirmed: bool = False
    """Whether the view has since come to where the log ended after its arrival."""
    given_up: bool = False
    """Its caller does not wait for it any more."""
    answered: bool = False
    """Whether its caller has been told."""

    @property
    def conditional(self) -> bool:
        """Whether the version before it must be known before it is computed."""
        return self.etag != "" or self.must_not_exist

    @property
    def unsure(self) -> bool:
        """Whether it waits to be confirmed."""
        return self.doubted and not self.confirmed

    @property
    def abandoned(self) -> bool:
        """Nobody waits for it, nor for a repeat of it: if its event is lost, it is not appended once more."""
        return self.given_up and all(repeat.given_up for repeat in self.repeats)


class Told(NamedTuple):
    """What the log told of an event."""

    folded: Folded
    before: Settings | None
    """The document that it met."""
    after: Settings | None
    """The document after it."""


class Append(NamedTuple):
    """Effect: hand an event to the log."""

    event: Event


class Confirm(NamedTuple):
    """Effect: tell ``confirmed`` when the view has come to where the log ends, asked from now on."""

    request: Request


class Settled(NamedTuple):
    """Effect: a request has its answer."""

    request: Request
    answer: Result | PolicyError


Effect: TypeAlias = Append | Confirm | Settled


@dataclass(eq=False, slots=True)
class _Link:
    """A request in a chain, computed. Without an event it waits for those before it, and to be confirmed: does its answer hold?"""

    request: Request
    event: Event | None
    carried: Remembered
    """What later events say of it while its version is not known."""
    under_way: bool = True
    """Whether the log still owes an answer."""
    doubtful: bool = False
    """Whether it was not acknowledged and may be in the log all the same."""
    overtaken: bool = False
    """Whether an event behind it was folded before it: it is not in the log."""


@dataclass(eq=False, slots=True)
class _Chain:
    links: deque[_Link] = field(default_factory=deque)
    """Computed, in order."""
    queue: deque[Request] = field(default_factory=deque)
    """Not computed yet."""
    requests: dict[str, Request] = field(default_factory=dict)
    """All of both, by request id."""
    newest: Settings | None = None
    """The document after all links, if ``fresh``."""
    fresh: bool = False
    in_flight: int = 0


class Sequencer:
    """The chains of one namespace."""

    def __init__(
        self,
        state: Callable[[PolicyKey], KeyState | None],
        new_id: Callable[[], str],
        *,
        applied: Callable[[PolicyKey, str], Remembered | None] = lambda _key, _request_id: None,
        shared: Callable[[], bool] = lambda: False,
        depth: int = DEPTH,
        queue: int = QUEUE,
    ) -> None:
        """Chains over what the fold knows.

        Args:
            state: looks up the fold's state of a key.
            new_id: makes event ids, UUIDs.
            applied: looks up a request, by its id, that was applied too long ago for the fold to remember it (``core/fold/recent``).
            shared: whether others write the log too, so that answers which write nothing have to be confirmed.
            depth: events of one key that may be in flight.
            queue: updates of one key that may wait to be computed or confirmed, and dry runs of all keys.
        """
        self._state = state
        self._new_id = new_id
        self._depth = depth
        self._queue = queue
        self._chains: dict[PolicyKey, _Chain] = {}
        self._dry: dict[Request, None] = {}
        """Dry runs that wait to be confirmed."""
        self._applied = applied
        self._shared = shared
        self._effects: list[Effect] = []

    @property
    def chains(self) -> int:
        """Keys with something in flight."""
        return len(self._chains)

    def busy(self, key: PolicyKey) -> bool:
        """Whether events of a key are in flight."""
        chain = self._chains.get(key)
        return chain is not None and chain.in_flight > 0

    def submit(self, request: Request) -> list[Effect]:
        """A new request. A repeat of one that is remembered or in flight gets that one's answer."""
        chain = self._chains.get(request.key)
        if request.validate_only:
            return self._submit_dry(request, chain)
        first = chain.requests.get(request.request_id) if chain is not None else None
        if first is not None and not (first.abandoned and not _has_event(chain, first)):  # of that one it is known that nothing was done
            if first.digest != request.digest:
                return self._settle_at_once(request, _reused(request))
            first.repeats.append(request)
            return []
        state = self._state(request.key)
        remembered = self._known(request, state)
        if remembered is not None:
            return self._settle_at_once(request, _repeated(request, state, remembered))
        if chain is None:
            chain = self._chains[request.key] = _Chain()
        if len(chain.queue) + len(chain.links) - chain.in_flight >= self._queue:
            return self._settle_at_once(request, _too_many(request, self._queue))
        request.submitted_at = state.version if state is not None else ABSENT
        chain.queue.append(request)
        chain.requests[request.request_id] = request
        self._advance(request.key, chain)
        return self._take_effects()

    def withdraw(self, request: Request) -> bool:
        """Its caller waits for a request no more. Returns whether it has no event, and so certainly will not be applied."""
        request.given_up = True
        if request.validate_only:
            self._dry.pop(request, None)
            return True
        chain = self._chains.get(request.key)
        first = chain.requests.get(request.request_id) if chain is not None else None
        if chain is None or first is None or not first.abandoned:
            return False
        if first not in chain.queue:  # if it waits to be confirmed, that goes on, and ends with nothing
            return not _has_event(chain, first)
        chain.queue.remove(first)
        del chain.requests[request.request_id]
        self._drop_if_idle(request.key, chain)
        return True

    def confirmed(self, requests: Sequence[Request]) -> list[Effect]:
        """The view has come to where the log ended when these requests were there already."""
        for request in requests:
            request.confirmed = True
            if request in self._dry:
                del self._dry[request]
                self._settle(request, self._validated(request, self._chains.get(request.key)))
        return self._advance_all(requests)

    def unconfirmed(self, requests: Sequence[Request], error: PolicyError) -> list[Effect]:
        """Where the log ends could not be found out: those of them that have no event fail, with nothing done."""
        left = {request for request in requests if request.unsure}
        for request in left:
            self._dry.pop(request, None)
            self._settle(request, error)
        for key in {request.key for request in left}:
            if (chain := self._chains.get(key)) is not None:
                chain.links = deque(link for link in chain.links if link.request not in left)
        return self._advance_all(requests)

    def folded(self, event: Event, result: Folded, before: Settings | None) -> list[Effect]:
        """An event of the log has been folded, ours or another writer's; ``before``: the document that it met."""
        chain = self._chains.get(event.key)
        if chain is None:
            return []
        link = _link_of(chain, event.stamp.event_id) if event.stamp is not None else None
        if link is None:
            if result.changed:
                chain.fresh = False  # another writer's change: what is computed next is computed on it
                self._advance(event.key, chain)
            return self._take_effects()
        if link is not chain.links[0]:
            self._overtake(chain, link)
        self._unlink(chain, link)
        if result.status is not Status.APPLIED:
            chain.fresh = False
        state = self._state(event.key)
        self._conclude(event.key, chain, link, Told(result, before, state.document if state is not None else None))
        self._advance(event.key, chain)
        return self._take_effects()

    def failed(self, event: Event, error: PolicyError, outcome_unknown: bool) -> list[Effect]:
        """The log has not acknowledged an event. ``outcome_unknown``: it may be there all the same."""
        chain = self._chains.get(event.key)
        link = _link_of(chain, event.stamp.event_id) if chain is not None and event.stamp is not None else None
        if chain is None or link is None:
            return []
        link.under_way = False
        chain.fresh = False
        if link.overtaken:
            self._unlink(chain, link)
            self._again(chain, link.request, _not_appended(link.request))
        elif outcome_unknown:
            link.doubtful = True
        else:
            self._unlink(chain, link)
            self._settle(link.request, outcome_not_known(link.request) if link.doubtful else error)
        self._probe(chain)
        self._advance(event.key, chain)
        return self._take_effects()

    def expects(self, event: Event) -> bool:
        """Whether an event is one that a request here waits for."""
        chain = self._chains.get(event.key)
        return chain is not None and event.stamp is not None and _link_of(chain, event.stamp.event_id) is not None

    def reopened(self, told: Mapping[str, Told]) -> list[Effect]:
        """The log was opened anew and read. What it does not tell of is appended once more, under its own id.

        Args:
            told: what the fold said of the events that were expected, by event id.
        """
        for key, chain in list(self._chains.items()):
            state = self._state(key)
            chain.fresh = False
            for link in [link for link in chain.links if link.event is not None]:
                assert link.event is not None and link.event.stamp is not None
                said = told.get(link.event.stamp.event_id)
                remembered = self._known(link.request, state)
                if said is None and remembered is None:
                    link.under_way, link.doubtful = False, True
                    continue
                if said is not None:
                    self._overtake(chain, link)
                self._unlink(chain, link)
                if said is not None:
                    self._conclude(key, chain, link, said)
                elif remembered is not None:
                    self._settle(link.request, _repeated(link.request, state, remembered))
            for link in [link for link in chain.links if link.event is not None and not link.under_way]:
                self._append_again(chain, link)
            self._advance(key, chain)
        return self._take_effects()

    def abandon(self, error: PolicyError) -> list[Effect]:
        """Settles everything with an error: the namespace is given up."""
        for chain in self._chains.values():
            for request in [*(link.request for link in chain.links), *chain.queue]:
                self._settle(request, error)
        for request in self._dry:
            self._settle(request, error)
        self._chains.clear()
        self._dry.clear()
        return self._take_effects()

    # --- what is in flight ------------------------------------------------------------------------------------

    def _overtake(self, chain: _Chain, folded: _Link) -> None:
        """An event was folded: those that were appended before it and were not are not in the log."""
        for link in reversed(list(takewhile(lambda link: link is not folded, chain.links))):
            if link.doubtful:
                self._unlink(chain, link)
                chain.fresh = False
                self._again(chain, link.request, _not_appended(link.request))
            else:
                link.overtaken = True  # if it has an event: the log will say so

    def _probe(self, chain: _Chain) -> None:
        """Sees to it that something is under way that will tell what became of the doubtful."""
        for link in reversed(list(chain.links)):
            if link.event is None:
                continue
            if link.under_way or self._append_again(chain, link):
                return

    def _append_again(self, chain: _Chain, link: _Link) -> bool:
        """Appends an event once more, unless nobody waits for it; a repeat of its request learns what happened."""
        assert link.event is not None
        if link.request.abandoned:
            self._unlink(chain, link)
            self._settle(link.request, outcome_not_known(link.request))
            return False
        link.under_way = True
        self._effects.append(Append(link.event))
        return True

    def _unlink(self, chain: _Chain, link: _Link) -> None:
        if link is chain.links[0]:
            chain.links.popleft()
        else:
            chain.links.remove(link)
        chain.in_flight -= 1

    # --- one chain ------------------------------------------------------------------------------------------

    def _advance(self, key: PolicyKey, chain: _Chain) -> None:
        """Computes what can be computed, and settles what waited for its predecessors."""
        while True:
            while chain.links and chain.links[0].event is None and not chain.links[0].request.unsure:
                # Everything before it is settled. It is computed again, on what really is there.
                chain.queue.appendleft(chain.links.popleft().request)
                if chain.links:
                    self._compute(key, chain, chain.queue.popleft(), at_front=True)
            if not chain.queue or chain.in_flight >= self._depth or (chain.queue[0].conditional and chain.links):
                break
            if not self._compute(key, chain, chain.queue.popleft(), at_front=False):
                break
        self._drop_if_idle(key, chain)

    def _advance_all(self, requests: Iterable[Request]) -> list[Effect]:
        for key in dict.fromkeys(request.key for request in requests):
            if (chain := self._chains.get(key)) is not None:
                self._advance(key, chain)
        return self._take_effects()

    def _compute(self, key: PolicyKey, chain: _Chain, request: Request, *, at_front: bool) -> bool:
        """Settles a request, or makes it a link; False: it has to wait in the queue."""
        state = self._state(key)
        head = state.document if state is not None else None
        version = state.version if state is not None else ABSENT
        if self._is_over(request, state, version):
            return True
        if at_front:  # everything before it is settled: its answer is what holds now, or it takes its place at the end
            answer, _ = _judged(request, head, version)
            if answer is not None:
                if self._doubts(request, version):
                    chain.links.appendleft(_Link(request, None, _NOTHING))
                else:
                    self._settle(request, answer)
                return True
        if request.followed:  # what its answer rested on has failed
            self._settle(request, _not_appended(request))
            return True
        before = self._newest(chain, head)
        answer, after = _judged(request, before, version)
        if answer is not None:
            if not self._doubts(request, version) and not chain.links:
                self._settle(request, answer)
                return True
            chain.links.append(_Link(request, None, _NOTHING))  # it holds only if what is in flight succeeds
            _wait_in_stream(request)
        elif not at_front and _earlier_is_unsure(request):  # and may have to be written first
            chain.queue.appendleft(request)
            return False
        else:
            self._link(chain, state, request, before, after)
            _follow_in_stream(request)
        if at_front and request.stream is not None:
            _put_behind(chain, request)
        return True

    def _is_over(self, request: Request, state: KeyState | None, version: Position) -> bool:
        """Whether a request has its answer before it is computed."""
        if version != request.submitted_at and (remembered := self._known(request, state)) is not None:
            self._settle(request, _repeated(request, state, remembered))  # another sidecar was asked too, and was faster
            return True
        if request.abandoned:  # it waited to be confirmed, and its caller was told that nothing was done
            self._settle(request, _not_appended(request))
            return True
        return False

    def _link(self, chain: _Chain, state: KeyState | None, request: Request, before: Settings | None, after: Settings | None) -> None:
        """Hands a request's event to the log."""
        event = self._event(chain, state, request, before, after)
        chain.links.append(_Link(request, event, Remembered(request.request_id, request.digest, "", "")))
        chain.in_flight += 1
        chain.newest, chain.fresh = after, True
        self._effects.append(Append(event))

    def _doubts(self, request: Request, version: Position) -> bool:
        """Whether an answer that writes nothing, found at this version, has to be confirmed. If so, that is asked for."""
        left_behind = "" < request.etag < version  # for good: the key has gone past the demanded version
        if request.confirmed or left_behind or not self._shared():
            return False
        request.doubted = True
        self._effects.append(Confirm(request))
        return True

    def _again(self, chain: _Chain, request: Request, error: PolicyError) -> None:
        """A request is certainly not applied: it is computed anew, or fails with ``error``."""
        if request.followed or request.abandoned or request.attempts == ATTEMPTS:
            self._settle(request, error)
        else:
            request.attempts += 1
            chain.queue.appendleft(request)

    def _submit_dry(self, request: Request, chain: _Chain | None) -> list[Effect]:
        if len(self._dry) >= self._queue:
            return self._settle_at_once(request, _too_many(request, self._queue))
        if self._doubts(request, ABSENT):
            self._dry[request] = None
            return self._take_effects()
        return self._settle_at_once(request, self._validated(request, chain))

    def _validated(self, request: Request, chain: _Chain | None) -> Result | PolicyError:
        """What would become of a request at the end of its chain."""
        state = self._state(request.key)
        head = state.document if state is not None else None
        version = state.version if state is not None else ABSENT
        before = self._newest(chain, head) if chain is not None else head
        answer, after = _judged(request, before, version)
        return answer if answer is not None else Result(Outcome.WOULD_APPLY, after, version, version, before=before)

    def _known(self, request: Request, state: KeyState | None) -> Remembered | None:
        """What is known of an earlier attempt of a request that was applied."""
        return _remembered(state, request.request_id) or self._applied(request.key, request.request_id)

    def _newest(self, chain: _Chain, head: Settings | None) -> Settings | None:
        """The head with everything that is in flight applied to it."""
        if not chain.fresh:
            document = head
            for link in chain.links:
                if link.event is None:
                    continue
                if link.request.change is None:
                    document = None
                    continue
                try:
                    document = link.request.change.apply(document)
                except PolicyError:
                    continue  # the fold will refuse it or not; here it is only left out of the guess
            chain.newest, chain.fresh = document, True
        return chain.newest

    def _event(
        self,
        chain: _Chain,
        state: KeyState | None,
        request: Request,
        before: Settings | None,
        after: Settings | None,
    ) -> Event:
        change = request.change
        base = state.base if state is not None else ""
        last = next((link.event for link in reversed(chain.links) if link.event is not None), None)
        if last is not None and last.stamp is not None:
            base = last.stamp.event_id
        stamp = Stamp(
            event_id=self._new_id(),
            kind=StampKind.DELETE if change is None else StampKind.UPDATE,
            request_id=request.request_id,
            digest=request.digest,
            actor=request.actor,
            reason=request.reason,
            mask=change.paths if change is not None else (),
            base=base,
            etag=(ABSENT if before is None else request.etag) if request.conditional else None,
            skip_if_absent=request.skip_if_absent,
            reads={**change.reads(before), **rules.reads(request.key, change, before, after or {})} if change is not None else {},
            operands=change.operands if change is not None else {},
            remembered=_carried(state, chain),
            seen=state.history if state is not None else None,
        )
        if request.etag and request.key.scope is Scope.GLOBAL:  # a version of this log means nothing in other clusters
            stamp = stamp._replace(reads={**stamp.reads, WHOLE: whole_digest(before)})
        return Event(request.key, Action.UPDATE, after if after is not None else {}, stamp)

    def _conclude(self, key: PolicyKey, chain: _Chain, link: _Link, told: Told) -> None:
        request, result = link.request, told.folded
        state = self._state(key)
        assert state is not None, "an event of the key was folded"
        if result.status is Status.APPLIED:
            self._settle(request, Result(Outcome.APPLIED, told.after, result.version, result.previous, before=told.before))
            if request.change is None and not chain.links and not chain.queue:
                self._effects.append(Append(restatement(key, state, self._new_id())))
        elif result.status is Status.DUPLICATE:
            remembered = self._known(request, state)
            if remembered is None:
                self._settle(request, _replay(None, result.version, result.previous, known=False))
            else:
                self._settle(request, _repeated(request, state, remembered))
        elif result.status is Status.SKIPPED_ABSENT:
            self._settle(request, Result(Outcome.SKIPPED, None, state.version, state.version))
        elif result.status is Status.REJECTED_READS:
            self._again(chain, request, _contention(request))
        elif request.must_not_exist:
            self._settle(request, _exists(request, state.version))
        else:
            self._settle(request, _conflict(request, state.version))

    # --- effects ----------------------------------------------------------------------------------------------

    def _settle(self, request: Request, answer: Result | PolicyError) -> None:
        self._effects.append(Settled(request, answer))
        chain = self._chains.get(request.key)
        if chain is not None and chain.requests.get(request.request_id) is request:
            del chain.requests[request.request_id]
        if request.stream is not None and request in (last := request.stream.get(request.key, [])):
            last.remove(request)
            if not last:
                del request.stream[request.key]
        if request.repeats:
            replayed = answer._replace(replayed=True) if isinstance(answer, Result) else answer
            self._effects.extend(Settled(repeat, replayed) for repeat in request.repeats)
            request.repeats = []

    def _settle_at_once(self, request: Request, answer: Result | PolicyError) -> list[Effect]:
        self._settle(request, answer)
        return self._take_effects()

    def _take_effects(self) -> list[Effect]:
        effects, self._effects = self._effects, []
        return effects

    def _drop_if_idle(self, key: PolicyKey, chain: _Chain) -> None:
        if not chain.links and not chain.queue:
            self._chains.pop(key, None)


def _judged(request: Request, before: Settings | None, version: Position) -> tuple[Result | PolicyError | None, Settings | None]:
    """The answer to a request that needs no event, or the document that its event must carry (None deletes)."""
    if request.etag and request.etag != version:
        return _conflict(request, version), None
    if request.must_not_exist and before is not None:
        return _exists(request, version), None
    if request.change is None:
        return (Result(Outcome.UNCHANGED, None, version, version) if before is None else None), None
    if before is None and request.skip_if_absent:
        return Result(Outcome.SKIPPED, None, version, version), None
    violations: list[Violation] = []
    after = request.change.applied(before, violations)
    if documents.size(after) > documents.MOST_BYTES:
        violations.append(_too_large(request))
    found = rules.judge(request.key, request.change, before, after, request.facts)
    if violations or found:
        return rules.refused(found, violations), None
    if (after or None) == (before or None):
        return Result(Outcome.UNCHANGED, before, version, version, before=before), after
    return None, after


def repeat_answer(state: KeyState | None, remembered: Remembered) -> Result:
    """The answer to the repeat of a request that was applied. Its document is known only while it is still the head."""
    known = state is not None and state.version == remembered.version
    document = state.document if known and state is not None else None
    return _replay(document, remembered.version, remembered.previous, known=known)


def _replay(document: Settings | None, version: Position, previous: Position, *, known: bool) -> Result:
    return Result(Outcome.APPLIED, document, version, previous, replayed=True, known=known, before_known=False)


def _repeated(request: Request, state: KeyState | None, remembered: Remembered) -> Result | PolicyError:
    return repeat_answer(state, remembered) if remembered.digest == request.digest else _reused(request)


def _has_event(chain: _Chain | None, request: Request) -> bool:
    return chain is not None and any(link.request is request and link.event is not None for link in chain.links)


def _earlier_is_unsure(request: Request) -> bool:
    return request.stream is not None and any(earlier.unsure for earlier in request.stream.get(request.key, ()))


def _wait_in_stream(request: Request) -> None:
    """Notes that a request waits without an event."""
    if request.stream is not None and request not in (waiting := request.stream.setdefault(request.key, [])):
        waiting.append(request)


def _follow_in_stream(request: Request) -> None:
    """Notes that a request has an event: those before it on its stream are not computed again, those behind it still wait."""
    if request.stream is not None:
        waiting = request.stream.get(request.key, [])
        at = waiting.index(request) if request in waiting else len(waiting)
        for earlier in waiting[:at]:
            earlier.followed = True
        request.stream[request.key] = [request, *waiting[at + 1 :]]


def _put_behind(chain: _Chain, request: Request) -> None:
    """What waits in a chain without an event and came later on a request's stream is to follow it."""
    later = [link for link in chain.links if link.event is None and link.request is not request and link.request.stream is request.stream]
    if later:
        moved = set(later)
        chain.links = deque([*(link for link in chain.links if link not in moved), *later])


def _link_of(chain: _Chain, event_id: str) -> _Link | None:
    for link in chain.links:  # nearly always the first
        if link.event is not None and link.event.stamp is not None and link.event.stamp.event_id == event_id:
            return link
    return None


def _remembered(state: KeyState | None, request_id: str) -> Remembered | None:
    if state is None:
        return None
    return state.remembers(request_id)


def _carried(state: KeyState | None, chain: _Chain) -> tuple[Remembered, ...]:
    in_flight = [link.carried for link in islice(reversed(chain.links), REMEMBERED_REQUESTS) if link.event is not None]
    in_flight.reverse()
    settled = state.remembered if state is not None else ()
    return (*settled, *in_flight)[-REMEMBERED_REQUESTS:]


def outcome_not_known(request: Request) -> PolicyError:
    """DEADLINE_EXCEEDED: the request may have been applied, or may yet be."""
    return PolicyError(
        Kind.DEADLINE_EXCEEDED,
        Reason.OUTCOME_UNKNOWN,
        "The update's place in the log is not known yet: repeat the request with the same id to learn what happened.",
        metadata={"request_id": request.request_id},
    )


def _not_appended(request: Request) -> PolicyError:
    return PolicyError(
        Kind.UNAVAILABLE,
        Reason.NOT_APPENDED,
        f"The change log did not take this update of {request.key.topic}, and others have followed: try again.",
        metadata={"request_id": request.request_id},
    )


def _conflict(request: Request, version: Position) -> PolicyError:
    return PolicyError(
        Kind.ABORTED,
        Reason.ETAG_MISMATCH,
        f"{request.key.topic} ({request.key.scope.name}) is at version {version}, not at {request.etag}: read it again and decide anew.",
        metadata={"topic": request.key.topic, "scope": request.key.scope.name, "version": version, "etag": request.etag},
    )


def _too_large(request: Request) -> Violation:
    problem = (
        f"The document of {request.key.topic} would have more than {documents.MOST_BYTES:,} bytes: name fewer subscriptions or clusters."
    )
    return Violation("policies", Reason.DOCUMENT_TOO_LARGE, problem)


def _exists(request: Request, version: Position) -> PolicyError:
    return PolicyError(
        Kind.ALREADY_EXISTS,
        Reason.DOCUMENT_EXISTS,
        f"{request.key.topic} ({request.key.scope.name}) has a document, of version {version}: change that, or leave it.",
        metadata={"topic": request.key.topic, "scope": request.key.scope.name, "version": version},
    )


def _contention(request: Request) -> PolicyError:
    return PolicyError(
        Kind.ABORTED,
        Reason.CONTENTION,
        f"Other writers changed what this update of {request.key.topic} reads {ATTEMPTS} times in a row: try again later.",
        metadata={"topic": request.key.topic, "scope": request.key.scope.name},
    )


def _too_many(request: Request, queue: int) -> PolicyError:
    return PolicyError(
        Kind.RESOURCE_EXHAUSTED,
        Reason.TOO_MANY_UPDATES,
        f"{queue} updates of {request.key.topic} are waiting already: send fewer at once.",
        metadata={"topic": request.key.topic, "scope": request.key.scope.name},
    )


def _reused(request: Request) -> PolicyError:
    return invalid(
        Reason.REQUEST_ID_REUSED,
        Violation(
            "request_id",
            Reason.REQUEST_ID_REUSED,
            f"The request id {request.request_id} was used before for {request.key.topic} with another body: a new request needs a new id.",
        ),
    )
