"""What pulsar-client's result codes mean for a change log."""

from __future__ import annotations

import re
from typing import Any

from ...core.errors import Kind
from ...core.reasons import LogState, Reason
from ..change_log import LogError
from .client import Result

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
_MEANINGS: dict[Any, tuple[Reason | LogState, Kind, str]] = {
    Result.AuthenticationError: (LogState.ACCESS_DENIED, Kind.UNAVAILABLE, "the brokers do not know the sidecar"),
    Result.AuthorizationError: (LogState.ACCESS_DENIED, Kind.UNAVAILABLE, "the sidecar lacks the permission"),
    Result.ErrorGettingAuthenticationData: (LogState.ACCESS_DENIED, Kind.UNAVAILABLE, "the sidecar has no credentials"),
    Result.MemoryBufferIsFull: (
        Reason.LIMIT_REACHED,
        Kind.RESOURCE_EXHAUSTED,
        "more bytes are in flight than the client library allows, send fewer at once, or lower max_in_flight_per_namespace",
    ),
    Result.MessageTooBig: (Reason.NOT_EXPRESSIBLE, Kind.FAILED_PRECONDITION, "the event is larger than brokers accept"),
    Result.ProducerBusy: (LogState.FENCED, Kind.FAILED_PRECONDITION, "another client holds the exclusive producer"),
    Result.ProducerFenced: (LogState.FENCED, Kind.FAILED_PRECONDITION, "another client holds the exclusive producer"),
    Result.ProducerQueueIsFull: (Reason.LIMIT_REACHED, Kind.RESOURCE_EXHAUSTED, "more than max_in_flight_per_namespace are in flight"),
}


_HOLDER = re.compile(r"existing exclusive producer: (.+)")
_SHARED = "existing shared producers"
_NOBODY = "null"


def holder_of(message: str) -> str | None:
    """Returns which exclusive producer a broker names when it refuses another one; None if it does not say.

    It is "" if the message says that there is none, because other producers are there, or others wait for their end.
    """
    if (match := _HOLDER.search(message)) is not None:
        return "" if match[1] == _NOBODY else match[1]
    return "" if _SHARED in message else None


def refusal(what: str, result: Any, message: str = "", *, outcome_unknown: bool = False) -> LogError:
    """Returns a result code as an error of the log.

    ``what``: what failed, as the subject of a sentence; ``outcome_unknown``: for an append, whether it may have succeeded all the same.
    """
    default: tuple[Reason | LogState, str] = (
        (LogState.UNREACHABLE, "no answer in time") if result in _PASSING else (LogState.REFUSED, "the brokers refused it")
    )
    why, kind, meaning = _MEANINGS.get(result, (default[0], Kind.UNAVAILABLE, default[1]))
    said = f"{result.name}: {message}" if message else result.name
    return LogError(why, f"{what} failed, {meaning} ({said}).", kind=kind, outcome_unknown=outcome_unknown)
