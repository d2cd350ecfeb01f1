"""The one mapper from the domain's errors to gRPC: status code, sentence, and ``google.rpc`` details."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NoReturn, Protocol
from typing import Any as Anything

import grpc
from google.protobuf.any_pb2 import Any
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status

from ..access import Caller
from ..core.chains.request import Outcome, Request
from ..core.errors import Kind, PolicyError, Violation
from ..core.reasons import Reason
from ..core.traces import TraceContext

if TYPE_CHECKING:
    from ..telemetry.spans import CallSpan
    from .rationing import Pace

DOMAIN = "topicpolicies"
"""The domain of every ``google.rpc.ErrorInfo``."""
DETAILS_KEY = "grpc-status-details-bin"

_CODES: dict[Kind, grpc.StatusCode] = {kind: grpc.StatusCode[kind.value] for kind in Kind}
_VIOLATION_BYTES = 3_500
"""Of the violations that an answer names. It stands in the call's metadata, with the message twice (once with three bytes for each that is
not ASCII); above 8 KiB of it peers put RESOURCE_EXHAUSTED in place of the error."""


class Context(Protocol):
    """What the service uses of a call (``call.Call``)."""

    error: PolicyError | None
    """What it was told at its end."""
    pace: Pace | None
    """How fast a stream of changes may go on; None: as fast as it comes."""
    target: str
    """What it reads."""
    at_least: str
    """A version that its answer must have reached."""
    request: Request | None
    """The change that it makes."""
    changes: int
    """How many changes of its stream have their outcome."""
    outcome: Outcome | None
    """What became of that."""
    trace: TraceContext | None
    """In which trace it is made, or goes on; None: nobody has looked."""
    span: CallSpan | None
    """What is told of it to a collector."""
    started: float
    """When it came, by ``time.perf_counter``."""
    leave: Callable[[PolicyError], None] | None
    """Has it read no more, and end with an error."""

    @property
    def caller(self) -> Caller:
        """Who makes it."""

    @property
    def metadata(self) -> tuple[tuple[str, str | bytes], ...]:
        """What it says besides its request."""

    def note(self, key: str, value: str) -> None:
        """Says something beside its answer."""

    def unread_since(self) -> float | None:
        """The loop's time since when what it writes waits for its peer to take it; None: nothing does."""

    async def abort(self, code: grpc.StatusCode, details: str = "", trailing_metadata: Anything = ()) -> Anything:
        """Ends the call with an error."""


async def abort(context: Context, error: PolicyError) -> NoReturn:
    """Ends a call with an error."""
    context.error = error
    await context.abort(code(error), error.message, trailing_metadata(error))
    raise AssertionError("abort does not return")


def internal() -> PolicyError:
    """What a caller is told when the fault is ours; the log says more."""
    return PolicyError(Kind.INTERNAL, Reason.INTERNAL, "The sidecar failed on this request; its log says why.")


def code(error: PolicyError) -> grpc.StatusCode:
    """The gRPC status code of an error."""
    return _CODES[error.kind]


def status(error: PolicyError) -> Status:
    """The error as a message inside an answer."""
    number: int = code(error).value[0]
    return Status(code=number, message=error.message, details=_details(error))


def trailing_metadata(error: PolicyError) -> tuple[tuple[str, bytes], ...]:
    """The error's details as the trailing metadata of a call."""
    return ((DETAILS_KEY, status(error).SerializeToString()),)


def _details(error: PolicyError) -> list[Any]:
    info = Any()
    info.Pack(ErrorInfo(domain=DOMAIN, reason=error.reason, metadata=error.metadata))
    details = [info]
    if error.violations:
        bad = Any()
        bad.Pack(BadRequest(field_violations=_named(error.violations)))
        details.append(bad)
    if error.retry_seconds is not None:
        again, delay = Any(), Duration()
        delay.FromMilliseconds(math.ceil(error.retry_seconds * 1000))
        again.Pack(RetryInfo(retry_delay=delay))
        details.append(again)
    return details


def _named(violations: Sequence[Violation]) -> list[BadRequest.FieldViolation]:
    """As many of the violations as there is room for; the last one says how many are left out."""
    named: list[BadRequest.FieldViolation] = []
    room = _VIOLATION_BYTES
    for index, each in enumerate(violations):
        violation = BadRequest.FieldViolation(field=each.field, reason=each.reason, description=each.description)
        room -= violation.ByteSize() + 3
        if room < 0:
            problem = f"{len(violations) - index} more violations are not named here."
            return [*named, BadRequest.FieldViolation(reason=Reason.MORE_VIOLATIONS, description=problem)]
        named.append(violation)
    return named
