"""``TopicPoliciesService`` and ``PolicyHistoryService``: validates each request, calls its namespace, and serializes the answer.

Every method that concerns a namespace follows the same order: read and validate the request, check what the caller may do in the namespace,
gather the cluster facts that the rules need, then call the namespace. So a caller without the permission learns nothing of a namespace, not
even whether it exists.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import grpc

from topicpolicies.v1 import history_pb2, service_pb2

from ..access import Granted, Permission
from ..access.grants import Grants
from ..cluster.cluster import Cluster
from ..config import Limits
from ..core.chains.answers import not_in_time
from ..core.chains.request import Request
from ..core.changes.constraints import Constraint
from ..core.errors import Kind, PolicyError, stopping
from ..core.policies.events import ABSENT
from ..core.reasons import Reason
from ..logs.change_log import NotLeader
from ..namespaces.namespace import Phase
from ..namespaces.progress import not_reached
from ..namespaces.registry import Registry
from . import answers, histories, reads, requests
from .batches import ChangeBatch
from .calls import CHANGES, Call, Calls, Method
from .forwarding import Forwarding
from .requests import ChangeMessage
from .watching.history_part import HistoryPart
from .watching.policy_part import PolicyPart
from .watching.requests import read_history_watch, read_watch
from .watching.stream import WatchStreams

SERVICE = service_pb2.DESCRIPTOR.services_by_name["TopicPoliciesService"].full_name
HISTORY_SERVICE = history_pb2.DESCRIPTOR.services_by_name["PolicyHistoryService"].full_name
UNCONFIRMED_KEY = "topicpolicies-unconfirmed-since"
"""The trailing metadata of an answer from a view that can't be confirmed, for the log is out of reach: since when (ISO 8601, UTC)."""


