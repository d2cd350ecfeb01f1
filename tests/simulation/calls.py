"""Calls, as the service sees them, and how they end, as clients see it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import grpc
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status as RpcStatus

from tests.validators.records import Failure
from topicpolicies_server.access import NOBODY
from topicpolicies_server.core.chains.request import Outcome, Request
from topicpolicies_server.core.errors import PolicyError
from topicpolicies_server.core.traces import TraceContext
from topicpolicies_server.rpc.pace import Pace
from topicpolicies_server.telemetry.spans import CallSpan

BROKEN = Failure("UNAVAILABLE", "CONNECTION")
"""What a client is told whose connection broke, or found nobody."""


class Refused(Exception):
    """A call ended with an error."""

    def __init__(self, failure: Failure, leader: str = "") -> None:
        super().__init__(failure)
        self.failure = failure
        self.leader = leader
        """Whom to ask instead, if that is told."""


class CallContext:
    """What the service sees of a call."""

    caller = NOBODY
    error: PolicyError | None = None
    pace: Pace | None = None
    target = at_least = ""
    request: Request | None = None
    outcome: Outcome | None = None
    trace: TraceContext | None = None
    span: CallSpan | None = None
    started: float = 0.0
    leave: Callable[[PolicyError], None] | None = None
    changes = 0

    def __init__(self, actor: str) -> None:
        self.metadata: tuple[tuple[str, str | bytes], ...] = (("topicpolicies-actor", actor),)

    def note(self, key: str, value: str) -> None:
        """Nobody looks at it."""

    def unread_since(self) -> float | None:
        """Its reader takes everything."""

    async def abort(self, code: grpc.StatusCode, details: str = "", trailing_metadata: Any = ()) -> Any:
        """Ends the call."""
        del details
        status = RpcStatus.FromString(dict(trailing_metadata)["grpc-status-details-bin"])
        raise Refused(failure_of(code.name, status.details), leader_in(status.details))


def failure_of(code: str, details: Iterable[Any]) -> Failure:
    """An error as a client sees it."""
    for detail in details:
        info = ErrorInfo()
        if detail.Unpack(info):
            return Failure(code, info.reason, info.metadata.get("version", ""))
    return Failure(code, "")


def leader_in(details: Iterable[Any]) -> str:
    """Who leads, as an error tells; "" if it does not."""
    for detail in details:
        info = ErrorInfo()
        if detail.Unpack(info):
            return str(info.metadata.get("leader", ""))
    return ""
