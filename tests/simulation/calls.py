"""Calls as the service sees them, and errors as clients see them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeAlias

from google.rpc.error_details_pb2 import ErrorInfo

from tests.validators.records import Failure
from topicpolicies_server.core.errors import PolicyError
from topicpolicies_server.rpc import errors
from topicpolicies_server.rpc.calls import Call

Metadata: TypeAlias = tuple[tuple[str, str | bytes], ...]

BROKEN = Failure("UNAVAILABLE", "CONNECTION")
"""What a client sees if its connection broke, or if no process accepted it."""


class Refused(Exception):
    """A call ended with an error."""

    def __init__(self, failure: Failure, leader: str = "") -> None:
        super().__init__(failure)
        self.failure = failure
        self.leader = leader
        """The leader that the error names, if any."""


class _Context:
    """gRPC's context of a call without a deadline, as far as the service uses it."""

    def __init__(self, metadata: Metadata, write: Callable[[bytes], Awaitable[None]] | None) -> None:
        self._metadata = metadata
        self.write = write

    def invocation_metadata(self) -> Metadata:
        """Returns the metadata that the caller sent."""
        return self._metadata

    def time_remaining(self) -> None:
        """Returns None: no call has a deadline."""

    def set_trailing_metadata(self, _: object) -> None:
        """Ignores trailing metadata."""


def call_of(*metadata: tuple[str, str | bytes], write: Callable[[bytes], Awaitable[None]] | None = None) -> Call:
    """Returns a call, for the present task. ``write``: takes the answers of a stream."""
    return Call("", _Context(metadata, write))


def refused(error: Exception) -> Refused:
    """Returns an error of the service as a client sees it."""
    told = error if isinstance(error, PolicyError) else errors.internal()
    details = errors.status(told).details
    return Refused(failure_of(errors.CODES[told.kind].name, details), leader_in(details))


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
