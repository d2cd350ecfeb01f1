"""``TopicPoliciesService`` and ``PolicyHistoryService``: validates each request, calls its namespace, and serializes the answer.

Every method that concerns a namespace follows the same order: read and validate the request, check what the caller may do in the namespace,
gather the cluster facts that the rules need, then call the namespace. So a caller without the permission learns nothing of a namespace, not
even whether it exists.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TypeAlias, TypeVar

from topicpolicies.v1 import history_pb2, service_pb2

from ..access import Permission
from ..access.grants import Grants
from ..cluster.admission import Admission
from ..cluster.disabled import DisabledWatching
from ..config import Limits
from ..core.chains.sequencer import Request
from ..core.errors import PolicyError, stopping
from ..core.policies import documents, secrets
from ..core.policies.events import ABSENT
from ..logs.change_log import NotLeader
from ..namespaces.namespace import Namespace
from ..namespaces.registry import Registry
from . import answers, deadline_errors, histories, reads, requests
from .batches import Batch
from .calls import Call, Calls
from .forwarding import Forwarding
from .permitting import permitted
from .requests import Author, author_of
from .watching.copying import Copying
from .watching.part import Part, WatchResources
from .watching.requests import read_history_watch, read_watch
from .watching.stream import WatchStreams

_Change = TypeVar("_Change", service_pb2.UpdatePolicyRequest, service_pb2.DeletePolicyRequest)
_Read: TypeAlias = Callable[[_Change, Author], tuple[str, Request]]


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
        self._stages = registry.common.activity.stages
        self._readiness = registry.common.readiness
        self._limits = limits
        self._admission = admission
        self._forwarding = forwarding
        self._info = info
        self._changes: dict[Request, Namespace] = {}
        """Changes of UpdatePolicy and DeletePolicy calls that were handed to a namespace and have no result, with that namespace."""
        self._batches: dict[Batch, None] = {}
        self.calls = calls
        """Every call in progress on the server."""
        calls.on_deadline = self._on_deadline

    def give_up(self) -> None:
        """Ends every change without a result: with SHUTTING_DOWN if it certainly was not made, else with OUTCOME_UNKNOWN."""
        for request, namespace in list(self._changes.items()):
            namespace.end(request, stopping())
        for batch in list(self._batches):
            batch.end(lambda *_: stopping())

    def _on_deadline(self, call: Call) -> None:
        """Ends a call whose deadline is near with the reason why it has no answer; for a change, also whether it may have been made."""
        if call.on_deadline is not None:
            call.on_deadline()
            return
        request = call.request
        if call.unpermitted:
            call.end(deadline_errors.not_permitted_yet(call.unpermitted))
        elif request is None or (namespace := self._changes.get(request)) is None or not request.submitted:
            target = request.key.topic if request is not None else call.target
            call.end(deadline_errors.no_answer(self.registry, target, call.at_least))
        else:
            namespace.end(request, deadline_errors.no_outcome(self._readiness, request))

    def _not_in_time(self, request: Request | None, unpermitted: str | None) -> PolicyError:
        """Returns the error of a change of a batch that certainly was not made when the deadline is near (``Batch.end``)."""
        if unpermitted is not None:
            return deadline_errors.not_permitted_yet(unpermitted)
        if request is not None and request.submitted:
            return deadline_errors.no_outcome(self._readiness, request)
        return deadline_errors.no_answer(self.registry, request.key.topic if request is not None else "")

    async def update_policy(self, message: service_pb2.UpdatePolicyRequest, context: Call) -> bytes:
        """Serves UpdatePolicy."""
        context.target = message.topic
        try:
            return await self._change(*requests.read_update(message, author_of(context)), context)
        except NotLeader as refused:
            return await self._forwarded(message, requests.read_update, context, refused)

    async def delete_policy(self, message: service_pb2.DeletePolicyRequest, context: Call) -> bytes:
        """Serves DeletePolicy."""
        context.target = message.topic
        try:
            return await self._change(*requests.read_delete(message, author_of(context)), context)
        except NotLeader as refused:
            return await self._forwarded(message, requests.read_delete, context, refused)

    async def batch_update_policies(self, message: service_pb2.BatchUpdatePoliciesRequest, context: Call) -> bytes:
        """Serves BatchUpdatePolicies."""
        batch = Batch(
            message.changes,
            context,
            self.registry,
            self._admission,
            partial(self.shown, context, permission=Permission.CHANGE),
            self.calls.change_observers,
            self._forwarding,
        )
        self._batches[batch] = None
        context.on_deadline = partial(batch.end, self._not_in_time)
        try:
            return await batch.run()
        finally:
            context.on_deadline = None
            del self._batches[batch]

    async def shown(self, context: Call, namespace: str, permission: Permission) -> answers.Wire:
        """Checks a permission of the caller and returns how documents are serialized for it.

        Raises:
            PolicyError: PERMISSION_DENIED, the caller lacks the permission; UNAVAILABLE, that can't be known now.
        """
        if self._grants is None:
            return self._resources.wire
        granted = self._grants(context.caller, namespace)
        if not isinstance(granted, frozenset):
            context.unpermitted = namespace
            granted = await granted
            context.unpermitted = ""
        return permitted(granted, context.caller, namespace, permission)

    async def _change(self, name: str, request: Request, context: Call) -> bytes:
        """Makes the change of an UpdatePolicy or DeletePolicy call in the namespace ``name``, and returns the answer."""
        wire = await self.shown(context, name, Permission.CHANGE)
        context.request = request
        if self._admission is not None and (waiting := self._admission.admit(name, request)) is not None:
            await waiting
        self._changes[request] = namespace = self.registry.get(name)
        self._stages.waiting.count(time.perf_counter() - context.started)
        try:
            result = await namespace.update(request)
            context.outcome = result.outcome
            return answers.change_answer(request, result, wire)
        finally:
            del self._changes[request]

    async def _forwarded(self, message: _Change, read: _Read[_Change], context: Call, refused: NotLeader) -> bytes:
        """Returns the answer of the leader to an UpdatePolicy or DeletePolicy call."""
        if self._forwarding is None:
            raise refused
        return await self._forwarding.change(context, message, refused, lambda: self._change(*read(message, author_of(context)), context))

    async def get_policy(self, message: service_pb2.GetPolicyRequest, context: Call) -> bytes:
        """Serves GetPolicy."""
        context.target = message.topic
        topic, key, at_least = reads.read_get(message)
        wire = await self.shown(context, topic.namespace, Permission.READ)
        if self._admission is not None and await self._admission.disabled(topic.namespace, topic.full):
            return answers.document(key, ABSENT, None, disabled=True)
        context.at_least = at_least
        return answers.present(key, await self.registry.get(topic.namespace).get(key, at_least), wire)

    async def get_effective_policy(self, message: service_pb2.GetEffectivePolicyRequest, context: Call) -> bytes:
        """Serves GetEffectivePolicy."""
        context.target = message.topic
        target = reads.read_effective(message)
        wire = await self.shown(context, target.topic.namespace, Permission.READ)
        return await reads.effective_policy(self.registry, self._admission, target, wire, context)

    async def get_server_info(self, _message: service_pb2.GetServerInfoRequest, _: Call) -> bytes:
        """Serves GetServerInfo."""
        return self._info().SerializeToString()

    async def list_policies(self, message: service_pb2.ListPoliciesRequest, context: Call) -> bytes:
        """Serves ListPolicies."""
        context.target = message.namespace
        page = reads.read_list(message)
        wire = await self.shown(context, page.namespace, Permission.READ)
        return await reads.policies_of(self.registry, self._admission, page, wire)

    async def watch_policies(self, message: service_pb2.WatchPoliciesRequest, context: Call) -> None:
        """Serves WatchPolicies."""
        limits = self._limits
        watch = read_watch(message, limits.max_selectors_per_watch, limits.bookmark_interval_seconds)
        context.target = next(iter((*message.namespaces, *message.topics)), "")
        part_of = partial(Part, self._resources, watch)
        await self.watches.run(watch.topics, part_of, watch.bookmark_seconds, watch.permissions, context)

    async def list_history(self, message: history_pb2.ListHistoryRequest, context: Call) -> bytes:
        """Serves ListHistory."""
        context.target = message.topic or message.namespace
        query = histories.read_query(message)
        await self.shown(context, query.namespace, Permission.HISTORY)
        followed = await self._may_be_loaded(query.namespace, query.topic)
        return await histories.list_history(self.registry, query, followed=followed)

    async def get_policy_as_of(self, message: history_pb2.GetPolicyAsOfRequest, context: Call) -> bytes:
        """Serves GetPolicyAsOf."""
        context.target = message.topic
        topic, key, moment = histories.read_moment(message)
        await self.shown(context, topic.namespace, Permission.HISTORY)
        followed = await self._may_be_loaded(topic.namespace, topic.full)
        return await histories.past_document(self.registry, topic.namespace, key, moment, followed=followed)

    async def watch_history(self, message: history_pb2.WatchHistoryRequest, context: Call) -> None:
        """Serves WatchHistory."""
        limits = self._limits
        watch = read_history_watch(message, limits.max_selectors_per_watch, limits.bookmark_interval_seconds)
        histories.of(self.registry)
        context.target = message.namespaces[0]
        part_of = partial(Copying, self.registry, watch)
        await self.watches.run(watch.positions, part_of, watch.bookmark_seconds, (Permission.HISTORY,), context)

    async def _may_be_loaded(self, namespace: str, topic: str) -> bool:
        """Returns whether a request of the history may load a namespace: not if policies are disabled, or that can't be found out."""
        if self._admission is None:
            return True
        try:
            return not await (self._admission.disabled(namespace, topic) if topic else self._admission.namespace_disabled(namespace))
        except PolicyError:
            return False
