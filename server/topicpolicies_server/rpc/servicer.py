"""What the methods of ``TopicPoliciesService`` and ``PolicyHistoryService`` have in common, and the two that change one document.

Every method that concerns a namespace follows the same order: read and validate the request, check what the caller may do in the namespace,
gather the cluster facts that the rules need, then call the namespace. So a caller without the permission learns nothing of a namespace, not
even whether it exists.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from ..access import Granted, Permission
from ..access.grants import Grants
from ..cluster.cluster import Cluster
from ..config import Limits
from ..core.chains.request import Request, not_in_time
from ..core.changes.constraints import Constraint
from ..core.errors import Kind, PolicyError, stopping
from ..core.reasons import Reason
from ..logs.change_log import NotLeader
from ..namespaces.namespace import Phase
from ..namespaces.progress import not_reached
from ..namespaces.registry import Registry
from . import answers, requests
from .calls import CHANGES, Call, Calls, Method
from .forwarding import Forwarding
from .requests import ChangeMessage
from .watching.stream import WatchStreams

UNCONFIRMED_KEY = "topicpolicies-unconfirmed-since"
"""The trailing metadata of an answer from a view that can't be confirmed, for the log is out of reach: since when (ISO 8601, UTC)."""


class Servicer:
    """Serves the methods of both services, which take decoded requests and return, or write, serialized answers."""

    def __init__(
        self,
        registry: Registry,
        limits: Limits,
        calls: Calls,
        *,
        grants: Grants,
        cluster: Cluster | None = None,
        forwarding: Forwarding | None = None,
    ) -> None:
        """Serves the namespaces of a registry.

        ``cluster`` is None if nothing is known of it, ``forwarding`` if logs have no leaders.
        """
        self.grants = grants
        self.watches = WatchStreams(limits.max_watches, grants)
        self.registry = registry
        self._waiting = registry.common.activity.stages["waiting"]
        self._readiness = registry.common.readiness
        self.limits = limits
        self.cluster = cluster
        self.forwarding = forwarding
        self.calls = calls
        calls.on_deadline = self._on_deadline
        self.constraints_of: Callable[[str], Sequence[Constraint]] | None = None
        """Returns what changes of a topic, by its full name, may make of it; None: anything."""

    def marked(self, method: Method[bytes]) -> Method[bytes]:
        """Returns a method whose answers say since when they can't be confirmed, if the log is out of reach (``UNCONFIRMED_KEY``)."""

        async def answer(message: Any, call: Call) -> bytes:
            answered = await method(message, call)
            if self._readiness.cut_off and not self.registry.common.context.sole_writer:
                since = datetime.now(UTC) - timedelta(seconds=time.monotonic() - self._readiness.since)
                call.context.set_trailing_metadata(((UNCONFIRMED_KEY, since.isoformat(timespec="milliseconds")),))
            return answered

        return answer

    def end_changes(self) -> None:
        """Ends every change without a result: with SHUTTING_DOWN if it certainly was not made, else with OUTCOME_UNKNOWN."""
        for call in self.calls:
            if call.method in CHANGES:
                self._end(call, lambda *_, **__: stopping())

    def _on_deadline(self, call: Call) -> None:
        """Ends a call whose deadline is near with the reason why it has no answer; for a change, also whether it may have been made."""
        self._end(call, self._not_in_time)

    def _end(self, call: Call, refusal: Callable[..., PolicyError]) -> None:
        """Ends a call; a change that may have been made, with OUTCOME_UNKNOWN. ``refusal``: makes the error, as ``_not_in_time``."""
        if call.end_batch is not None:
            call.end_batch(refusal)
            return
        request = call.request
        error = refusal(request, call.namespace, permitted=call.permitted, at_least=call.at_least)
        if request is not None and request.submitted and call.served is not None:
            call.served.updates.answer_now(request, error)  # does nothing if there is an answer, which is about to be sent
        else:
            call.end(error)

    def _not_in_time(self, request: Request | None, namespace: str, *, permitted: bool, at_least: str = "") -> PolicyError:
        """Returns why a call has no answer when its deadline is near, as far as is known; of a change, if it certainly was not made.

        ``request`` is None if no change was read; the other arguments are the attributes of a call.
        """
        if namespace and not permitted:
            return _within(Reason.AUTHORIZATION_UNKNOWN, f"The caller's permissions in {namespace} are not known yet.")
        problem = self._readiness.problem
        if problem is not None:
            return _within(problem.reason, problem.message)
        served = self.registry.find(namespace) if namespace else None
        unread = bool(namespace) and (served is None or served.phase is not Phase.READY)
        if request is not None and request.submitted:
            return not_in_time(request, read=not unread)
        if unread:
            why = f" ({served.problem})" if served is not None and served.problem else ""
            return _within(Reason.TIMEOUT, f"{namespace} has not been read yet{why}.", Kind.DEADLINE_EXCEEDED)
        if namespace and at_least:
            return not_reached(namespace, at_least)
        return _within(Reason.TIMEOUT, "What the call waited for has not happened.", Kind.DEADLINE_EXCEEDED)

    async def change(self, message: ChangeMessage, call: Call) -> bytes:
        """Serves UpdatePolicy and DeletePolicy: makes the change here, or at the leader of the namespace."""
        call.target = message.topic
        while True:
            name, request = requests.read_change(message, call.caller, call.trace_context())
            granted = await call.permit(self.grants, name, Permission.CHANGE)
            self.constrain(request, granted)
            call.request = request
            if self.cluster is not None and (waiting := self.cluster.admit(name, request)) is not None:
                await waiting
            call.served = namespace = self.registry.get(name)
            self._waiting.count(time.perf_counter() - call.started)
            try:
                result = await namespace.update(request)
            except NotLeader as refused:
                call.served = None
                if self.forwarding is None:
                    raise
                answer = await self.forwarding.change(call, message, refused)
                if answer is not None:
                    return answer
            else:
                call.outcome = result.outcome
                return answers.change_answer(request, result, answers.wire_of(granted))

    def constrain(self, request: Request, granted: Granted) -> None:
        """Gives a change the constraints that it must keep."""
        if self.constraints_of is not None and Permission.OVERRIDE not in granted:
            request.constraints = self.constraints_of(request.key.topic)


def _within(reason: Reason, why: str, kind: Kind = Kind.UNAVAILABLE) -> PolicyError:
    return PolicyError(kind, reason, f"There was no answer within the time of this call: {why.rstrip('.')}. Nothing was done: try again.")
