"""What pulsar-client's result codes mean for a change log."""

from __future__ import annotations

from typing import Any

from ...core.errors import Kind
from ..change_log import LogError
from .admin import ADMIN_UNREACHABLE
from .client import PulsarClientError, Result

LOG_BUSY = "LOG_BUSY"
"""Reason: too many events are in flight."""
LOG_UNREACHABLE = "LOG_UNREACHABLE"
"""Reason: no broker that serves the log was reached, or none answered in time."""
LOG_FENCED = "LOG_FENCED"
"""Reason: somebody else holds the log's exclusive producer."""
LOG_ACCESS_DENIED = "LOG_ACCESS_DENIED"
"""Reason: the brokers don't let the sidecar in, or don't know it."""
LOG_REFUSED = "LOG_REFUSED"
"""Reason: the brokers refuse for a reason that they name in the message."""
EVENT_TOO_LARGE = "EVENT_TOO_LARGE"
"""Reason: the event is larger than the brokers' largest message."""

_PASSING = frozenset(
    {
        Result.BrokerMetadataError,
        Result.BrokerPersistenceError,
        Result.ConnectError,
        Result.LookupError,
        Result.NotConnected,
        Result.ReadError,
        Result.ServiceUnitNotReady,
        Result.Timeout,
        Result.TooManyLookupRequestException,
        Result.UnknownError,
    }
)
_MEANINGS = {
    Result.AuthenticationError: (LOG_ACCESS_DENIED, Kind.UNAVAILABLE, "the brokers do not know the sidecar"),
    Result.AuthorizationError: (LOG_ACCESS_DENIED, Kind.UNAVAILABLE, "the sidecar may not do that"),
    Result.ErrorGettingAuthenticationData: (LOG_ACCESS_DENIED, Kind.UNAVAILABLE, "the sidecar has no credentials"),
    Result.MemoryBufferIsFull: (LOG_BUSY, Kind.RESOURCE_EXHAUSTED, "too many events are in flight"),
    Result.MessageTooBig: (EVENT_TOO_LARGE, Kind.INVALID_ARGUMENT, "the event is larger than brokers accept"),
    Result.ProducerBusy: (LOG_FENCED, Kind.FAILED_PRECONDITION, "somebody else holds the exclusive producer"),
    Result.ProducerFenced: (LOG_FENCED, Kind.FAILED_PRECONDITION, "somebody else holds the exclusive producer"),
    Result.ProducerQueueIsFull: (LOG_BUSY, Kind.RESOURCE_EXHAUSTED, "too many events are in flight"),
}


def is_passing(error: PulsarClientError | LogError) -> bool:
    """Whether what failed may succeed when it is tried again."""
    return error.result in _PASSING if isinstance(error, PulsarClientError) else error.reason == ADMIN_UNREACHABLE


def refusal(what: str, result: Any, message: str = "", *, outcome_unknown: bool = False) -> LogError:
    """A result code as an error of the log.

    Args:
        what: what failed, as the subject of a sentence.
        result: the library's code.
        message: what the library says of it.
        outcome_unknown: for an append, whether it may have succeeded all the same.
    """
    default = (LOG_UNREACHABLE, "no answer in time") if result in _PASSING else (LOG_REFUSED, "the brokers refuse")
    reason, kind, meaning = _MEANINGS.get(result, (default[0], Kind.UNAVAILABLE, default[1]))
    said = f"{result.name}: {message}" if message else result.name
    return LogError(reason, f"{what} failed, {meaning} ({said}).", kind=kind, outcome_unknown=outcome_unknown)
