"""Many changes over one stream, without I/O: which are on their way, and what becomes of them when the stream breaks.

A change is outstanding from when it was added until its result came. When the stream breaks, all outstanding ones are sent again over the
next one, in their order and with their request ids: what was done is answered again, not done again. Each gets exactly one result.

A stream goes to one address. What a sidecar refuses because another writes its namespace stays outstanding, and goes over the next stream
to that one, when this stream has answered all the rest.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable

from grpc import StatusCode

from .building import building
from .errors import DeadlineExceeded, InvalidArgument, TopicPoliciesError, Violation, from_status, invalid
from .names import namespace_of
from .requests import Deletion, Update
from .results import DeleteResult, Settled, UpdateResult
from .retries import RetryPolicy, ambiguous, passing_limit, verdict
from .routes import NOT_LEADER, Routes
from .v1 import service_pb2

BATCH_CHANGES = 1_000
"""Most changes of one message; the service takes no more."""
BATCH_BYTES = 1 << 20
"""Most bytes of one message, but for a single change that is larger."""
BYTES_IN_FLIGHT = 16 << 20
"""Most bytes of changes that are on their way; only one change may make it more."""
_AGAIN = frozenset({StatusCode.UNAVAILABLE, StatusCode.CANCELLED, StatusCode.DEADLINE_EXCEEDED, StatusCode.INTERNAL, StatusCode.UNKNOWN})
"""How streams break."""


class Outbox:
    """Changes that wait to be sent. Whatever is there when somebody can send makes a batch, within its bounds; nothing waits for more."""

    def __init__(self, changes: Iterable[service_pb2.PolicyChangeRequest]) -> None:
        self._changes = deque(changes)
        self.ended = False
        """Whether nothing more will be put in."""

    def __len__(self) -> int:
        return len(self._changes)

    def put(self, change: service_pb2.PolicyChangeRequest) -> None:
        """A change is to be sent."""
        self._changes.append(change)

    def take(self) -> service_pb2.UpdatePoliciesRequest | None:
        """The next message; None if there is nothing to send."""
        if not self._changes:
            return None
        size = self._changes[0].ByteSize()
        batch = [self._changes.popleft()]
        while self._changes and len(batch) < BATCH_CHANGES:
            size += self._changes[0].ByteSize()
            if size > BATCH_BYTES:
                break
            batch.append(self._changes.popleft())
        return service_pb2.UpdatePoliciesRequest(changes=batch)


class Pipeline:
    """The changes of one call of ``update_many``."""

    def __init__(self, policy: RetryPolicy, routes: Routes, *, max_in_flight: int, patience_seconds: float, now: float) -> None:
        """``patience_seconds``: how long to go on trying without a single answer.

        Raises:
            InvalidArgument: nothing may be in flight.
        """
        if not _is_count(max_in_flight):
            problem = f"max_in_flight is a whole number from 1, not {max_in_flight!r}."
            raise invalid("OUT_OF_BOUNDS", Violation("max_in_flight", "OUT_OF_BOUNDS", problem))
        self._policy = policy
        self._routes = routes
        self._address = ""
        self._here: set[int] = set()
        """What was sent over the stream that is open, and has no result."""
        self._lost: set[int] = set()
        """What may have been made over a stream that broke."""
        self._redirected: set[int] = set()
        self._most = max_in_flight
        self._bytes = 0
        self._patience = patience_seconds
        self._quiet_since = now
        self._failed = 0
        self._next = 0
        self._outstanding: dict[int, service_pb2.PolicyChangeRequest] = {}
        self.stuck: TopicPoliciesError | None = None
        """Set when nobody is known who could make one of the changes; take it for the end of the stream."""

    @property
    def has_room(self) -> bool:
        """Whether another change may be added."""
        return len(self._outstanding) < self._most and self._bytes < BYTES_IN_FLIGHT

    @property
    def done_here(self) -> bool:
        """Whether all that is outstanding goes elsewhere than the stream that is open."""
        return bool(self._outstanding) and not self._here

    @property
    def outstanding(self) -> list[service_pb2.PolicyChangeRequest]:
        """The changes without a result, in order."""
        return list(self._outstanding.values())

    def connect(self) -> tuple[str, list[service_pb2.PolicyChangeRequest]]:
        """A new stream is about to be opened: where to, and what to send first, in order."""
        self._address = self._routes.to(_namespace(next(iter(self._outstanding.values()))))
        here = [change for change in self._outstanding.values() if self._routes.to(_namespace(change)) == self._address]
        self._here = {change.sequence for change in here}
        return self._address, here

    def goes_here(self, change: service_pb2.PolicyChangeRequest) -> bool:
        """Whether what was added goes over the stream that is open; else it waits for the next one."""
        here = self._routes.to(_namespace(change)) == self._address
        if here:
            self._here.add(change.sequence)
        return here

    @property
    def idle(self) -> bool:
        """Whether nothing is outstanding."""
        return not self._outstanding

    def add(self, change: Update | Deletion, now: float) -> service_pb2.PolicyChangeRequest | Settled:
        """Takes a change: what to send, or, if it can't be sent at all, its result."""
        sequence = self._next
        self._next += 1
        try:
            request = _request(sequence, change)
        except InvalidArgument as error:
            return Settled(sequence, "", error=error)
        if not self._outstanding:
            self._quiet_since = now
        self._outstanding[sequence] = request
        self._bytes += request.ByteSize()
        return request

    def settle(self, response: service_pb2.UpdatePoliciesResponse, now: float) -> list[Settled]:
        """Results have come; those of what is not outstanding are passed over, and what is to be made elsewhere has none yet."""
        return [settled for result in response.results if (settled := self._settle(result, now)) is not None]

    def _settle(self, result: service_pb2.PolicyChangeResult, now: float) -> Settled | None:
        sequence = result.sequence
        change = self._outstanding.get(sequence)
        self._here.discard(sequence)
        if change is None:
            return None
        error: TopicPoliciesError | None = None
        made: UpdateResult | DeleteResult | None = None
        kind = result.WhichOneof("result")
        if kind == "updated" and change.HasField("update"):
            made = UpdateResult.of(result.updated)
        elif kind == "deleted" and change.HasField("delete"):
            made = DeleteResult.of(result.deleted)
        elif kind is None:
            error = TopicPoliciesError("The service gave a result that this client does not know.", code=StatusCode.UNKNOWN)
        elif kind != "error":
            error = TopicPoliciesError("The service gave the result of another kind of change.", code=StatusCode.INTERNAL)
        else:
            error = from_status(result.error.code, result.error.message, result.error.details)
            if error.from_service and error.reason == NOT_LEADER and self._routes.follows:
                self._redirect(change, error)
                return None
        del self._outstanding[sequence]
        self._bytes -= change.ByteSize()
        self._quiet_since = now
        self._failed = 0
        if error is not None:
            error = verdict(error, _request_id(change), lost=sequence in self._lost)
        self._redirected.discard(sequence)
        self._lost.discard(sequence)
        return Settled(sequence, _request_id(change), made, error)

    def _redirect(self, change: service_pb2.PolicyChangeRequest, error: TopicPoliciesError) -> None:
        """A change was refused here, as another sidecar writes its namespace."""
        elsewhere = self._routes.failed(self._address, _namespace(change), error)
        if not elsewhere or change.sequence in self._redirected:
            self.stuck = error
        self._redirected.add(change.sequence)

    def patience_left(self, now: float) -> float:
        """How long the next answer may be waited for, in seconds."""
        return max(self._quiet_since + self._patience - now, 0.0)

    def excuse(self, since: float, now: float) -> None:
        """Nobody listened to the service meanwhile: that is no silence of the service."""
        self._quiet_since = min(now, self._quiet_since + now - since)

    def silence(self) -> TopicPoliciesError:
        """The error of a stream over which no answer came, for as long as patience lasts."""
        return DeadlineExceeded(f"There was no answer for {self._patience:g} seconds.", code=StatusCode.DEADLINE_EXCEEDED)

    def broke(self, error: TopicPoliciesError, now: float, chance: float) -> float | None:
        """The stream has ended before everything was answered; ``error`` says why.

        Returns:
            Seconds to wait before the next stream; None: give up, and take the results of ``abandon``.
        """
        self.stuck = None
        if ambiguous(error):
            self._lost |= self._here
        self._here.clear()
        if error.reason != NOT_LEADER:
            for namespace in set(map(_namespace, self._outstanding.values())):
                self._routes.failed(self._address, namespace, error)
        self._failed += 1
        delay = self._policy.delay(self._failed, chance) + (error.retry_seconds or 0.0)
        if not (error.code in _AGAIN or passing_limit(error)) or math.isinf(delay) or now + delay - self._quiet_since > self._patience:
            return None
        return delay

    def abandon(self, error: TopicPoliciesError) -> list[Settled]:
        """The results of all that is outstanding, once the stream broke and there is no point in trying again."""
        abandoned = []
        for sequence, change in self._outstanding.items():
            request_id = _request_id(change)
            lost = sequence in self._lost
            cause = verdict(error, request_id, lost=True) if lost else error
            abandoned.append(Settled(sequence, request_id, error=cause))
        self._outstanding.clear()
        self._bytes = 0
        return abandoned


def _is_count(value: object) -> bool:
    return isinstance(value, int) and value >= 1


@building()
def _request(sequence: int, change: object) -> service_pb2.PolicyChangeRequest:
    if isinstance(change, Update):
        return service_pb2.PolicyChangeRequest(sequence=sequence, update=change.request())
    if isinstance(change, Deletion):
        return service_pb2.PolicyChangeRequest(sequence=sequence, delete=change.request())
    problem = f"A change is an Update or a Deletion, not {change!r:.60}."
    raise invalid("WRONG_TYPE", Violation("changes", "WRONG_TYPE", problem))


def _one(change: service_pb2.PolicyChangeRequest) -> service_pb2.UpdatePolicyRequest | service_pb2.DeletePolicyRequest:
    return change.update if change.HasField("update") else change.delete


def _namespace(change: service_pb2.PolicyChangeRequest) -> str:
    return namespace_of(_one(change).topic)


def _request_id(change: service_pb2.PolicyChangeRequest) -> str:
    return _one(change).request_id
