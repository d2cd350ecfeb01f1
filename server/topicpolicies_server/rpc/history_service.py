"""``PolicyHistoryService``: the server's own record of the change logs. Every method needs the permission ``history``."""

from __future__ import annotations

from functools import partial

from topicpolicies.v1 import history_pb2

from ..access import Permission
from ..cluster.admission import Admission
from ..config import Limits
from ..core.errors import PolicyError
from ..namespaces.registry import Registry
from . import histories
from .calls import Call
from .servicer import Servicer
from .watching.copying import Copying, read_history_watch


class HistoryServicer:
    """The methods of the service. They take decoded requests and return, or write, serialized answers."""

    def __init__(self, servicer: Servicer, registry: Registry, limits: Limits, admission: Admission | None) -> None:
        """Serves the history of the namespaces of a registry.

        Args:
            servicer: the other service, with which this one shares the permissions of callers and the open streams.
            registry: the namespaces.
            limits: every limit of the server.
            admission: gathers facts about the cluster; None: the cluster is not known.
        """
        self._servicer = servicer
        self.registry = registry
        """The namespaces."""
        self._limits = limits
        self._admission = admission

    async def list_history(self, message: history_pb2.ListHistoryRequest, context: Call) -> bytes:
        """Serves ListHistory."""
        context.target = message.topic or message.namespace
        query = histories.read_query(message)
        await self._servicer.shown(context, query.namespace, Permission.HISTORY)
        followed = await self._may_be_read(query.namespace, query.topic)
        return await histories.list_history(self.registry, query, followed=followed)

    async def get_policy_as_of(self, message: history_pb2.GetPolicyAsOfRequest, context: Call) -> bytes:
        """Serves GetPolicyAsOf."""
        context.target = message.topic
        topic, key, moment = histories.read_moment(message)
        await self._servicer.shown(context, topic.namespace, Permission.HISTORY)
        followed = await self._may_be_read(topic.namespace, topic.full)
        return await histories.past_document(self.registry, topic.namespace, key, moment, followed=followed)

    async def watch_history(self, message: history_pb2.WatchHistoryRequest, context: Call) -> None:
        """Serves WatchHistory."""
        limits = self._limits
        watch = read_history_watch(message, limits.max_selectors_per_watch, limits.bookmark_interval_seconds)
        histories.of(self.registry)
        context.target = message.namespaces[0]
        part_of = partial(Copying, self.registry, watch)
        await self._servicer.watches.run(watch.positions, part_of, watch.bookmark_seconds, (Permission.HISTORY,), context)

    async def _may_be_read(self, namespace: str, topic: str) -> bool:
        """Returns whether a request may load a namespace: not if its policies are disabled, or if that can't be found out."""
        if self._admission is None:
            return True
        try:
            return not await (self._admission.disabled(namespace, topic) if topic else self._admission.namespace_disabled(namespace))
        except PolicyError:
            return False
