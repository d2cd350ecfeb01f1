"""``TopicPoliciesService``: validates each request, calls its namespace, and serializes the answer.

Every method that concerns a namespace follows the same order: read and validate the request, check what the caller may do in the namespace,
gather the cluster facts that the rules need, then call the namespace. So a caller without the permission learns nothing of a namespace, not
even whether it exists.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import TypeAlias, TypeVar

from topicpolicies.v1 import service_pb2

from ..access import Permission
from ..cluster.admission import Admission
from ..cluster.watched_namespaces import WatchedNamespaces
from ..config import Limits
from ..core.chains.sequencer import Request, Result
from ..core.errors import Kind, PolicyError, stopping
from ..core.policies import documents, secrets
from ..core.policies.events import ABSENT
from ..core.reasons import Reason
from ..core.traces import StageTimes
from ..namespaces.gathering import Gathering
from ..namespaces.namespace import Namespace
from ..namespaces.registry import Registry
from ..tasks import TaskSet
from . import answers, deadline_errors, effective, histories, listing, requests
from .authors import author_of
from .call import Call
from .calls import Calls, Only, only
from .decoding import Batch
from .errors import Context
from .failures import Failures
from .permitting import Permitted, Permitting
from .problems import Problems
from .streaming import ChangeEnded, UpdateStream
from .watching.authorizations import Authorizations
from .watching.bookmarks import Bookmarks
from .watching.requests import read_watch
from .watching.resources import WatchResources
from .watching.stream import WatchStream, Write

SERVICE = service_pb2.DESCRIPTOR.services_by_name["TopicPoliciesService"].full_name


_Message = TypeVar("_Message")
_Unary: TypeAlias = Callable[["Servicer", _Message, Context], Awaitable[bytes]]


def _answering(method: _Unary[_Message]) -> Callable[[Servicer, _Message, Context], Awaitable[bytes]]:
    """Wraps a unary method so that its answer says since when the log can't be reached, if it can't."""

    async def answering(self: Servicer, message: _Message, context: Context) -> bytes:
        answer = await method(self, message, context)
        if self._readiness.cut_off and not self._registry.common.context.sole_writer:
            context.note(deadline_errors.UNCONFIRMED_KEY, deadline_errors.unconfirmed_since(self._readiness, time.monotonic()))
        return answer

    return answering


class Servicer:
    """The methods of the service. They take decoded requests and return, or write, serialized answers."""

    def __init__(
        self,
        registry: Registry,
        limits: Limits,
        info: Callable[[], service_pb2.GetServerInfoResponse],
        calls: Calls,
        *,
        admission: Admission | None = None,
        permitting: Permitting | None = None,
        show_secrets: bool = False,
    ) -> None:
        """Serves the namespaces of a registry.

        Args:
            registry: the namespaces.
            limits: every limit of the server.
            info: returns the answer to GetServerInfo.
            calls: the calls in progress.
            admission: gathers facts about the cluster; None: the cluster is not known.
            permitting: checks the permissions of callers; None: every caller may do everything.
            show_secrets: whether answers contain the credentials of object storages; with ``permitting``, a permission decides that.
        """
        watched_namespaces = WatchedNamespaces(admission) if admission is not None else None
        self._resources = WatchResources(registry, documents.wire if show_secrets else secrets.wire, watched_namespaces)
        self._permitting = permitting
        self.authorizations = Authorizations(permitting) if permitting is not None else None
        """The permissions that open watches depend on, rechecked while they are open; None: no permissions are checked."""
        self._registry = registry
        self._stages = registry.activity.stages
        self._readiness = registry.common.readiness
        self._limits = limits
        self._admission = admission
        self._info = info
        self._watching: dict[WatchStream, None] = {}
        self._bookmarks = Bookmarks(asyncio.get_running_loop())
        self._stopping = asyncio.Event()
        self._closing = TaskSet("watches")
        """The tasks in which ended watch streams release their watchers and namespaces."""
        self._changes: dict[Request, Namespace] = {}
        """Changes of UpdatePolicy and DeletePolicy calls that were handed to a namespace and have no result, with that namespace."""
        self._unpermitted: dict[Context, str] = {}
        """Calls whose permission is still being looked up, with the namespace. Until then their errors reveal nothing of that namespace."""
        self._streams: dict[UpdateStream, None] = {}
        self._failures = Failures()
        self.calls = calls
        """Every call in progress on the server."""
        calls.lateness.hurry = self._hurry
        self._gathering = Gathering(asyncio.get_running_loop())

    @property
    def watches(self) -> int:
        """How many WatchPolicies streams are open."""
        return len(self._watching)

    def watch_records(self) -> list[int]:
        """Returns, for each open watch, how many records wait in its outboxes. Safe to call from any thread."""
        return [stream.waiting for stream in list(self._watching)]

    def stop_watches(self) -> None:
        """Ends every open watch with UNAVAILABLE after a last bookmark, ends new ones at once, and stops update streams from reading."""
        self._stopping.set()
        for stream in self._watching:
            stream.stop()

    async def closed(self) -> None:
        """Returns when every ended watch stream has released its watchers and namespaces."""
        await self._closing.close(cancel=False)

    def give_up(self) -> None:
        """Ends every change without a result: with SHUTTING_DOWN if it certainly was not made, else with OUTCOME_UNKNOWN."""
        for request, namespace in list(self._changes.items()):
            namespace.end(request, stopping())
        for stream in list(self._streams):
            stream.give_up()

    def _hurry(self, call: Call) -> None:
        """Ends a call whose deadline is near with the reason why it has no answer; for a change, also whether it may have been made."""
        request, where = call.request, self._unpermitted.get(call)
        if where is not None:
            call.expire(deadline_errors.not_permitted_yet(where))
        elif request is None or (namespace := self._changes.get(request)) is None or not request.submitted:
            target = request.key.topic if request is not None else call.target
            call.expire(deadline_errors.no_answer(self._registry, target, call.at_least))
        else:
            namespace.end(request, deadline_errors.no_outcome(self._readiness, request))

    @_answering
    async def update_policy(self, message: service_pb2.UpdatePolicyRequest, context: Context) -> bytes:
        """UpdatePolicy."""
        context.target = message.topic
        gathering = self._gathering
        if (turn := gathering.come()) is not None:
            await gathering.wait(turn)
        try:
            namespace, request = requests.read_update(message, author_of(context))
            permitting = self._permitting
            known = (
                permitting.shown_at_once(context.caller, namespace, Permission.CHANGE) if permitting is not None else self._resources.wire
            )
            wire = known or await self._shown(context, namespace, Permission.CHANGE)
            return answers.update_answer(request, await self._changed(namespace, request, context), wire)
        finally:
            gathering.leave()

    @_answering
    async def delete_policy(self, message: service_pb2.DeletePolicyRequest, context: Context) -> bytes:
        """Serves DeletePolicy."""
        context.target = message.topic
        namespace, request = requests.read_delete(message, author_of(context))
        wire = await self._shown(context, namespace, Permission.CHANGE)
        return answers.delete_answer(request, await self._changed(namespace, request, context), wire)

    async def _shown(self, context: Context, namespace: str, permission: Permission) -> answers.Wire:
        """Checks a permission of the caller and returns how documents are serialized for it (``Permitting.shown``).

        Raises:
            PolicyError: PERMISSION_DENIED, the caller lacks the permission; UNAVAILABLE, that can't be known now.
        """
        permitting = self._permitting
        if permitting is None:
            return self._resources.wire
        known = permitting.shown_at_once(context.caller, namespace, permission)
        if known is not None:
            return known
        self._unpermitted[context] = namespace
        try:
            return await permitting.shown(context.caller, namespace, permission)
        finally:
            del self._unpermitted[context]

    async def _changed(self, name: str, request: Request, context: Context) -> Result:
        context.request = request
        if context.span is not None:
            request.stage_times = StageTimes(context.started, context.span)
        if self._admission is not None and not self._admission.at_once(name, request):
            await self._admission.admit(name, request)
        self._changes[request] = namespace = self._registry.get(name)
        self._stages.waiting.count(time.perf_counter() - context.started)
        try:
            result = await namespace.update(request)
            context.outcome = result.outcome
            return result
        finally:
            del self._changes[request]

    async def update_policies(self, stream: AsyncIterator[Batch], context: Context) -> AsyncGenerator[bytes, None]:
        """Serves UpdatePolicies."""
        places = self._limits.max_in_flight_per_stream
        admission = self._admission if self._permitting is None else Permitted(self._permitting, context.caller, self._admission)
        updates = UpdateStream(
            self._registry, admission, self._resources.wire, author_of(context), places, self._failures, self._stopping, context.pace
        )
        updates.span = context.span
        updates.observers = (self._of_change(context),)
        self._streams[updates] = None
        context.leave = updates.leave
        try:
            async with contextlib.aclosing(updates.messages(stream)) as messages:
                async for message in messages:
                    yield message
        finally:
            self._streams.pop(updates, None)
            context.leave = None

    def _of_change(self, context: Context) -> ChangeEnded:
        """Returns a function that reports each change of an UpdatePolicies stream to the change observers."""
        traced, caller = context.span is not None, context.caller
        observers = [each.changed for each in self.calls.change_observers if traced or only(each) is not Only.TRACED]

        def changed(request: Request | None, answer: Result | PolicyError | None, seconds: float) -> None:
            context.changes += answer is not None
            for observe in observers:
                observe("UpdatePolicies", caller, request, answer, seconds)

        return changed

    @_answering
    async def get_policy(self, message: service_pb2.GetPolicyRequest, context: Context) -> bytes:
        """Serves GetPolicy."""
        context.target = message.topic
        problems = Problems()
        target, moment = requests.read_get(message, problems), histories.read_moment(message, problems)
        problems.check()
        assert target is not None, "checked"
        wire = await self._shown(context, target.namespace, Permission.READ if moment is None else Permission.HISTORY)
        if moment is not None:
            followed = await self._may_be_read(target.namespace, target.topic)
            past = [await histories.past_document(self._registry, target.namespace, key, moment, followed=followed) for key in target.keys]
            return answers.get_answer(past)
        if self._admission is not None and await self._admission.disabled(target.namespace, target.topic):
            return answers.get_answer(answers.document(key, ABSENT, None, disabled=True) for key in target.keys)
        namespace = self._registry.get(target.namespace)
        context.at_least = target.at_least
        heads = [(key, await namespace.get(key, target.at_least)) for key in target.keys]
        return answers.get_answer(answers.present(key, head, wire) for key, head in heads)

    @_answering
    async def get_effective_policy(self, message: service_pb2.GetEffectivePolicyRequest, context: Context) -> bytes:
        """Serves GetEffectivePolicy."""
        context.target = message.topic
        question = effective.read(message)
        wire = await self._shown(context, question.topic.namespace, Permission.READ)
        return await effective.answer(self._registry, self._admission, question, wire, context)

    @_answering
    async def get_server_info(self, _message: service_pb2.GetServerInfoRequest, _: Context) -> bytes:
        """Serves GetServerInfo."""
        return self._info().SerializeToString()

    @_answering
    async def list_history(self, message: service_pb2.ListHistoryRequest, context: Context) -> bytes:
        """Serves ListHistory."""
        context.target = message.topic or message.namespace
        query = histories.read_query(message)
        await self._shown(context, query.namespace, Permission.HISTORY)
        followed = await self._may_be_read(query.namespace, query.topic)
        return await histories.list_history(self._registry, query, followed=followed)

    async def _may_be_read(self, namespace: str, topic: str = "") -> bool:
        """Returns whether a history request may load a namespace: not if its policies are disabled, or if that can't be found out."""
        if self._admission is None:
            return True
        try:
            return not await (self._admission.disabled(namespace, topic) if topic else self._admission.namespace_disabled(namespace))
        except PolicyError:
            return False

    @_answering
    async def list_policies(self, message: service_pb2.ListPoliciesRequest, context: Context) -> bytes:
        """Serves ListPolicies."""
        context.target = message.namespace
        page = requests.read_list(message)
        wire = await self._shown(context, page.namespace, Permission.READ)
        return await listing.answer(self._registry, self._admission, page, wire)

    async def watch_policies(self, message: service_pb2.WatchPoliciesRequest, context: Context, write: Write) -> None:
        """Serves WatchPolicies; ``write`` sends one message and returns when there is room for the next."""
        watch = read_watch(message, self._limits.max_selectors_per_watch, self._limits.bookmark_interval_seconds)
        if len(self._watching) >= self._limits.max_watches:
            raise PolicyError(
                Kind.RESOURCE_EXHAUSTED,
                Reason.TOO_MANY_WATCHES,
                f"{len(self._watching)} watches are open, which is the limit: share one, or raise max_watches.",
            )
        context.target = next(iter((*message.namespaces, *message.topics)), "")
        stream = WatchStream(self._resources, watch, self._bookmarks)
        self._watching[stream] = None
        if self._stopping.is_set():
            stream.stop()
        try:
            if self.authorizations is None:
                await stream.run(write)
            else:
                async with self.authorizations.joined(stream.reconsider, context.caller, tuple(watch.topics), *watch.permissions) as held:
                    await stream.run(write, held, context.unread_since)
        finally:
            self._watching.pop(stream, None)
            closing = self._closing.begin(stream.close(), "releasing the source of a stream")
            await asyncio.shield(closing)  # a cancellation of the call now must not cancel the release
