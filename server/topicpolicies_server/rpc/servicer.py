"""``TopicPoliciesService`` and ``PolicyHistoryService``: validates each request, calls its namespace, and serializes the answer.

Every method that concerns a namespace follows the same order: read and validate the request, check what the caller may do in the namespace,
gather the cluster facts that the rules need, then call the namespace. So a caller without the permission learns nothing of a namespace, not
even whether it exists.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TypeAlias, TypeVar

from topicpolicies.v1 import history_pb2, service_pb2

from ..access import Permission
from ..access.grants import Grants
from ..cluster.admission import Admission
from ..cluster.disabled import DisabledWatching
from ..config import Limits
from ..core.chains.answers import not_in_time
from ..core.chains.request import Request
from ..core.changes.constraints import Constraint
from ..core.errors import Kind, PolicyError, stopping
from ..core.names import parse_namespace, parse_topic
from ..core.policies import documents, secrets
from ..core.policies.events import ABSENT, Position
from ..core.reasons import Reason
from ..logs.change_log import NotLeader
from ..namespaces.namespace import Namespace, Phase
from ..namespaces.progress import not_reached
from ..namespaces.registry import Registry
from ..readiness import Readiness
from . import answers, histories, reads, requests
from .batches import ChangeBatch
from .calls import Call, Calls
from .forwarding import Forwarding
from .requests import Author, author_of
from .watching.history_part import HistoryPart
from .watching.policy_part import PolicyPart, WatchResources
from .watching.requests import read_history_watch, read_watch
from .watching.stream import WatchStreams

UNCONFIRMED_KEY = "topicpolicies-unconfirmed-since"
"""The trailing metadata of an answer from a view that can't be confirmed, for the log is out of reach: since when (ISO 8601, UTC)."""
_Message = TypeVar("_Message", service_pb2.UpdatePolicyRequest, service_pb2.DeletePolicyRequest)
_Read: TypeAlias = Callable[[_Message, Author], tuple[str, Request]]


