"""The only place that maps ``PolicyError`` to gRPC: status code, message, and ``google.rpc`` details. It also logs unforeseen errors."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence

import grpc
from google.protobuf.any_pb2 import Any
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status

from topicpolicies.errors import TopicPoliciesError

from ..core.errors import Kind, PolicyError, Violation
from ..core.reasons import Reason, ViolationReason

_LOG = logging.getLogger(__name__)
DOMAIN = "topicpolicies"
DETAILS_KEY = "grpc-status-details-bin"
_PUSHBACK_KEY = "grpc-retry-pushback-ms"

CODES: dict[Kind, grpc.StatusCode] = {kind: grpc.StatusCode[kind.value] for kind in Kind}
_VIOLATION_BYTES = 3_500
_DESCRIPTION_BYTES = 1_000
"""The most bytes of the description of a violation; it may name a topic of 1,024 characters."""
_TRAILER_BYTES = 7_500
"""The most bytes of the message and the details of a call's status together, as they are sent in the trailing metadata: of the message
three for each byte that is not printable ASCII, of the details four for every three (Base64). The message is in the details too. Beyond
8 KiB of metadata peers report RESOURCE_EXHAUSTED in place of the error."""
_SHORTENED = (1_000, 640, 400, 230)
"""To how many bytes a message is shortened: the first of these with which the status fits."""


def log_failure(what: str, error: BaseException) -> None:
    """Logs an unforeseen error. ``what``: what failed, as the beginning of a sentence."""
    _LOG.error("%s failed: %r", what, error, exc_info=error)


def internal() -> PolicyError:
    """Returns the error of an unforeseen failure. It reveals nothing; the server's log has the cause."""
    return PolicyError(Kind.INTERNAL, Reason.INTERNAL, "The sidecar failed on this request; its log says why.")


def status(error: PolicyError) -> Status:
    """Returns an error as a ``google.rpc.Status``, for the trailing metadata of a call or for the result of one change."""
    number: int = CODES[error.kind].value[0]
    message = error.message.encode(errors="backslashreplace").decode()  # it may name a file whose name is not valid Unicode
    return Status(code=number, message=message, details=_details(error))


def received(failed: TopicPoliciesError) -> PolicyError | None:
    """Returns the error with which another server answered; None: it is not one of this service (gRPC itself ended the call).

    Raises:
        ValueError: it is of a newer version of this service.
    """
    if not failed.reason:
        return None
    violations = tuple(Violation(each.field, ViolationReason(each.reason), each.description) for each in failed.violations)
    kind, reason, again = Kind[failed.code.name], Reason(failed.reason), failed.retry_seconds or None
    return PolicyError(kind, reason, failed.message, metadata=failed.metadata, violations=violations, retry_seconds=again)


def trailer(error: PolicyError) -> tuple[grpc.StatusCode, str, tuple[tuple[str, str | bytes], ...]]:
    """Returns what ends a call with an error: the code, the message, and the trailing metadata with the serialized status.

    A message that does not fit is shortened. The details stay as they are: programs need them, and a topic's name of 1,024 characters has
    room. The metadata also say when gRPC may repeat the call.
    """
    told = status(error)
    raw = told.SerializeToString()
    for most in _SHORTENED:
        if _sent_bytes(told.message, raw) <= _TRAILER_BYTES:
            break
        told.message = _shortened(error.message, most)
        raw = told.SerializeToString()
    pushback = () if error.retry_seconds is None else ((_PUSHBACK_KEY, str(math.ceil(error.retry_seconds * 1000))),)
    return CODES[error.kind], told.message, ((DETAILS_KEY, raw), *pushback)


def _sent_bytes(message: str, details: bytes) -> int:
    """Returns how many bytes a message and the details of a status have in the trailing metadata (``_TRAILER_BYTES``)."""
    escaped = sum(1 if 0x20 <= byte < 0x7F and byte != 0x25 else 3 for byte in message.encode(errors="replace"))
    return escaped + (len(details) + 2) // 3 * 4


def _shortened(message: str, most: int) -> str:
    """Returns a message with at most so many bytes of UTF-8: its middle is left out, since its end says what to do."""
    raw = message.encode(errors="replace")
    if len(raw) <= most:
        return message
    half = (most - 3) // 2
    return f"{raw[:half].decode(errors='ignore')}...{raw[-half:].decode(errors='ignore')}"


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
    """Returns as many violations as there is room for; if some are left out, the last one says how many."""
    named: list[BadRequest.FieldViolation] = []
    room = _VIOLATION_BYTES
    for index, each in enumerate(violations):
        description = _shortened(each.description, _DESCRIPTION_BYTES)
        violation = BadRequest.FieldViolation(field=each.field, reason=each.reason, description=description)
        room -= violation.ByteSize() + 3
        if room < 0:
            problem = f"{len(violations) - index} more violations are not named here."
            return [*named, BadRequest.FieldViolation(reason=ViolationReason.MORE_VIOLATIONS, description=problem)]
        named.append(violation)
    return named
