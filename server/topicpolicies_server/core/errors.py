"""The errors of the core. Each has a kind, a machine-readable reason and a message that says what to do.

Only ``rpc/errors.py`` turns them into gRPC statuses.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from .reasons import LogState, Reason, ViolationReason

_LONGEST_MESSAGE = 1_000
"""Most bytes of the message of an error with violations: gRPC sends it as metadata, of which peers accept only a few kilobytes."""


class Kind(enum.Enum):
    """The kind of an error, by the name of its gRPC status code."""

    INVALID_ARGUMENT = "INVALID_ARGUMENT"
    NOT_FOUND = "NOT_FOUND"
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
    """The field of the request, such as ``update_mask.paths[1]`` or ``policies.retention_policies``."""
    reason: ViolationReason
    """The machine-readable reason, such as ``UNKNOWN_PATH``."""
    description: str
    """A sentence that says what is wrong and what to do."""


class PolicyError(Exception):
    """An error that is returned to a caller.

    Attributes:
        kind: the kind of error, by gRPC's name.
        reason: the machine-readable reason.
        message: what is wrong and what to do, for people.
        metadata: further values for programs, such as the present version.
        violations: each thing that is wrong with the request, or that prevents it.
        retry_seconds: after how many seconds a retry may succeed; None: not known, or no retry helps.
        state: how a log failed, where the server acts on it.
    """

    state: LogState | None = None

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


def invalid(*violations: Violation) -> PolicyError:
    """Returns an INVALID_ARGUMENT for violations. Its message has their descriptions, as many as fit (``_LONGEST_MESSAGE``)."""
    return PolicyError(Kind.INVALID_ARGUMENT, Reason.INVALID_REQUEST, _sentences(violations), violations=violations)


def breaks_rules(*violations: Violation) -> PolicyError:
    """Returns a FAILED_PRECONDITION for violations of rules that depend on the cluster. Its message is as that of ``invalid``."""
    return PolicyError(Kind.FAILED_PRECONDITION, Reason.RULE_VIOLATED, _sentences(violations), violations=violations)


def too_much(limit: str, most: float, sentence: str, *, retry_seconds: float | None = None) -> PolicyError:
    """Returns the RESOURCE_EXHAUSTED of a limit that is reached; nothing was done.

    ``limit``: its name, the option's if one sets it; ``most``: its value; ``sentence``: what there is too much of, and what to do.
    """
    metadata = {"limit": limit, "most": f"{most:.15g}"}
    return PolicyError(Kind.RESOURCE_EXHAUSTED, Reason.LIMIT_REACHED, sentence, metadata=metadata, retry_seconds=retry_seconds)


def stopping(retry_seconds: float | None = None) -> PolicyError:
    """Returns the error of a request that ends because the server stops (UNAVAILABLE): nothing was done."""
    message = "The server is stopping: try another, or this one later."
    return PolicyError(Kind.UNAVAILABLE, Reason.SHUTTING_DOWN, message, retry_seconds=retry_seconds)


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