class Servicer:
    """The methods of both services. They take decoded requests and return, or write, serialized answers."""

    def __init__(
        self,
        registry: Registry,
        limits: Limits,
        info: Callable[[], service_pb2.ServerInfo],
        calls: Calls,
        *,
        admission: Admission | None = None,
        grants: Grants | None = None,
        forwarding: Forwarding | None = None,
        show_secrets: bool = False,
    ) -> None:
        """Serves the namespaces of a registry.

        Args:
            registry: the namespaces.
            limits: every limit of the server.
            info: returns the answer to GetServerInfo.
            calls: the calls in progress.
            admission: gathers facts about the cluster; None: the cluster is not known.
            grants: says what callers may do; None: every caller may do everything.
            forwarding: forwards changes to the leaders of logs; None: logs have no leaders.
            show_secrets: whether answers contain the credentials of object storages; with ``grants``, a permission decides that.
        """
        disabled = DisabledWatching(admission) if admission is not None else None
        self._resources = WatchResources(registry, documents.wire if show_secrets else secrets.wire, disabled)
        self._grants = grants
        self.watches = WatchStreams(limits.max_watches, grants)
        """The open streams of watches, also of the history."""
        self.registry = registry
        """The namespaces."""
        self._waiting = registry.common.activity.stages["waiting"]
        self._readiness = registry.common.readiness
        self._limits = limits
        self._admission = admission
        self._forwarding = forwarding
        self._info = info
        self._changes: dict[Request, Namespace] = {}
        """Changes of UpdatePolicy and DeletePolicy calls that were handed to a namespace and have no result, with that namespace."""
        self._batches: dict[Call, ChangeBatch] = {}
        self.calls = calls
        """Every call in progress on the server."""
        calls.on_deadline = self._on_deadline
        self.constraints_of: Callable[[str], Sequence[Constraint]] | None = None
        """Returns what changes of a topic, by its full name, may make of it; None: anything."""

    def end_changes(self) -> None:
        """Ends every change without a result: with SHUTTING_DOWN if it certainly was not made, else with OUTCOME_UNKNOWN."""
        for request, namespace in list(self._changes.items()):
            namespace.updates.answer_now(request, stopping())
        for batch in list(self._batches.values()):
            batch.end(lambda *_: stopping())

    def _on_deadline(self, call: Call) -> None:
        """Ends a call whose deadline is near with the reason why it has no answer; for a change, also whether it may have been made."""
        if (batch := self._batches.get(call)) is not None:
            batch.end(self._not_in_time)
            return
        request = call.request
        error = self._not_in_time(request, call.unpermitted, call.target, call.at_least)
        if request is not None and request.submitted and (namespace := self._changes.get(request)) is not None:
            namespace.updates.answer_now(request, error)
        else:
            call.end(error)

    def _not_in_time(self, request: Request | None, unpermitted: str | None, target: str = "", at_least: str = "") -> PolicyError:
        """Returns why there is no answer when the deadline is near; for a change, if it certainly was not made (``ChangeBatch.end``).

        Args:
            request: the change; None: it was not read, or the call makes none.
            unpermitted: the namespace for which it is not known yet what the caller may do.
            target: the topic or namespace that the call concerns, if there is no change.
            at_least: the version that the answer must have reached; "": any.
        """
        if unpermitted:
            return _not_permitted_yet(unpermitted)
        if request is not None and request.submitted:
            return _no_outcome(self._readiness, request)
        return _no_answer(self.registry, request.key.topic if request is not None else target, at_least)

    async def update_policy(self, message: service_pb2.UpdatePolicyRequest, call: Call) -> bytes:
        """Serves UpdatePolicy."""
        return await self._change(message, requests.read_update, call)

    async def delete_policy(self, message: service_pb2.DeletePolicyRequest, call: Call) -> bytes:
        """Serves DeletePolicy."""
        return await self._change(message, requests.read_delete, call)

    async def _change(self, message: _Message, read: _Read[_Message], call: Call) -> bytes:
        """Makes the change of an UpdatePolicy or DeletePolicy call, here or at the leader of the namespace, and returns the answer."""
        call.target = message.topic
        try:
            return await self._change_here(message, read, call)
        except NotLeader as refused:
            if self._forwarding is None:
                raise
            return await self._forwarding.change(call, message, refused, lambda: self._change_here(message, read, call))

    async def _change_here(self, message: _Message, read: _Read[_Message], call: Call) -> bytes:
        name, request = read(message, author_of(call))
        wire = await self.shown(call, name, Permission.CHANGE)
        self._constrain(call, name, request)
        call.request = request
        if self._admission is not None and (waiting := self._admission.admit(name, request)) is not None:
            await waiting
        self._changes[request] = namespace = self.registry.get(name)
        self._waiting.count(time.perf_counter() - call.started)
        try:
            result = await namespace.update(request)
            call.outcome = result.outcome
            return answers.change_answer(request, result, wire)
        finally:
            del self._changes[request]

    def _constrain(self, call: Call, namespace: str, request: Request) -> None:
        """Gives a change the constraints that it must keep. Permissions are known."""
        if self.constraints_of is not None and namespace not in call.overrides:
            request.constraints = self.constraints_of(request.key.topic)

    async def batch_update_policies(self, message: service_pb2.BatchUpdatePoliciesRequest, call: Call) -> bytes:
        """Serves BatchUpdatePolicies."""
        batch = self._batches[call] = ChangeBatch(
            message.changes,
            call,
            self.registry,
            self._admission,
            partial(self.shown, call, permission=Permission.CHANGE),
            partial(self._constrain, call),
            self.calls.changed,
            self._forwarding,
        )
        try:
            return await batch.run()
        finally:
            del self._batches[call]

    async def shown(self, call: Call, namespace: str, permission: Permission) -> answers.Wire:
        """Checks a permission of the caller and returns how documents are serialized for it.

        Raises:
            PolicyError: PERMISSION_DENIED, the caller lacks the permission; UNAVAILABLE, that can't be known now.
        """
        if self._grants is None:
            return self._resources.wire
        granted = self._grants(call.caller, namespace)
        if not isinstance(granted, frozenset):
            call.unpermitted = namespace
            granted = await granted
            call.unpermitted = ""
        if Permission.OVERRIDE in granted and permission is Permission.CHANGE:
            call.overrides |= {namespace}
        return answers.permitted(granted, call.caller, namespace, permission)

    async def get_policy(self, message: service_pb2.GetPolicyRequest, call: Call) -> bytes:
        """Serves GetPolicy."""
        call.target = message.topic
        topic, key, at_least = reads.read_get(message)
        wire = await self.shown(call, topic.namespace, Permission.READ)
        if self._admission is not None and await self._admission.disabled(topic.namespace, topic.full):
            return answers.document(key, ABSENT, None, disabled=True)
        call.at_least = at_least
        return answers.present(key, await self.registry.get(topic.namespace).get(key, at_least), wire)

    async def get_effective_policy(self, message: service_pb2.GetEffectivePolicyRequest, call: Call) -> bytes:
        """Serves GetEffectivePolicy."""
        call.target = message.topic
        target = reads.read_effective(message)
        wire = await self.shown(call, target.topic.namespace, Permission.READ)
        return await reads.effective_policy(self.registry, self._admission, target, wire, call)

    async def get_server_info(self, _message: service_pb2.GetServerInfoRequest, _: Call) -> bytes:
        """Serves GetServerInfo."""
        return self._info().SerializeToString()

    async def list_policies(self, message: service_pb2.ListPoliciesRequest, call: Call) -> bytes:
        """Serves ListPolicies."""
        call.target = message.namespace
        page = reads.read_list(message)
        wire = await self.shown(call, page.namespace, Permission.READ)
        return await reads.policies_of(self.registry, self._admission, page, wire)

    async def watch_policies(self, message: service_pb2.WatchPoliciesRequest, call: Call) -> None:
        """Serves WatchPolicies."""
        limits = self._limits
        watch = read_watch(message, limits.max_selectors_per_watch, limits.bookmark_interval_seconds)
        call.target = next(iter((*message.namespaces, *message.topics)), "")
        part_of = partial(PolicyPart, self._resources, watch)
        await self.watches.run(watch.topics, part_of, watch.bookmark_seconds, watch.permissions, call)

    async def list_history(self, message: history_pb2.ListHistoryRequest, call: Call) -> bytes:
        """Serves ListHistory."""
        call.target = message.topic or message.namespace
        query = histories.read_query(message)
        await self.shown(call, query.namespace, Permission.HISTORY)
        followed = await self._may_be_loaded(query.namespace, query.topic)
        return await histories.list_history(self.registry, query, followed=followed)

    async def get_policy_as_of(self, message: history_pb2.GetPolicyAsOfRequest, call: Call) -> bytes:
        """Serves GetPolicyAsOf."""
        call.target = message.topic
        topic, key, moment = histories.read_moment(message)
        await self.shown(call, topic.namespace, Permission.HISTORY)
        followed = await self._may_be_loaded(topic.namespace, topic.full)
        return await histories.past_document(self.registry, topic.namespace, key, moment, followed=followed)

    async def watch_history(self, message: history_pb2.WatchHistoryRequest, call: Call) -> None:
        """Serves WatchHistory."""
        limits = self._limits
        watch = read_history_watch(message, limits.max_selectors_per_watch, limits.bookmark_interval_seconds)
        histories.of(self.registry)
        call.target = message.namespaces[0]
        part_of = partial(HistoryPart, self.registry, watch)
        await self.watches.run(watch.positions, part_of, watch.bookmark_seconds, (Permission.HISTORY,), call)

    async def _may_be_loaded(self, namespace: str, topic: str) -> bool:
        """Returns whether a request of the history may load a namespace: not if policies are disabled, or that can't be found out."""
        if self._admission is None:
            return True
        try:
            return not await (self._admission.disabled(namespace, topic) if topic else self._admission.namespace_disabled(namespace))
        except PolicyError:
            return False


def _no_answer(registry: Registry, target: str, at_least: Position = "") -> PolicyError:
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


def _not_permitted_yet(namespace: str) -> PolicyError:
    """Returns the UNAVAILABLE of a call whose permission is not known when its deadline is near. It reveals nothing of the namespace."""
    return _within(Reason.AUTHORIZATION_UNKNOWN, f"The caller's permissions in {namespace} are not known yet.")


def _no_outcome(readiness: Readiness, request: Request) -> PolicyError:
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
