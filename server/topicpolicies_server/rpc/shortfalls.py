"""What callers are told of whose time there is none left, and of answers that can't be confirmed: why, as far as that is known."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime, timedelta

from ..core.chains.refusals import not_in_time
from ..core.chains.request import Request
from ..core.errors import PolicyError
from ..core.names import parse_namespace, parse_topic
from ..core.policies.events import Position
from ..core.reasons import Reason
from ..health import Readiness
from ..logs.change_log import LogError
from ..namespaces.life import Phase
from ..namespaces.registry import Registry
from ..namespaces.versions import not_reached

UNCONFIRMED_KEY = "topicpolicies-unconfirmed-since"
"""Trailing metadata of an answer from a view that can't be confirmed: since when, as ISO 8601 in UTC."""


def no_answer(registry: Registry, target: str, at_least: Position = "") -> PolicyError:
    """A read has no answer, and its caller no time left.

    Args:
        registry: the namespaces.
        target: what it reads: a namespace, or a topic; "" is not known.
        at_least: a version that its answer must have reached; "" is any.
    """
    problem = registry.common.readiness.problem
    if problem is not None:
        return _within(problem.reason, problem.message)
    name = _namespace_of(target)
    namespace = registry.find(name) if name else None
    if name and (namespace is None or namespace.phase is not Phase.READY):
        why = namespace.problem if namespace is not None else ""
        return _within(Reason.LOAD_TIMEOUT, f"{name} has not been read yet{f' ({why})' if why else ''}.")
    if name and at_least:
        return not_reached(name, at_least)
    return _within(Reason.LOAD_TIMEOUT, "What the call waited for has not come.")


def not_permitted_yet(namespace: str) -> PolicyError:
    """UNAVAILABLE: what the caller may do is not known, and he has no time left. Nothing else is said of the namespace."""
    return _within(Reason.AUTHORIZATION_UNKNOWN, f"It is not known yet what the caller may do in {namespace}.")


def no_outcome(readiness: Readiness, request: Request) -> PolicyError:
    """UNAVAILABLE: a change that certainly was not made, and whose caller has no time left."""
    problem = readiness.problem
    return not_in_time(request) if problem is None else _within(problem.reason, problem.message)


def unconfirmed_since(readiness: Readiness, now: float) -> str:
    """Since when the log is out of reach, for metadata; ``now`` is monotonic seconds."""
    return (datetime.now(UTC) - timedelta(seconds=now - readiness.since)).isoformat(timespec="milliseconds")


def _within(reason: Reason, why: str) -> LogError:
    return LogError(reason, f"There was no answer within the time of this call: {why.rstrip('.')}. Nothing was done: try again.")


def _namespace_of(target: str) -> str:
    """The namespace that a name is of, or names; "" if it is no such name."""
    for read in (parse_namespace, lambda text: parse_topic(text).namespace):
        with contextlib.suppress(PolicyError):
            return read(target)
    return ""
