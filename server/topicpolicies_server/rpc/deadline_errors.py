"""The errors of calls whose deadlines are near, which say why there is no answer, and the mark on answers that can't be confirmed."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime, timedelta

from ..core.chains.answers import not_in_time
from ..core.chains.request import Request
from ..core.errors import Kind, PolicyError
from ..core.names import parse_namespace, parse_topic
from ..core.policies.events import Position
from ..core.reasons import Reason
from ..namespaces.namespace import Phase
from ..namespaces.progress import not_reached
from ..namespaces.registry import Registry
from ..readiness import Readiness

UNCONFIRMED_KEY = "topicpolicies-unconfirmed-since"
"""The trailing metadata of an answer from a view that can't be confirmed, for the log is out of reach: since when (ISO 8601, UTC)."""


def no_answer(registry: Registry, target: str, at_least: Position = "") -> PolicyError:
    """Returns the error of a call that certainly made no change and has no answer when its deadline is near: as far as is known, why.

    Args:
        registry: the namespaces.
        target: the topic or namespace that the call concerns; "": not known.
        at_least: the version that its answer must have reached; "": any.
    """
    problem = registry.common.readiness.problem
    if problem is not None:
        return _within(problem.reason, problem.message)
    name = _namespace_of(target)
    namespace = registry.find(name) if name else None
    if name and (namespace is None or namespace.phase is not Phase.READY):
        why = namespace.problem if namespace is not None else ""
        return _timed_out(f"{name} has not been read yet{f' ({why})' if why else ''}.")
    if name and at_least:
        return not_reached(name, at_least)
    return _timed_out("What the call waited for has not happened.")


def not_permitted_yet(namespace: str) -> PolicyError:
    """Returns the UNAVAILABLE of a call whose permission is not known when its deadline is near. It reveals nothing of the namespace."""
    return _within(Reason.AUTHORIZATION_UNKNOWN, f"The caller's permissions in {namespace} are not known yet.")


def no_outcome(readiness: Readiness, request: Request) -> PolicyError:
    """Returns the UNAVAILABLE of a submitted change whose deadline is near, for the case that it certainly was not made."""
    problem = readiness.problem
    return not_in_time(request) if problem is None else _within(problem.reason, problem.message)


def unconfirmed_since(readiness: Readiness, now: float) -> str:
    """Returns since when the log is out of reach, for the metadata ``UNCONFIRMED_KEY``. ``now``: seconds by ``time.monotonic``."""
    return (datetime.now(UTC) - timedelta(seconds=now - readiness.since)).isoformat(timespec="milliseconds")


def _within(reason: Reason, why: str, kind: Kind = Kind.UNAVAILABLE) -> PolicyError:
    return PolicyError(kind, reason, f"There was no answer within the time of this call: {why.rstrip('.')}. Nothing was done: try again.")


def _timed_out(why: str) -> PolicyError:
    return _within(Reason.TIMEOUT, why, Kind.DEADLINE_EXCEEDED)


def _namespace_of(target: str) -> str:
    """Returns the namespace that a text names, or whose topic it names; "" if it names neither."""
    for read in (parse_namespace, lambda text: parse_topic(text).namespace):
        with contextlib.suppress(PolicyError):
            return read(target)
    return ""
