"""The exceptions: one class for each kind of failure that a caller would handle differently.

Every exception carries what the service reported: gRPC's status code, the machine-readable ``reason``, facts for programs in ``metadata``
and, if the request is at fault, every violation. These come from the ``google.rpc`` details of the status, which are read here without the
``grpcio-status`` package.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

from .v1 import errors_pb2

DOMAIN = "topicpolicies"
"""The domain of the service's own reasons, in ``google.rpc.ErrorInfo``."""
_REASON_PREFIX = "ERROR_REASON_"
_DETAILS_KEY = "grpc-status-details-bin"
_CODES: Mapping[int, grpc.StatusCode] = {code.value[0]: code for code in grpc.StatusCode}
_NEVER_SENT = (
    "failed to connect to all addresses",
    "errors resolving ",
    "DNS resolution failed",  # of older releases of gRPC
    "connections to all backends failing",
    "empty address list",
)
"""Parts of gRPC's messages for a call that got no connection, so that nothing was sent."""
_NO_CHANNEL = "Failed to create channel to "
"""The beginning of gRPC's message for a call to an address that it can't read."""
_AT_ADDRESS = re.compile(r"last error: [A-Z_]+: (\S+): (.*)", re.DOTALL)
"""Which address failed last, and why, in such a message."""


class Violation(NamedTuple):
    """One thing that is wrong with a request."""

    field: str
    """The field of the request, such as ``update_mask.paths[1]`` or ``policies.retention_policies``."""
    reason: str
    """A machine-readable reason, such as ``UNKNOWN_PATH``; empty if the service gave none."""
    description: str
    """A sentence that says what is wrong, and what to do."""


