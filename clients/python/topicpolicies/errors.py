"""The exceptions: one class for each kind of failure that a caller would handle differently."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

from .v1 import errors_pb2

__all__ = [
    "DeadlineExceeded", "FailedPrecondition", "InvalidArgument", "NotFound", "OutOfRange", "OutcomeUnknown", "PermissionDenied",
    "PreconditionFailed", "ResourceExhausted", "TopicPoliciesError", "Unauthenticated", "Unavailable", "Violation", "reason_name",
]  # fmt: skip

DOMAIN = "topicpolicies"
"""The domain of the service's own reasons, in ``google.rpc.ErrorInfo``."""
_CODES = {code.value[0]: code for code in grpc.StatusCode}


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
        reason: the name of an ``ErrorReason`` without its prefix; empty if the error is not the service's own (a broken connection).
        message: a sentence for people.
        metadata: further facts for programs.
        violations: everything that is wrong with the request, if it is at fault.
        request_id: the id of the change that failed; empty: the call was no change.
        retry_seconds: after how many seconds a repeat may succeed; 0: not known.
    """

    def __init__(
        self,
        message: str,
        *,
        code: grpc.StatusCode = grpc.StatusCode.UNKNOWN,
        reason: str = "",
        metadata: Mapping[str, str] | None = None,
        violations: Iterable[Violation] = (),
        request_id: str = "",
        retry_seconds: float = 0.0,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.reason = reason
        self.metadata = dict(metadata or {})
        self.violations = tuple(violations)
        self.request_id = request_id
        self.retry_seconds = retry_seconds


class InvalidArgument(TopicPoliciesError, ValueError):
    """The request is wrong: see ``violations`` (INVALID_ARGUMENT). Also raised by the client before it sends anything."""


class NotFound(TopicPoliciesError):
    """The topic, namespace or tenant does not exist (NOT_FOUND)."""


class PreconditionFailed(TopicPoliciesError):
    """The document is not as the change demands, or others kept changing it (ABORTED). Read it again and decide anew, as ``edit`` does."""


class FailedPrecondition(TopicPoliciesError):
    """The state of the system does not allow the request (FAILED_PRECONDITION): for example, topic policies are disabled."""


class OutOfRange(TopicPoliciesError):
    """The history can't say for certain what the document was then (OUT_OF_RANGE); ``metadata`` says why."""


class ResourceExhausted(TopicPoliciesError):
    """A limit of the service was reached (RESOURCE_EXHAUSTED); nothing was done."""


class PermissionDenied(TopicPoliciesError):
    """The caller lacks the permission (PERMISSION_DENIED)."""


class Unauthenticated(TopicPoliciesError):
    """The credentials are missing, not valid or expired (UNAUTHENTICATED)."""


class Unavailable(TopicPoliciesError):
    """The service, or the change log behind it, can't be reached (UNAVAILABLE); nothing was done."""


class DeadlineExceeded(TopicPoliciesError):
    """There was no answer in time (DEADLINE_EXCEEDED); nothing was done."""


class OutcomeUnknown(TopicPoliciesError):
    """A change may or may not have been made: its answer was lost, or did not come in time.

    To learn what happened, repeat the same call with this ``request_id``: a change that was made is not made again.
    """


_CLASSES: Mapping[grpc.StatusCode, type[TopicPoliciesError]] = {
    grpc.StatusCode.INVALID_ARGUMENT: InvalidArgument,
    grpc.StatusCode.NOT_FOUND: NotFound,
    grpc.StatusCode.ABORTED: PreconditionFailed,
    grpc.StatusCode.FAILED_PRECONDITION: FailedPrecondition,
    grpc.StatusCode.OUT_OF_RANGE: OutOfRange,
    grpc.StatusCode.RESOURCE_EXHAUSTED: ResourceExhausted,
    grpc.StatusCode.PERMISSION_DENIED: PermissionDenied,
    grpc.StatusCode.UNAUTHENTICATED: Unauthenticated,
    grpc.StatusCode.UNAVAILABLE: Unavailable,
    grpc.StatusCode.DEADLINE_EXCEEDED: DeadlineExceeded,
}
_UNKNOWN_REASONS = frozenset({"OUTCOME_UNKNOWN", "INTERNAL"})
_UNKNOWN_CODES = frozenset(
    grpc.StatusCode[name] for name in ("CANCELLED", "UNKNOWN", "DEADLINE_EXCEEDED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS")
)
"""The codes after which a change may have been made, if the error is not the service's own."""


def invalid(*violations: Violation) -> InvalidArgument:
    """Returns the error of a request that was not sent, with all its violations."""
    return InvalidArgument(
        " ".join(violation.description for violation in violations),
        code=grpc.StatusCode.INVALID_ARGUMENT,
        reason="INVALID_REQUEST",
        violations=violations,
    )


def from_status(code: int, message: str, details: Iterable[AnyMessage] = (), request_id: str = "") -> TopicPoliciesError:
    """Returns the exception for a status with its ``google.rpc`` details. ``request_id``: that of the change; empty: it was no change."""
    info, request, again = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest(), error_details_pb2.RetryInfo()
    for detail in details:
        try:
            _ = detail.Unpack(info) or detail.Unpack(request) or detail.Unpack(again)
        except DecodeError:
            continue
    status = _CODES.get(code, grpc.StatusCode.UNKNOWN)
    reason = info.reason if info.domain == DOMAIN else ""
    kind = _CLASSES.get(status, TopicPoliciesError)
    if request_id and (reason in _UNKNOWN_REASONS or (not reason and status in _UNKNOWN_CODES)):
        kind = OutcomeUnknown
        message = message if reason == "OUTCOME_UNKNOWN" else f"It is not known whether the change was made: {message}"
    return kind(
        message,
        code=status,
        reason=reason,
        metadata=info.metadata,
        violations=[Violation(each.field, each.reason, each.description) for each in request.field_violations],
        request_id=request_id,
        retry_seconds=again.retry_delay.seconds + again.retry_delay.nanos / 1e9,
    )


def from_rpc_error(error: grpc.RpcError, request_id: str = "") -> TopicPoliciesError:
    """Returns the exception for a failed call of either gRPC API. ``request_id``: that of the change; empty: it was no change."""
    call: Any = error  # grpc.Call or grpc.aio.AioRpcError: the same three methods, no common type
    code: grpc.StatusCode = call.code()
    status = status_pb2.Status()
    for key, value in call.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            try:
                status.ParseFromString(value)
            except DecodeError:
                status.Clear()
    return from_status(code.value[0], call.details() or code.name, status.details, request_id)


def reason_name(number: int) -> str:
    """Returns a reason's name without its prefix, as errors have it; "" for UNSPECIFIED, the number if this client does not know it."""
    value = errors_pb2.ErrorReason.DESCRIPTOR.values_by_number.get(number)
    return str(number) if value is None else value.name.removeprefix("ERROR_REASON_") if number else ""
