"""Many changes over one stream, without I/O: which changes are in flight, and what happens to them when the stream breaks.

A change is outstanding from when it was added until its result comes. When the stream breaks, all outstanding changes are sent again over
the next stream, in order and with the same request ids: the service answers a change that was made already with its first result, and does
not make it again. Each change gets exactly one result.

A stream goes to one address. A change that a sidecar refuses because another sidecar is the leader of its namespace stays outstanding. It
is sent over the next stream, to the leader, once the current stream has answered all its other changes.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable

from grpc import StatusCode

from .errors import DeadlineExceeded, InvalidArgument, TopicPoliciesError, Violation, from_status, invalid
from .message_errors import errors_as_invalid_argument
from .names import namespace_of
from .requests import Deletion, Update
from .results import DeleteResult, Settled, UpdateResult
from .retries import RetryPolicy, ambiguous, final_error, is_retryable_limit
from .routes import NOT_LEADER, Routes
from .v1 import service_pb2

BATCH_CHANGES = 1_000
"""The most changes in one message; the service accepts no more."""
BATCH_BYTES = 1 << 20
"""The most bytes of changes in one message; a single larger change has a message of its own."""
BYTES_IN_FLIGHT = 16 << 20
"""The limit on the bytes of outstanding changes; the last change that is added may exceed it."""
_AGAIN = frozenset({StatusCode.UNAVAILABLE, StatusCode.CANCELLED, StatusCode.DEADLINE_EXCEEDED, StatusCode.INTERNAL, StatusCode.UNKNOWN})
"""The codes of a broken stream after which another stream is opened."""


class Outbox:
    """Changes that wait to be sent. All that wait when the stream can send make a batch, within the limits; no batch waits for more."""

    def __init__(self, changes: Iterable[service_pb2.PolicyChangeRequest]) -> None:
        self._changes = deque(changes)
        self.ended = False
        """Whether no further changes will be put in."""

    def __len__(self) -> int:
        return len(self._changes)

    def put(self, change: service_pb2.PolicyChangeRequest) -> None:
        """Adds a change to be sent."""
        self._changes.append(change)

    def take(self) -> service_pb2.UpdatePoliciesRequest | None:
        """Takes the next batch, as a message; None: nothing waits."""
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
    """The outstanding changes of one call of ``update_many``. Times are in seconds, by the caller's clock."""

    def __init__(self, policy: RetryPolicy, routes: Routes, *, max_in_flight: int, patience_seconds: float, now: float) -> None:
        """``patience_seconds``: how long to go on without a single result.

        Raises:
            InvalidArgument: ``max_in_flight`` is not a whole number from 1.
        """
        if not _is_count(max_in_flight):
            problem = f"max_in_flight must be a whole number from 1, not {max_in_flight!r}."
            raise invalid("OUT_OF_BOUNDS", Violation("max_in_flight", "OUT_OF_BOUNDS", problem))
        self._policy = policy
        self._routes = routes
        self._address = ""
        self._here: set[int] = set()
        """The sequences of the changes that were sent over the open stream and have no result."""
        self._maybe_applied: set[int] = set()
        """The sequences of changes that may have been made over a stream that broke."""
        self._redirected: set[int] = set()
        """The sequences of changes that were refused with NOT_LEADER before."""
        self._most = max_in_flight
        self._bytes = 0
        self._patience = patience_seconds
        self._quiet_since = now
        """When the last result came, or since when one is due."""
        self._failed = 0
        """How many streams broke since the last result."""
        self._next = 0
        self._outstanding: dict[int, service_pb2.PolicyChangeRequest] = {}
        """The outstanding changes by sequence, in order."""
        self.stuck: TopicPoliciesError | None = None
        """The error of a change that was refused with NOT_LEADER twice, or names no other address; the caller passes it to ``broke``."""

    @property
    def has_room(self) -> bool:
        """Whether another change may be added."""
        return len(self._outstanding) < self._most and self._bytes < BYTES_IN_FLIGHT

    @property
    def done_here(self) -> bool:
        """Whether there are outstanding changes, and all of them go to another address than the open stream's."""
        return bool(self._outstanding) and not self._here

    @property
    def outstanding(self) -> list[service_pb2.PolicyChangeRequest]:
        """The outstanding changes, in order."""
        return list(self._outstanding.values())

    def connect(self) -> tuple[str, list[service_pb2.PolicyChangeRequest]]:
        """Begins a new stream. Returns its address, and the changes to send first, in order."""
        self._address = self._routes.to(_namespace(next(iter(self._outstanding.values()))))
        here = [change for change in self._outstanding.values() if self._routes.to(_namespace(change)) == self._address]
        self._here = {change.sequence for change in here}
        return self._address, here

    def goes_here(self, change: service_pb2.PolicyChangeRequest) -> bool:
        """Returns whether an added change is to be sent over the open stream; otherwise it waits for the next stream."""
        here = self._routes.to(_namespace(change)) == self._address
        if here:
            self._here.add(change.sequence)
        return here

    @property
    def idle(self) -> bool:
        """Whether nothing is outstanding."""
        return not self._outstanding

    def add(self, change: Update | Deletion, now: float) -> service_pb2.PolicyChangeRequest | Settled:
        """Adds a change. Returns the request to send, or the result of a change that can't be sent at all."""
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
        """Takes results, and returns those of outstanding changes. A change that goes to a leader stays outstanding, without a result."""
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
            if error.from_service and error.reason == NOT_LEADER and self._routes.follows_leaders:
                self._redirect(change, error)
                return None
        del self._outstanding[sequence]
        self._bytes -= change.ByteSize()
        self._quiet_since = now
        self._failed = 0
        if error is not None:
            error = final_error(error, _request_id(change), maybe_applied=sequence in self._maybe_applied)
        self._redirected.discard(sequence)
        self._maybe_applied.discard(sequence)
        return Settled(sequence, _request_id(change), made, error)

    def _redirect(self, change: service_pb2.PolicyChangeRequest, error: TopicPoliciesError) -> None:
        """Takes note that a change was refused with NOT_LEADER, and of the leader."""
        elsewhere = self._routes.failed(self._address, _namespace(change), error)
        if not elsewhere or change.sequence in self._redirected:
            self.stuck = error
        self._redirected.add(change.sequence)

    def patience_left(self, now: float) -> float:
        """Returns how long the next result may be waited for, in seconds."""
        return max(self._quiet_since + self._patience - now, 0.0)

    def excuse(self, since: float, now: float) -> None:
        """Does not count the time since ``since`` as silence of the service: its results were not read."""
        self._quiet_since = min(now, self._quiet_since + now - since)

    def silence(self) -> TopicPoliciesError:
        """Returns the error of a stream over which no result came for as long as patience lasts."""
        return DeadlineExceeded(f"There was no answer for {self._patience:g} seconds.", code=StatusCode.DEADLINE_EXCEEDED)

    def broke(self, error: TopicPoliciesError, now: float, chance: float) -> float | None:
        """Takes note that the stream has ended with ``error``, before all its changes had results.

        Returns:
            Seconds to wait before the next stream; None: give up, and take the results from ``abandon``.
        """
        self.stuck = None
        if ambiguous(error):
            self._maybe_applied |= self._here
        self._here.clear()
        if error.reason != NOT_LEADER:
            for namespace in set(map(_namespace, self._outstanding.values())):
                self._routes.failed(self._address, namespace, error)
        self._failed += 1
        delay = self._policy.delay(self._failed, chance) + (error.retry_seconds or 0.0)
        if not (error.code in _AGAIN or is_retryable_limit(error)) or math.isinf(delay) or now + delay - self._quiet_since > self._patience:
            return None
        return delay

    def abandon(self, error: TopicPoliciesError) -> list[Settled]:
        """Gives up all outstanding changes. Returns their results: ``error``, or ``OutcomeUnknown`` for those that may have been made."""
        abandoned = []
        for sequence, change in self._outstanding.items():
            request_id = _request_id(change)
            maybe_applied = sequence in self._maybe_applied
            cause = final_error(error, request_id, maybe_applied=True) if maybe_applied else error
            abandoned.append(Settled(sequence, request_id, error=cause))
        self._outstanding.clear()
        self._bytes = 0
        return abandoned


def _is_count(value: object) -> bool:
    return isinstance(value, int) and value >= 1


@errors_as_invalid_argument()
def _request(sequence: int, change: object) -> service_pb2.PolicyChangeRequest:
    if isinstance(change, Update):
        return service_pb2.PolicyChangeRequest(sequence=sequence, update=change.request())
    if isinstance(change, Deletion):
        return service_pb2.PolicyChangeRequest(sequence=sequence, delete=change.request())
    problem = f"A change must be an Update or a Deletion, not {change!r:.60}."
    raise invalid("WRONG_TYPE", Violation("changes", "WRONG_TYPE", problem))


def _one(change: service_pb2.PolicyChangeRequest) -> service_pb2.UpdatePolicyRequest | service_pb2.DeletePolicyRequest:
    return change.update if change.HasField("update") else change.delete


def _namespace(change: service_pb2.PolicyChangeRequest) -> str:
    return namespace_of(_one(change).topic)


def _request_id(change: service_pb2.PolicyChangeRequest) -> str:
    return _one(change).request_id
