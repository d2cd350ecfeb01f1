"""The contexts of calls as the service sees them, and errors as clients see them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from google.rpc.error_details_pb2 import ErrorInfo

from tests.validators.records import Failure
from topicpolicies_server.access import NOBODY
from topicpolicies_server.access.rations import Bucket
from topicpolicies_server.core.chains.request import Outcome, Request
from topicpolicies_server.core.errors import PolicyError
from topicpolicies_server.core.traces import TraceContext
from topicpolicies_server.rpc import errors

BROKEN = Failure("UNAVAILABLE", "CONNECTION")
"""What a client sees if its connection broke, or if no process accepted it."""


class Refused(Exception):
    """A call ended with an error."""

    def __init__(self, failure: Failure, leader: str = "") -> None:
        super().__init__(failure)
        self.failure = failure
        self.leader = leader
        """The leader that the error names, if any."""


class CallContext:
    """The context of a call, as far as the service uses it."""

    caller = NOBODY
    error: PolicyError | None = None
    bucket: Bucket | None = None
    target = at_least = ""
    request: Request | None = None
    outcome: Outcome | None = None
    trace: TraceContext | None = None
    started: float = 0.0
    hurry: Callable[[], None] | None = None
    changes = 0
    unsure = False
    method = ""
    metadata: tuple[tuple[str, str | bytes], ...] = ()

    def note(self, key: str, value: str) -> None:
        """Ignores trailing metadata."""

    def time_left(self) -> float | None:
        """Returns None: no call has a deadline."""

    def unread_since(self) -> float | None:
        """Returns None: nothing waits to be read by the client."""

    def of_all_attempts(self, error: PolicyError, request_id: str) -> PolicyError:
        """Returns the error: this is the call's first attempt. ``request_id`` does not matter."""
        return error


def refused(error: Exception) -> Refused:
    """Returns an error of the service as a client sees it."""
    told = error if isinstance(error, PolicyError) else errors.internal()
    details = errors.status(told).details
    return Refused(failure_of(errors.code(told).name, details), leader_in(details))


def failure_of(code: str, details: Iterable[Any]) -> Failure:
    """Returns an error as a client sees it."""
    for detail in details:
        info = ErrorInfo()
        if detail.Unpack(info):
            return Failure(code, info.reason, info.metadata.get("version", ""))
    return Failure(code, "")


def leader_in(details: Iterable[Any]) -> str:
    """Returns the leader that an error names; "" if it names none."""
    for detail in details:
        info = ErrorInfo()
        if detail.Unpack(info):
            return str(info.metadata.get("leader", ""))
    return ""