class Servicer:
    """The methods of both services. They take decoded requests and return, or write, serialized answers."""

    def __init__(
        self,
        registry: Registry,
        limits: Limits,
        info: Callable[[], service_pb2.ServerInfo],
        calls: Calls,
        *,
        grants: Grants,
        cluster: Cluster | None = None,
        forwarding: Forwarding | None = None,
    ) -> None:
        """Serves the namespaces of a registry.

        ``info`` returns the answer to GetServerInfo. ``cluster`` is None if nothing is known of it, ``forwarding`` if logs have no leaders.
        """
        self._grants = grants
        self.watches = WatchStreams(limits.max_watches, grants)
        self.registry = registry
        self._waiting = registry.common.activity.stages["waiting"]
        self._readiness = registry.common.readiness
        self._limits = limits
        self._cluster = cluster
        self._forwarding = forwarding
        self._info = info
        self.calls = calls
        calls.on_deadline = self._on_deadline
        self.constraints_of: Callable[[str], Sequence[Constraint]] | None = None
        """Returns what changes of a topic, by its full name, may make of it; None: anything."""

    def handlers(self) -> tuple[grpc.GenericRpcHandler, ...]:
        """Returns the handlers of both services for a gRPC server."""

        def unary(name: str, request: Any, method: Method[bytes]) -> grpc.RpcMethodHandler[Any, Any]:
            async def marked(message: Any, call: Call) -> bytes:
                answer = await method(message, call)
                if self._readiness.cut_off and not self.registry.common.context.sole_writer:
                    since = datetime.now(UTC) - timedelta(seconds=time.monotonic() - self._readiness.since)
                    call.context.set_trailing_metadata(((UNCONFIRMED_KEY, since.isoformat(timespec="milliseconds")),))
                return answer

            return grpc.unary_unary_rpc_method_handler(
                self.calls.handler(name, request.FromString, method if name in CHANGES else marked, stream=False)
            )

        def stream(name: str, request: Any, method: Method[None]) -> grpc.RpcMethodHandler[Any, Any]:
            return grpc.unary_stream_rpc_method_handler(self.calls.handler(name, request.FromString, method, stream=True))

        policies = {
            "UpdatePolicy": unary("UpdatePolicy", service_pb2.UpdatePolicyRequest, self.change),
            "BatchUpdatePolicies": unary("BatchUpdatePolicies", service_pb2.BatchUpdatePoliciesRequest, self.batch_update_policies),
            "DeletePolicy": unary("DeletePolicy", service_pb2.DeletePolicyRequest, self.change),
            "GetPolicy": unary("GetPolicy", service_pb2.GetPolicyRequest, self.get_policy),
            "GetEffectivePolicy": unary("GetEffectivePolicy", service_pb2.GetEffectivePolicyRequest, self.get_effective_policy),
            "GetServerInfo": unary("GetServerInfo", service_pb2.GetServerInfoRequest, self.get_server_info),
            "ListPolicies": unary("ListPolicies", service_pb2.ListPoliciesRequest, self.list_policies),
            "WatchPolicies": stream("WatchPolicies", service_pb2.WatchPoliciesRequest, self.watch_policies),
        }
        of_history = {
            "ListHistory": unary("ListHistory", history_pb2.ListHistoryRequest, self.list_history),
            "GetPolicyAsOf": unary("GetPolicyAsOf", history_pb2.GetPolicyAsOfRequest, self.get_policy_as_of),
            "WatchHistory": stream("WatchHistory", history_pb2.WatchHistoryRequest, self.watch_history),
        }
        return (
            grpc.method_handlers_generic_handler(SERVICE, policies),
            grpc.method_handlers_generic_handler(HISTORY_SERVICE, of_history),
        )

    def end_changes(self) -> None:
        """Ends every change without a result: with SHUTTING_DOWN if it certainly was not made, else with OUTCOME_UNKNOWN."""
        for call in self.calls:
            if call.end_batch is not None:
                call.end_batch(lambda *_, **__: stopping())
            elif call.served is not None and call.request is not None:
                call.served.updates.answer_now(call.request, stopping())

    def _on_deadline(self, call: Call) -> None:
        """Ends a call whose deadline is near with the reason why it has no answer; for a change, also whether it may have been made."""
        if call.end_batch is not None:
            call.end_batch(self._not_in_time)
            return
        request = call.request
        error = self._not_in_time(request, call.namespace, permitted=call.permitted, at_least=call.at_least)
        if request is not None and request.submitted and call.served is not None:
            call.served.updates.answer_now(request, error)
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
        try:
            return await self._change_here(message, call)
        except NotLeader as refused:
            if self._forwarding is None:
                raise
            return await self._forwarding.change(call, message, refused, lambda: self._change_here(message, call))

    async def _change_here(self, message: ChangeMessage, call: Call) -> bytes:
        name, request = requests.read_change(message, call.caller, call.trace_context())
        granted = await call.permit(self._grants, name, Permission.CHANGE)
        self._constrain(request, granted)
        call.request = request
        if self._cluster is not None and (waiting := self._cluster.admit(name, request)) is not None:
            await waiting
        call.served = namespace = self.registry.get(name)
        self._waiting.count(time.perf_counter() - call.started)
        try:
            result = await namespace.update(request)
            call.outcome = result.outcome
            return answers.change_answer(request, result, answers.wire_of(granted))
        finally:
            call.served = None

    def _constrain(self, request: Request, granted: Granted) -> None:
        """Gives a change the constraints that it must keep."""
        if self.constraints_of is not None and Permission.OVERRIDE not in granted:
            request.constraints = self.constraints_of(request.key.topic)

    async def batch_update_policies(self, message: service_pb2.BatchUpdatePoliciesRequest, call: Call) -> bytes:
        """Serves BatchUpdatePolicies."""
        changes, forwarding = message.changes, self._forwarding
        batch = ChangeBatch(changes, call, self.registry, self._cluster, self._grants, self._constrain, forwarding)
        call.end_batch = batch.end
        try:
            return await batch.run()
        finally:
            call.end_batch = None

    async def get_policy(self, message: service_pb2.GetPolicyRequest, call: Call) -> bytes:
        """Serves GetPolicy."""
        call.target = message.topic
        topic, key, at_least = reads.read_get(message)
        granted = await call.permit(self._grants, topic.namespace, Permission.READ)
        if self._cluster is not None and await self._cluster.disabled(topic.namespace, topic.full):
            return answers.document(key, ABSENT, None, disabled=True)
        call.at_least = at_least
        return answers.present(key, await self.registry.get(topic.namespace).get(key, at_least), answers.wire_of(granted))

    async def get_effective_policy(self, message: service_pb2.GetEffectivePolicyRequest, call: Call) -> bytes:
        """Serves GetEffectivePolicy."""
        call.target = message.topic
        topic, at_least = reads.read_effective(message)
        granted = await call.permit(self._grants, topic.namespace, Permission.READ)
        return await reads.effective_policy(self.registry, self._cluster, topic, at_least, answers.wire_of(granted), call)

    async def get_server_info(self, _message: service_pb2.GetServerInfoRequest, _: Call) -> bytes:
        """Serves GetServerInfo."""
        return self._info().SerializeToString()

    async def list_policies(self, message: service_pb2.ListPoliciesRequest, call: Call) -> bytes:
        """Serves ListPolicies."""
        call.target = message.namespace
        page = reads.read_list(message)
        granted = await call.permit(self._grants, page.namespace, Permission.READ)
        return await reads.policies_of(self.registry, self._cluster, page, answers.wire_of(granted))

    async def watch_policies(self, message: service_pb2.WatchPoliciesRequest, call: Call) -> None:
        """Serves WatchPolicies."""
        limits = self._limits
        watch = read_watch(message, limits.max_selectors_per_watch, limits.bookmark_interval_seconds)
        call.target = next(iter((*message.namespaces, *message.topics)), "")
        part_of = partial(PolicyPart, self.registry, self._cluster, watch)
        await self.watches.run(call, watch.permissions, watch.topics, part_of, watch.bookmark_seconds)

    async def list_history(self, message: history_pb2.ListHistoryRequest, call: Call) -> bytes:
        """Serves ListHistory."""
        call.target = message.topic or message.namespace
        query = histories.read_query(message)
        await call.permit(self._grants, query.namespace, Permission.HISTORY)
        followed = await self._may_be_loaded(query.namespace, query.topic)
        return await histories.list_history(self.registry, query, followed=followed)

    async def get_policy_as_of(self, message: history_pb2.GetPolicyAsOfRequest, call: Call) -> bytes:
        """Serves GetPolicyAsOf."""
        call.target = message.topic
        topic, key, at, version = histories.read_moment(message)
        await call.permit(self._grants, topic.namespace, Permission.HISTORY)
        followed = await self._may_be_loaded(topic.namespace, topic.full)
        return await histories.past_document(self.registry, topic.namespace, key, at, version, followed=followed)

    async def watch_history(self, message: history_pb2.WatchHistoryRequest, call: Call) -> None:
        """Serves WatchHistory."""
        limits = self._limits
        watch = read_history_watch(message, limits.max_selectors_per_watch, limits.bookmark_interval_seconds)
        histories.of(self.registry)
        call.target = message.namespaces[0]
        part_of = partial(HistoryPart, self.registry, watch)
        await self.watches.run(call, (Permission.HISTORY,), watch.positions, part_of, watch.bookmark_seconds)

    async def _may_be_loaded(self, namespace: str, topic: str) -> bool:
        """Returns whether a request of the history may load a namespace: not if policies are disabled, or that can't be found out."""
        if self._cluster is None:
            return True
        try:
            return not await self._cluster.disabled(namespace, topic)
        except PolicyError:
            return False


def _within(reason: Reason, why: str, kind: Kind = Kind.UNAVAILABLE) -> PolicyError:
    return PolicyError(kind, reason, f"There was no answer within the time of this call: {why.rstrip('.')}. Nothing was done: try again.")
