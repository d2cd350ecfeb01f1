"""gRPC's health service (``grpc.health.v1``).

======================================  ==========================================================================================
name                                    status
======================================  ==========================================================================================
"", ``readiness``, a service's name     whether the server is ready: the change log can be reached, and the server does not stop
``liveness``                            SERVING, as long as the process answers
``tenant/namespace``                    SERVING: its view answers, and the log can be reached. NOT_SERVING: it can't be loaded, the log
                                        is out of reach, or the server stops. UNKNOWN: the namespace is not in memory (a health check
                                        does not load it) or is being read, or the caller may not read it
anything else                           NOT_FOUND; a watch receives SERVICE_UNKNOWN
======================================  ==========================================================================================

The number of health watches is bounded, and so is the length of a name. A peer that does not read holds up no other: each watch has its own
task, and sends the newest status only.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from ..access import Permission
from ..access.grants import Grants, known
from ..core.errors import PolicyError, too_much
from ..core.names import parse_namespace
from ..namespaces.namespace import Phase
from ..namespaces.registry import Registry
from ..readiness import Readiness, State, Transition
from .calls import Call

_LONGEST_NAME = 512
_LOOK_SECONDS = 1.0
"""Seconds between two looks at the status of a watched namespace."""
_ALIVE = "liveness"
_Status = health_pb2.HealthCheckResponse
SERVING, NOT_SERVING, UNKNOWN, SERVICE_UNKNOWN = _Status.SERVING, _Status.NOT_SERVING, _Status.UNKNOWN, _Status.SERVICE_UNKNOWN


class HealthService(health_pb2_grpc.HealthServicer):  # type: ignore[misc]
    """The health service of one server."""

    def __init__(
        self,
        readiness: Readiness,
        registry: Registry,
        services: Collection[str],
        most_watches: int,
        grants: Grants | None = None,
    ) -> None:
        """Begins without watches.

        Args:
            readiness: whether the server is ready.
            registry: the namespaces.
            services: the full names of our services, which have the health of the server.
            most_watches: how many health watches may be open.
            grants: says who may read a namespace, and so see its health; None: every caller may.
        """
        self._readiness = readiness
        self._registry = registry
        self._most_watches = most_watches
        self._grants = grants
        self._of_all = ("", "readiness", *services)
        self._watches: set[asyncio.Event] = set()
        """One for each open watch, set when the readiness of the server has changed."""
        readiness.add_listener(self._wake)

    @property
    def watches(self) -> int:
        """How many health watches are open."""
        return len(self._watches)

    def status(self, name: str) -> health_pb2.HealthCheckResponse.ServingStatus.ValueType | None:
        """Returns the status of a name; None: there is no such name."""
        ready = SERVING if self._readiness.ready else NOT_SERVING
        if name in self._of_all:
            return ready
        if name == _ALIVE:
            return SERVING
        if not _is_namespace(name):
            return None
        if self._readiness.state is State.DRAINING:
            return NOT_SERVING
        namespace = self._registry.find(name)
        if namespace is None or namespace.phase is Phase.LOADING:
            return UNKNOWN
        return ready if namespace.phase is Phase.READY else NOT_SERVING

    async def visible_status(self, name: str, call: Call) -> health_pb2.HealthCheckResponse.ServingStatus.ValueType | None:
        """Returns the status of a name as a caller may see it: UNKNOWN for a namespace that it may not read."""
        if self._grants is not None and _is_namespace(name):
            try:
                if Permission.READ not in await known(self._grants(call.caller, name)):
                    return UNKNOWN
            except PolicyError:
                return UNKNOWN
        return self.status(name)

    async def Check(self, request: health_pb2.HealthCheckRequest, context: Call) -> health_pb2.HealthCheckResponse:  # noqa: N802 (gRPC's name)
        """Sends the present status of a name."""
        status = await self.visible_status(request.service, context)
        if status is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, "There is no such service: use liveness, readiness or tenant/namespace.")
        return _Status(status=status)

    async def List(self, request: health_pb2.HealthListRequest, context: Any) -> health_pb2.HealthListResponse:  # noqa: N802
        """Sends the status of every name but those of namespaces."""
        del request, context
        return health_pb2.HealthListResponse(statuses={name: _Status(status=self.status(name)) for name in (*self._of_all, _ALIVE)})

    async def Watch(self, request: health_pb2.HealthCheckRequest, context: Call) -> None:  # noqa: N802
        """Sends the status of a name, now and whenever it has changed."""
        name, told = request.service, None
        looks = _LOOK_SECONDS if _is_namespace(name) else None
        if len(self._watches) >= self._most_watches:
            problem = f"{self._most_watches:,} health watches are open, which is the limit: close one, or raise max_health_watches."
            raise too_much("max_health_watches", self._most_watches, problem)
        changed = asyncio.Event()
        self._watches.add(changed)
        try:
            while True:
                changed.clear()
                status = await self.visible_status(name, context)
                if status is None:
                    status = SERVICE_UNKNOWN
                if status != told:
                    told = status
                    await context.write(_Status(status=status))
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(looks):
                        await changed.wait()
        finally:
            self._watches.discard(changed)

    def _wake(self, _: Transition) -> None:
        for changed in self._watches:
            changed.set()


def _is_namespace(name: str) -> bool:
    if "/" not in name or len(name) > _LONGEST_NAME:
        return False
    try:
        return parse_namespace(name) == name
    except PolicyError:
        return False
