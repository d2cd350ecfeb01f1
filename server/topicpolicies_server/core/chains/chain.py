"""One chain: the updates of one policy key, computed one on the other, and waiting for what the log says (``sequencer``, ``link``).

A request waits in the queue, becomes a link when it is computed, and leaves with its answer. It goes back to the queue when what it was
computed from has turned out otherwise: a link without an event, when everything before it is settled; one with an event, when the event is
certainly not in the log or does not count.

The chain computes as long as its pipeline has room. Only an etag waits for everything before it, and one of a stream for those before it
on that stream that may still have to be written.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import takewhile

from ..errors import PolicyError
from ..fold.fold import Folded, KeyState, Status, restatement
from ..names import PolicyKey
from ..policies.documents import Settings
from ..policies.events import ABSENT, Event, Position, Remembered
from .answers import judged, repeated, replay
from .event import event_of
from .ground import Ground, Told
from .link import Link, News, State
from .refusals import conflict, contention, exists, not_appended, outcome_not_known
from .request import Outcome, Request, Result

ATTEMPTS = 16
"""How often an update is computed anew because another writer changed what it had read."""


class Chain:
    """The updates of one key that have no answer yet."""

    __slots__ = ("_appended", "_fresh", "_ground", "_key", "_links", "_newest", "_queue", "_requests")

    def __init__(self, key: PolicyKey, ground: Ground) -> None:
        self._key = key
        self._ground = ground
        self._links: deque[Link] = deque()
        """Computed, in order."""
        self._appended: dict[str, Link] = {}
        """Those with an event, by its id."""
        self._queue: OrderedDict[Request, None] = OrderedDict()
        """Not computed yet, in order."""
        self._requests: dict[str, Request] = {}
        """All of both, by request id."""
        self._newest: Settings | None = None
        """The document after all links, if ``_fresh``."""
        self._fresh = False

    # --- what is asked of it ------------------------------------------------------------------------------------

    @property
    def idle(self) -> bool:
        """Whether there is nothing in it."""
        return not self._links and not self._queue

    @property
    def in_flight(self) -> int:
        """Its events that the log has not told of."""
        return len(self._appended)

    @property
    def waiting(self) -> int:
        """Its requests without an event."""
        return len(self._queue) + len(self._links) - len(self._appended)

    def expected(self, event_id: str) -> Link | None:
        """The link of an event; None: it is none of its own."""
        return self._appended.get(event_id)

    def same(self, request: Request) -> Request | None:
        """The request in it that has the same id; None too where that is known to have done nothing, as all had given it up."""
        first = self._requests.get(request.request_id)
        return None if first is not None and first.abandoned and not self._has_event(first) else first

    def add(self, request: Request, state: KeyState | None) -> None:
        """A new request; ``state``: the key's, as the fold knows it now."""
        self._requests[request.request_id] = request
        links = self._links
        waits = self._queue or (links and (links[0].state is State.WAITING or request.conditional))
        if not waits and len(self._appended) < self._ground.depth:
            self._compute(request, state, at_front=False)
        else:
            self._queue[request] = None
            self.advance()

    def withdraw(self, request: Request) -> bool:
        """Its caller waits for a request no more. Returns whether it has no event, and so certainly will not be applied."""
        first = self._requests.get(request.request_id)
        if first is None or not first.abandoned:
            return False
        if first not in self._queue:  # if it waits to be confirmed, that goes on, and ends with nothing
            return not self._has_event(first)
        del self._queue[first]
        del self._requests[request.request_id]
        return True

    def newest(self, head: Settings | None) -> Settings | None:
        """The head with everything that is in flight applied to it."""
        if not self._fresh:
            document = head
            for link in self._appended.values():
                change = link.request.change
                with suppress(PolicyError):  # the fold will refuse it or not; here it is only left out of the guess
                    document = change.apply(document) if change is not None else None
            self._newest, self._fresh = document, True
        return self._newest

    # --- what it is told ------------------------------------------------------------------------------------------

    def folded(self, event: Event, result: Folded, before: Settings | None) -> None:
        """An event of its key has been folded, its own or another writer's; ``before``: the document that it met."""
        link = self._appended.get(event.stamp.event_id) if event.stamp is not None else None
        if link is None:
            if not result.changed:
                return
            self._fresh = False  # another writer's change: what is computed next is computed on it
        else:
            if result.status is not Status.APPLIED:
                self._fresh = False
            state = self._ground.state(self._key)
            self._conclude(link, result, before, state.document if state is not None else None, state)
        if self._links or self._queue:
            self.advance()

    def failed(self, event_id: str, error: PolicyError, outcome_unknown: bool) -> None:
        """The log has not acknowledged an event of its own. ``outcome_unknown``: it may be there all the same."""
        link = self._appended[event_id]
        self._fresh = False
        state = link.on(News.NOT_ACKNOWLEDGED if outcome_unknown else News.NOT_THERE)
        if state is not State.DOUBTFUL:
            self._unlink(link)
        if state is State.LOST:
            self._again(link.request, not_appended(link.request))
        elif state is not State.DOUBTFUL:
            self._settle(link.request, outcome_not_known(link.request) if state is State.UNKNOWN else error)
        self._probe()
        self.advance()

    def reopened(self, told: Mapping[str, Told]) -> None:
        """The log was opened anew and read: ``told`` by event id. What it may lack is appended once more, under its own id."""
        self._fresh = False
        lost: list[Request] = []
        for link in list(self._appended.values()):
            if link.event_id not in self._appended:
                continue  # one that followed it has told
            state = self._ground.state(self._key)
            if (said := told.get(link.event_id)) is not None:
                self._conclude(link, *said, state)
                continue
            remembered = self._ground.known(link.request, state)
            if remembered is not None:
                self._unlink(link)
                self._settle(link.request, repeated(link.request, state, remembered))
            elif link.on(News.MISSED) is State.LOST:
                self._unlink(link)
                lost.append(link.request)
        for request in reversed(lost):
            self._again(request, not_appended(request))
        for link in list(self._appended.values()):
            self._append_again(link)
        self.advance()

    def give_up(self, requests: Iterable[Request], error: PolicyError) -> None:
        """Settles those of some requests that wait without an event with an error."""
        unsure = set(requests)
        left = [link for link in self._links if link.state is State.WAITING and link.request in unsure]
        gone = set(left)
        self._links = deque(link for link in self._links if link not in gone)
        for link in left:
            self._settle(link.request, error)

    def abandon(self, error: PolicyError) -> None:
        """Settles everything with an error; the chain is to be forgotten."""
        for request in [*(link.request for link in self._links), *self._queue]:
            self._settle(request, error)

    def advance(self) -> None:
        """Computes what can be computed, and settles what waited for its predecessors."""
        ground, links, queue = self._ground, self._links, self._queue
        while True:
            while links and links[0].state is State.WAITING and not links[0].request.unsure:
                # Everything before it is settled. It is computed again, on what really is there.
                request = links.popleft().request
                if links:
                    self._compute(request, ground.state(self._key), at_front=True)
                else:
                    self._put_back(request)
                links = self._links
            if not queue or len(self._appended) >= ground.depth:
                return
            if links and next(iter(queue)).conditional:
                return
            if not self._compute(queue.popitem(last=False)[0], ground.state(self._key), at_front=False):
                return

    # --- computing --------------------------------------------------------------------------------------------------

    def _compute(self, request: Request, state: KeyState | None, *, at_front: bool) -> bool:
        """Settles a request, or makes it a link; False: it has to wait in the queue."""
        ground = self._ground
        head = state.document if state is not None else None
        version = state.version if state is not None else ABSENT
        if (version != request.submitted_at or request.given_up) and self._is_over(request, state, version):
            return True
        if at_front:  # everything before it is settled: its answer is what holds now, or it takes its place at the end
            answer, _ = judged(request, head, version)
            if answer is not None:
                if ground.doubts(request, version):
                    self._links.appendleft(Link(request, None))
                else:
                    self._settle(request, answer)
                return True
        if request.followed:  # what its answer rested on has failed
            self._settle(request, not_appended(request))
            return True
        before = self.newest(head)
        answer, after = judged(request, before, version)
        if answer is not None:
            if not ground.doubts(request, version) and not self._links:
                self._settle(request, answer)
                return True
            self._links.append(Link(request, None))  # it holds only if what is in flight succeeds
            request.wait_in_stream()
        elif not at_front and request.stream and request.earlier_is_unsure:  # and may have to be written first
            self._put_back(request)
            return False
        else:
            self._append(request, state, before, after)
            if request.stream is not None:
                request.follow_in_stream()
        if at_front and request.stream is not None:
            self._put_behind(request)
        return True

    def _is_over(self, request: Request, state: KeyState | None, version: Position) -> bool:
        """Whether a request has its answer before it is computed."""
        if version != request.submitted_at and (remembered := self._ground.known(request, state)) is not None:
            self._settle(request, repeated(request, state, remembered))  # another sidecar was asked too, and was faster
            return True
        if request.abandoned:  # it waited to be confirmed, and its caller was told that nothing was done
            self._settle(request, not_appended(request))
            return True
        return False

    def _append(self, request: Request, state: KeyState | None, before: Settings | None, after: Settings | None) -> None:
        """Hands a request's event to the log."""
        event_id = self._ground.new_id()
        event = event_of(request, event_id, state, before, after, self._appended)
        carried = Remembered(request.request_id, request.digest, "", "")
        self._appended[event_id] = link = Link(request, event, carried, State.UNDER_WAY, before)
        self._links.append(link)
        self._newest, self._fresh = after, True
        self._ground.append(event, request)

    def _again(self, request: Request, error: PolicyError) -> None:
        """A request is certainly not applied: it is computed anew, or fails with ``error``."""
        if request.followed or request.abandoned or request.attempts == ATTEMPTS:
            self._settle(request, error)
        else:
            request.attempts += 1
            self._put_back(request)

    def _put_back(self, request: Request) -> None:
        self._queue[request] = None
        self._queue.move_to_end(request, last=False)

    def _put_behind(self, request: Request) -> None:
        """What waits without an event and came later on a request's stream is to follow it."""
        waiting = (link for link in self._links if link.state is State.WAITING and link.request is not request)
        later = [link for link in waiting if link.request.stream is request.stream]
        if later:
            moved = set(later)
            self._links = deque([*(link for link in self._links if link not in moved), *later])

    # --- what is in flight ------------------------------------------------------------------------------------------

    def _conclude(self, link: Link, result: Folded, before: Settings | None, after: Settings | None, state: KeyState | None) -> None:
        """The log has told of a link's event. Those that were appended before it, and were not folded, are not in the log."""
        if link is not self._links[0]:
            self._pass(link)
        link.on(News.FOLDED)
        self._unlink(link)
        request = link.request
        if result.status is Status.APPLIED:
            self._settle(request, Result(Outcome.APPLIED, after, result.version, result.previous, before=before))
            if request.change is None and self.idle and state is not None:
                self._ground.append(restatement(self._key, state, self._ground.new_id()))
            return
        version = state.version if state is not None else ABSENT  # the key may have gone since, and be forgotten
        if result.status is Status.DUPLICATE:
            remembered = self._ground.known(request, state)
            if remembered is None:
                self._settle(request, replay(None, result.version, result.previous, known=False))
            else:
                self._settle(request, repeated(request, state, remembered))
        elif result.status is Status.SKIPPED_ABSENT:  # there, and not in the state, which is a later one after a reopening
            self._settle(request, Result(Outcome.SKIPPED, None, result.version, result.version))
        elif result.status is Status.REJECTED_READS:
            self._again(request, contention(request, ATTEMPTS))
        elif request.must_not_exist:
            self._settle(request, exists(request, version))
        else:
            self._settle(request, conflict(request, version))

    def _pass(self, folded: Link) -> None:
        """A later event was folded before those that were appended earlier."""
        for link in reversed(list(takewhile(lambda link: link is not folded, self._links))):
            if link.state is not State.WAITING and link.on(News.PASSED) is State.LOST:
                self._unlink(link)
                self._fresh = False
                self._again(link.request, not_appended(link.request))

    def _probe(self) -> None:
        """Sees to it that something is under way that will tell what became of the doubtful."""
        for link in list(reversed(self._appended.values())):
            if link.owed or self._append_again(link):
                return

    def _append_again(self, link: Link) -> bool:
        """Appends a doubtful event once more, unless nobody waits for it; a repeat of its request learns what happened."""
        assert link.event is not None, "it is doubtful"
        if link.request.abandoned:
            self._unlink(link)
            self._settle(link.request, outcome_not_known(link.request))
            return False
        link.on(News.APPENDED_AGAIN)
        self._ground.append(link.event)
        return True

    def _unlink(self, link: Link) -> None:
        if link is self._links[0]:
            self._links.popleft()
        else:
            self._links.remove(link)
        del self._appended[link.event_id]

    def _has_event(self, request: Request) -> bool:
        return any(link.request is request for link in self._appended.values())

    def _settle(self, request: Request, answer: Result | PolicyError) -> None:
        self._ground.settle(request, answer)
        if self._requests.get(request.request_id) is request:
            del self._requests[request.request_id]