class TopicPoliciesError(Exception):
    """A call failed.

    Attributes:
        code: gRPC's status code.
        reason: a machine-readable reason, in UPPER_SNAKE_CASE; empty if the error is not the service's own (a broken connection, a proxy).
        message: a sentence for people.
        metadata: further facts for programs.
        violations: everything that is wrong with the request, if it is at fault.
        from_service: whether the service itself made the error.
        retry_seconds: after how many seconds a repeat may succeed, by ``google.rpc.RetryInfo``; None: not said.
    """

    def __init__(
        self,
        message: str,
        *,
        code: grpc.StatusCode = grpc.StatusCode.UNKNOWN,
        reason: str = "",
        metadata: Mapping[str, str] | None = None,
        violations: Iterable[Violation] = (),
        from_service: bool = False,
        retry_seconds: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.reason = reason
        self.metadata = dict(metadata or {})
        self.violations = tuple(violations)
        self.from_service = from_service
        self.retry_seconds = retry_seconds

    @property
    def never_sent(self) -> bool:
        """Whether the request certainly did not reach the service, because there was no connection."""
        unconnected = self.code is grpc.StatusCode.UNAVAILABLE and any(words in self.message for words in _NEVER_SENT)
        return not self.from_service and (unconnected or self.message.startswith(_NO_CHANNEL))


class InvalidArgument(TopicPoliciesError, ValueError):
    """The request is wrong, and repeating it can't help (INVALID_ARGUMENT). Also raised by the client before it sends anything."""


class NotFound(TopicPoliciesError):
    """The topic, namespace or tenant does not exist (NOT_FOUND)."""


class Conflict(TopicPoliciesError):
    """The document does not have the version that ``etag`` demands (ABORTED). Read it again and decide anew."""


class AlreadyExists(TopicPoliciesError):
    """There is a document, and ``must_not_exist`` was set (ALREADY_EXISTS)."""


class FailedPrecondition(TopicPoliciesError):
    """The state of the system does not allow the request (FAILED_PRECONDITION): for example, topic policies are disabled."""


class OutOfRange(TopicPoliciesError):
    """The history can't say for certain what the document was then (OUT_OF_RANGE); ``metadata`` says why."""


class ResourceExhausted(TopicPoliciesError):
    """A limit of the service was reached (RESOURCE_EXHAUSTED); nothing was done."""


class PermissionDenied(TopicPoliciesError):
    """The caller is not authenticated, or lacks the permission (UNAUTHENTICATED, PERMISSION_DENIED)."""


class Unavailable(TopicPoliciesError):
    """The service, or the change log behind it, can't be reached (UNAVAILABLE); nothing was done."""


class DeadlineExceeded(TopicPoliciesError):
    """A read was not answered in time (DEADLINE_EXCEEDED)."""


class OutcomeUnknown(TopicPoliciesError):
    """A change may or may not have been made: its answer was lost, or did not come in time.

    To learn what happened, repeat the same call with this ``request_id``: a change that was made is not made again.

    Attributes:
        request_id: the id of the request whose outcome is unknown.
    """

    request_id: str = ""

    @property
    def never_sent(self) -> bool:
        """No: an attempt was sent, even if the last one found no connection."""
        return False


_CLASSES: Mapping[grpc.StatusCode, type[TopicPoliciesError]] = {
    grpc.StatusCode.INVALID_ARGUMENT: InvalidArgument,
    grpc.StatusCode.NOT_FOUND: NotFound,
    grpc.StatusCode.ABORTED: Conflict,
    grpc.StatusCode.ALREADY_EXISTS: AlreadyExists,
    grpc.StatusCode.FAILED_PRECONDITION: FailedPrecondition,
    grpc.StatusCode.OUT_OF_RANGE: OutOfRange,
    grpc.StatusCode.RESOURCE_EXHAUSTED: ResourceExhausted,
    grpc.StatusCode.UNAUTHENTICATED: PermissionDenied,
    grpc.StatusCode.PERMISSION_DENIED: PermissionDenied,
    grpc.StatusCode.UNAVAILABLE: Unavailable,
    grpc.StatusCode.DEADLINE_EXCEEDED: DeadlineExceeded,
}


def _printable(text: str) -> str:
    return text.encode(errors="backslashreplace").decode()  # a text with a lone surrogate can't be printed or encoded


def invalid(reason: str, *violations: Violation) -> InvalidArgument:
    """Returns the error of a request that was not sent, with all its violations."""
    violations = tuple(Violation(*map(_printable, violation)) for violation in violations)
    return InvalidArgument(
        " ".join(violation.description for violation in violations),
        code=grpc.StatusCode.INVALID_ARGUMENT,
        reason=reason,
        violations=violations,
    )


def from_status(code: int, message: str, details: Iterable[AnyMessage]) -> TopicPoliciesError:
    """Returns the exception for a status with its ``google.rpc`` details. Details of other kinds are ignored."""
    reason, metadata, violations, own = "", {}, [], False
    info, request, again = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest(), error_details_pb2.RetryInfo()
    retry_seconds: float | None = None
    for detail in details:
        try:
            if detail.Unpack(info):
                reason, metadata, own = info.reason, dict(info.metadata), info.domain == DOMAIN
            elif detail.Unpack(request):
                violations += [Violation(each.field, each.reason, each.description) for each in request.field_violations]
            elif detail.Unpack(again):
                retry_seconds = max(0.0, again.retry_delay.seconds + again.retry_delay.nanos / 1e9)
        except DecodeError:
            continue
    status = _CODES.get(code, grpc.StatusCode.UNKNOWN)
    kind = _CLASSES.get(status, TopicPoliciesError)
    return kind(
        message,
        code=status,
        reason=reason,
        metadata=metadata,
        violations=violations,
        from_service=own,
        retry_seconds=retry_seconds,
    )


def from_rpc_error(error: grpc.RpcError) -> TopicPoliciesError:
    """Returns the exception for a failed call of either gRPC API."""
    call: Any = error  # grpc.Call or grpc.aio.AioRpcError: the same three methods, no common type
    code: grpc.StatusCode = call.code()
    message = call.details() or code.name
    for key, value in call.trailing_metadata() or ():
        if key == _DETAILS_KEY:
            try:
                status = status_pb2.Status.FromString(value)
            except DecodeError:
                break
            return from_status(code.value[0], message, status.details)
    return from_status(code.value[0], message, ())


def clearer(former: TopicPoliciesError | None, error: TopicPoliciesError) -> TopicPoliciesError:
    """Returns the error that says more about why there is no connection: ``error``, or that of an attempt before it.

    Of a host with several addresses (``localhost`` usually has two), gRPC reports only the one that failed last. So a refusal at an address
    where nobody listens can hide what is wrong at the other one.
    """
    if former is None or not (former.never_sent and error.never_sent):
        return error
    before, now = _AT_ADDRESS.search(former.message), _AT_ADDRESS.search(error.message)
    hidden = before is not None and now is not None and before[1] != now[1] and not _refused(before[2]) and _refused(now[2])
    return former if hidden else error


def _refused(why: str) -> bool:
    return why.endswith("Connection refused")


def reason_name(number: int) -> str:
    """Returns a reason's name without its prefix, as errors have it; "" for UNSPECIFIED, the number if this client does not know it."""
    if not number:
        return ""
    value = errors_pb2.ErrorReason.DESCRIPTOR.values_by_number.get(number)
    return str(number) if value is None else value.name.removeprefix(_REASON_PREFIX)


def reason_number(name: str) -> errors_pb2.ErrorReason.ValueType:
    """Returns the number of a reason, from what ``reason_name`` returns for it.

    Raises:
        ValueError: no reason has that name.
    """
    if name.isdigit():
        return errors_pb2.ErrorReason.ValueType(int(name))
    return errors_pb2.ErrorReason.Value(f"{_REASON_PREFIX}{name or 'UNSPECIFIED'}")


def stream_ended() -> Unavailable:
    """Returns the error of a stream that the service ended in order, but before it was complete."""
    return Unavailable("The service has ended the stream.", code=grpc.StatusCode.UNAVAILABLE)


def not_begun(cause: Exception) -> TopicPoliciesError:
    """Returns the error of a stream for which the caller's own code, such as a token function, raised ``cause``."""
    error = TopicPoliciesError(f"The stream was not begun: {cause!r}", code=grpc.StatusCode.UNKNOWN)
    error.__cause__ = cause
    return error


def client_closed() -> TopicPoliciesError:
    """Returns the error of a call on a closed client."""
    return TopicPoliciesError("The client was closed.", code=grpc.StatusCode.CANCELLED)


def other_event_loop() -> FailedPrecondition:
    """Returns the error of a call on an asyncio client in another event loop than that of its first call."""
    return FailedPrecondition(
        "This AsyncClient was used in another event loop, to which its connections belong; each asyncio.run has a loop of its own. "
        "Make a client within the loop that uses it: async with AsyncClient(...).",
        code=grpc.StatusCode.FAILED_PRECONDITION,
        reason="OTHER_EVENT_LOOP",
    )


def connection_evicted() -> TopicPoliciesError:
    """Returns the error of a call that ended because the client closed its connection, to make room for another one."""
    return TopicPoliciesError("The connection was closed to make room for a connection to another leader.", code=grpc.StatusCode.CANCELLED)


def outcome_unknown(cause: TopicPoliciesError, request_id: str) -> OutcomeUnknown:
    """Returns the exception for a change whose outcome is not known. ``cause``: the error of its last attempt."""
    why = cause.message if cause.message.endswith((".", "!", "?")) else f"{cause.message}."  # gRPC's own messages have no full stop
    error = OutcomeUnknown(
        f"It is not known whether the change was made: {why} Repeat it with request id {request_id} to learn it.",
        code=cause.code,
        reason=cause.reason,
        metadata=cause.metadata,
        from_service=cause.from_service,
    )
    error.request_id = request_id
    error.__cause__ = cause
    return error
