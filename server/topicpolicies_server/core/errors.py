"""The domain's errors. Each knows its kind, its machine-readable reason and a sentence that says what to do.

``rpc/errors.py`` is the one place that turns them into gRPC statuses.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from .reasons import Reason

_LONGEST_MESSAGE = 1_000
"""Bytes of the message of an error with violations: gRPC carries it in metadata, of which peers accept few kilobytes."""


class Kind(enum.Enum):
    """The kinds of errors, by the names of gRPC's status codes."""

    INVALID_ARGUMENT = "INVALID_ARGUMENT"
    NOT_FOUND = "NOT_FOUND"
    ALREADY_EXISTS = "ALREADY_EXISTS"
    ABORTED = "ABORTED"
    FAILED_PRECONDITION = "FAILED_PRECONDITION"
    OUT_OF_RANGE = "OUT_OF_RANGE"
    RESOURCE_EXHAUSTED = "RESOURCE_EXHAUSTED"
    DEADLINE_EXCEEDED = "DEADLINE_EXCEEDED"
    UNAVAILABLE = "UNAVAILABLE"
    INTERNAL = "INTERNAL"
    UNAUTHENTICATED = "UNAUTHENTICATED"
    PERMISSION_DENIED = "PERMISSION_DENIED"


class Violation(NamedTuple):
    """One thing that is wrong with a request."""

    field: str
    """The request's field, such as ``update_mask.paths[1]`` or ``policies.retention_policies``."""
    reason: Reason
    """Machine-readable, such as ``UNKNOWN_PATH``."""
    description: str
    """A sentence that says what is wrong and what to do."""


class PolicyError(Exception):
    """An error that a caller is told about.

    Attributes:
        kind: the kind of error, by gRPC's name.
        reason: machine-readable.
        metadata: further facts for programs, such as the present version.
        violations: all that is wrong with the request, or that stands against it.
        retry_seconds: after which time a repeat may help; None: nobody knows, or none does.
    """

    def __init__(
        self,
        kind: Kind,
        reason: Reason,
        message: str,
        *,
        metadata: Mapping[str, str] | None = None,
        violations: tuple[Violation, ...] = (),
        retry_seconds: float | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.reason = reason
        self.message = message
        self.metadata = dict(metadata or {})
        self.violations = violations
        self.retry_seconds = retry_seconds


def refusal(kind: Kind, mixed: Reason, *violations: Violation) -> PolicyError:
    """One error for violations, of any kind; its reason is theirs if they agree, else ``mixed``."""
    reasons = {violation.reason for violation in violations}
    return PolicyError(kind, reasons.pop() if len(reasons) == 1 else mixed, _sentences(violations), violations=violations)


def invalid(reason: Reason, *violations: Violation) -> PolicyError:
    """An INVALID_ARGUMENT with all its violations; the message is the violations' own sentences, as many as people read."""
    return PolicyError(Kind.INVALID_ARGUMENT, reason, _sentences(violations), violations=violations)


def stopping() -> PolicyError:
    """What is told of whatever ends because the server stops (UNAVAILABLE): nothing was done."""
    return PolicyError(Kind.UNAVAILABLE, Reason.SHUTTING_DOWN, "The server is stopping: try another, or this one later.")


def _sentences(violations: Sequence[Violation]) -> str:
    message = ""
    for index, violation in enumerate(violations):
        longer = f"{message} {violation.description}".strip()
        if len(longer.encode(errors="replace")) > _LONGEST_MESSAGE:
            shown = message or violation.description[: _LONGEST_MESSAGE // 4] + "..."
            more = len(violations) - index - (not message)
            return f"{shown} And {more} more." if more else shown
        message = longer
    return message
