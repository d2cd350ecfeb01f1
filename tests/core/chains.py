"""A sequencer over a log that the tests write by hand."""

from __future__ import annotations

import itertools
from collections import deque
from typing import cast

from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies_server.core.chains.request import Request, Result
from topicpolicies_server.core.chains.sequencer import Append, Confirm, Sequencer
from topicpolicies_server.core.changes.change import Change, compile_change
from topicpolicies_server.core.errors import Kind, PolicyError
from topicpolicies_server.core.fold.fold import FoldContext, Folded, KeyState, Status, fold
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.policies.documents import Document, join
from topicpolicies_server.core.policies.events import Action, Event, Placed, Remembered, Stamp, StampKind
from topicpolicies_server.core.reading.view import View
from topicpolicies_server.core.reasons import Reason

KEY = PolicyKey("persistent://acme/orders/one", Scope.LOCAL)
LOST = PolicyError(Kind.UNAVAILABLE, Reason.LOG_UNAVAILABLE, "The change log did not acknowledge the event.")
FIELD = "max_producer_per_topic"


class Bench:
    """A sequencer with a log, the events that it wants appended, and its answers."""

    def __init__(self, *, depth: int = 64, queue: int = 100, shared: bool = False) -> None:
        self.states: dict[PolicyKey, KeyState] = {}
        self.wanted: deque[Event] = deque()
        self.answers: dict[str, Result | PolicyError] = {}
        self.log: list[Event] = []
        self.unconfirmed: list[Request] = []
        """The requests that wait for a confirmation."""
        self.others_write = shared
        self._requests = itertools.count()
        self.requests: dict[tuple[PolicyKey, str], Remembered] = {}
        self.sequencer = Sequencer("event-", lambda: self.others_write, most_in_flight=depth, most_waiting=queue)
        self.sequencer.view = cast("View", self)

    def state(self, key: PolicyKey) -> KeyState | None:
        return self.states.get(key)

    def applied(self, key: PolicyKey, request_id: str) -> Remembered | None:
        return self.requests.get((key, request_id))

    def request(
        self, value: int | None = None, *, field: str = FIELD, key: PolicyKey = KEY, request_id: str = "", **rest: object
    ) -> Request:
        """Returns a request that sets a field, or clears it if there is no value."""
        policies = TopicPolicies() if value is None else TopicPolicies(**{field: value})  # type: ignore[arg-type]
        change = compile_change(policies, [field], {})
        return Request(key, change, request_id or f"request-{next(self._requests)}", f"{field}={value}", **rest)  # type: ignore[arg-type]

    def deletion(self, **rest: object) -> Request:
        return Request(KEY, None, f"request-{next(self._requests)}", "delete", **rest)  # type: ignore[arg-type]

    def submit(self, request: Request) -> Request:
        self.sequencer.add(request, self.states.get(request.key))
        self.perform()
        return request

    def set(self, value: int | None, **rest: object) -> Request:
        return self.submit(self.request(value, **rest))  # type: ignore[arg-type]

    def perform(self) -> None:
        while self.sequencer.effects:
            effect = self.sequencer.effects.popleft()
            if isinstance(effect, Append):
                self.wanted.append(effect.event)
            elif isinstance(effect, Confirm):
                self.unconfirmed.append(effect.request)
            else:
                assert effect.request.request_id not in self.answers or effect.request.repeats == []
                self.answers[effect.request.request_id] = effect.answer
                if effect.request.on_answer is not None:
                    effect.request.on_answer(effect.request, effect.answer)

    def land(self, event: Event | None = None) -> Folded:
        """Appends the next wanted event (or the given one) to the log, and folds it."""
        event = event or self.wanted.popleft()
        state = self.states.setdefault(event.key, KeyState())
        before = state.document
        folded = self.read(event)
        self.sequencer.folded(event, folded, before, state)
        self.perform()
        return folded

    def read(self, event: Event) -> Folded:
        """Appends an event to the log and folds it, and says nothing of it to the sequencer."""
        self.log.append(event)
        state = self.states.setdefault(event.key, KeyState())
        folded = fold(state, Placed(0, f"{len(self.log):04d}", event, len(self.log)), FoldContext())
        if event.stamp is not None and folded.status is Status.APPLIED:
            request = Remembered(event.stamp.request_id, event.stamp.digest, folded.version, folded.previous)
            self.requests.setdefault((event.key, request.request_id), request)
        return folded

    def land_all(self) -> None:
        while self.wanted:
            self.land()

    def fail(self, event: Event, *, outcome_unknown: bool) -> None:
        self.sequencer.failed(event, LOST, outcome_unknown)
        self.perform()

    def result(self, request: Request) -> Result:
        answer = self.answers[request.request_id]
        assert isinstance(answer, Result), answer
        return answer

    def error(self, request: Request) -> PolicyError:
        answer = self.answers[request.request_id]
        assert isinstance(answer, PolicyError), answer
        return answer

    def open(self, request: Request) -> bool:
        """Returns whether a request has no answer yet."""
        return request.request_id not in self.answers

    def confirm(self, *requests: Request) -> None:
        """Confirms requests, by default all that wait for it: the view has read up to the end that the log had when they arrived."""
        chosen = requests or tuple(self.unconfirmed)
        self.unconfirmed = [request for request in self.unconfirmed if request not in chosen]
        self.sequencer.confirmed(chosen)
        self.perform()

    def elsewhere(
        self, value: int | None = None, *, field: str = FIELD, change: Change | None = None, request_id: str = "", digest: str = ""
    ) -> None:
        """Appends another sidecar's update, which sets a field or makes the given change, and folds it."""
        state = self.states.get(KEY)
        theirs = change or self.request(value, field=field).change
        assert theirs is not None
        document: Document = theirs.apply(state.document if state is not None else None)
        number = next(self._requests)
        stamp = Stamp(f"theirs-{number}", StampKind.UPDATE, request_id or f"their-request-{number}", digest, mask=theirs.plan.paths)
        self.land(Event(KEY, Action.UPDATE, document, stamp))

    def document(self) -> TopicPolicies:
        state = self.states.get(KEY)
        assert state is not None and state.document is not None
        return join(state.document)
