"""Many updates over one stream, without I/O: which are on their way, and what becomes of them when the stream breaks.

An update is outstanding from when it was added until its answer came. When the stream breaks, all outstanding ones are sent again over the
next one, in their order and with their request ids: what was done is answered again, not done again. Each gets exactly one result.

A stream goes to one address. What a sidecar refuses because another writes its namespace stays outstanding, and goes over the next stream
to that one, when this stream has answered all the rest.
"""

from __future__ import annotations

from grpc import StatusCode

from .errors import InvalidArgument, TopicPoliciesError, from_status, outcome_unknown
from .requests import Update
from .results import Settled, UpdateResult
from .retries import RetryPolicy, ambiguous
from .routes import NOT_LEADER, Routes
from .v1 import service_pb2
from .watching import namespace_of

_AGAIN = frozenset({StatusCode.UNAVAILABLE, StatusCode.CANCELLED, StatusCode.DEADLINE_EXCEEDED, StatusCode.INTERNAL, StatusCode.UNKNOWN})
"""How streams break."""


class Pipeline:
    """The updates of one call of ``update_many``."""

    def __init__(self, policy: RetryPolicy, routes: Routes, *, max_in_flight: int, patience_seconds: float, now: float) -> None:
        """``patience_seconds``: how long to go on trying without a single answer."""
        self._policy = policy
        self._routes = routes
        self._address = ""
        self._here: set[int] = set()
        """What was sent over the stream that is open."""
        self._redirected: set[int] = set()
        self._most = max_in_flight
        self._patience = patience_seconds
        self._quiet_since = now
        self._failed = 0
        self._next = 0
        self._outstanding: dict[int, service_pb2.UpdatePoliciesRequest] = {}
        self._maybe_sent = False

    @property
    def has_room(self) -> bool:
        """Whether another update may be added."""
        return len(self._outstanding) < self._most

    @property
    def done_here(self) -> bool:
        """Whether all that is outstanding goes elsewhere than the stream that is open."""
        return bool(self._outstanding) and not self._here

    @property
    def outstanding(self) -> list[service_pb2.UpdatePoliciesRequest]:
        """The requests without an answer, in order."""
        return list(self._outstanding.values())

    def connect(self) -> tuple[str, list[service_pb2.UpdatePoliciesRequest]]:
        """A new stream is about to be opened: where to, and what to send first, in order."""
        self._address = self._routes.to(_namespace(next(iter(self._outstanding.values()))))
        here = [request for request in self._outstanding.values() if self._routes.to(_namespace(request)) == self._address]
        self._here = {request.sequence for request in here}
        return self._address, here

    def goes_here(self, request: service_pb2.UpdatePoliciesRequest) -> bool:
        """Whether what was added goes over the stream that is open; else it waits for the next one."""
        here = self._routes.to(_namespace(request)) == self._address
        if here:
            self._here.add(request.sequence)
        return here

    @property
    def idle(self) -> bool:
        """Whether nothing is outstanding."""
        return not self._outstanding

    def add(self, update: Update, now: float) -> service_pb2.UpdatePoliciesRequest | Settled:
        """Takes an update: what to send, or, if it can't be sent at all, its result."""
        sequence = self._next
        self._next += 1
        try:
            request = service_pb2.UpdatePoliciesRequest(update=update.request(), sequence=sequence)
        except InvalidArgument as error:
            return Settled(sequence, update.options.request_id, error=error)
        if not self._outstanding:
            self._quiet_since = now
        self._outstanding[sequence] = request
        return request

    def settle(self, response: service_pb2.UpdatePoliciesResponse, now: float) -> Settled | None:
        """An answer has come: its result; None if it answers nothing that is outstanding, or sends it elsewhere.

        Raises:
            TopicPoliciesError: nobody is known who could answer it; take it for the end of the stream.
        """
        sequence = response.sequence
        request = self._outstanding.get(sequence)
        self._here.discard(sequence)
        if request is None:
            return None
        error: TopicPoliciesError | None = None
        if response.WhichOneof("result") != "response":
            error = from_status(response.error.code, response.error.message, response.error.details)
            if error.from_service and error.reason == NOT_LEADER and self._routes.follows:
                elsewhere = self._routes.failed(self._address, _namespace(request), error)
                if not elsewhere or sequence in self._redirected:
                    raise error
                self._redirected.add(sequence)
                return None
        del self._outstanding[sequence]
        self._redirected.discard(sequence)
        self._quiet_since = now
        self._failed = 0
        request_id = request.update.request_id
        if error is None:
            return Settled(sequence, request_id, result=UpdateResult.of(response.response))
        if error.code is StatusCode.DEADLINE_EXCEEDED:
            error = outcome_unknown(error, request_id)
        return Settled(sequence, request_id, error=error)

    def broke(self, error: TopicPoliciesError, now: float, chance: float) -> float | None:
        """The stream has ended before everything was answered; ``error`` says why.

        Returns:
            Seconds to wait before the next stream; None: give up, and take the results of ``abandon``.
        """
        self._here.clear()
        if error.reason != NOT_LEADER:
            for namespace in set(map(_namespace, self._outstanding.values())):
                self._routes.failed(self._address, namespace, error)
        self._failed += 1
        self._maybe_sent = self._maybe_sent or ambiguous(error)
        delay = self._policy.delay(self._failed, chance)
        if error.code not in _AGAIN or now + delay - self._quiet_since > self._patience:
            return None
        return delay

    def abandon(self, error: TopicPoliciesError) -> list[Settled]:
        """The results of all that is outstanding, once there is no point in trying again."""
        abandoned = []
        for sequence, request in self._outstanding.items():
            request_id = request.update.request_id
            cause = outcome_unknown(error, request_id) if self._maybe_sent else error
            abandoned.append(Settled(sequence, request_id, error=cause))
        self._outstanding.clear()
        return abandoned


def _namespace(request: service_pb2.UpdatePoliciesRequest) -> str:
    return namespace_of(request.update.topic)
