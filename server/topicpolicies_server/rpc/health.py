"""gRPC's health service (``grpc.health.v1``).

======================================  ==========================================================================================
name                                    status
======================================  ==========================================================================================
"", ``readiness``, a service's name     whether the server is ready: the change log can be reached, and the server does not stop
``liveness``                            SERVING, as long as the process answers
anything else                           NOT_FOUND; a watch receives SERVICE_UNKNOWN
======================================  ==========================================================================================

The service of gRPC's library holds a lock while it writes to a watch, so a peer that does not read would hold up every other one. Here
each watch waits for changes by itself, and sends the newest status only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from grpc_health.v1 import health_pb2

from ..core.errors import Kind, PolicyError
from ..core.reasons import Reason
from ..readiness import Readiness
from .calls import Call

_ALIVE = "liveness"
_Status = health_pb2.HealthCheckResponse
SERVING, NOT_SERVING, SERVICE_UNKNOWN = _Status.SERVING, _Status.NOT_SERVING, _Status.SERVICE_UNKNOWN


class HealthService:
    """The health service of one server. Its methods return, or write, serialized answers."""

    def __init__(self, readiness: Readiness, services: Collection[str]) -> None:
        """Begins without watches. ``services``: the full names of our services, which have the health of the server."""
        self._readiness = readiness
        self._of_all = ("", "readiness", *services)
        self._watches: set[asyncio.Event] = set()
        """One for each open watch, set when the readiness of the server has changed."""
        readiness.add_listener(self._notify)

    def status(self, name: str) -> health_pb2.HealthCheckResponse.ServingStatus.ValueType | None:
        """Returns the status of a name; None: there is no such name."""
        if name in self._of_all:
            return SERVING if self._readiness.ready else NOT_SERVING
        return SERVING if name == _ALIVE else None

    async def check(self, request: health_pb2.HealthCheckRequest, _: Call) -> bytes:
        """Returns the present status of a name; raises PolicyError, NOT_FOUND, if there is no such name."""
        status = self.status(request.service)
        if status is None:
            raise PolicyError(Kind.NOT_FOUND, Reason.INVALID_REQUEST, "There is no such service: use liveness or readiness.")
        return bytes(_Status(status=status).SerializeToString())

    async def list(self, _request: health_pb2.HealthListRequest, _: Call) -> bytes:
        """Returns the status of every name."""
        statuses = {name: _Status(status=self.status(name)) for name in (*self._of_all, _ALIVE)}
        return bytes(health_pb2.HealthListResponse(statuses=statuses).SerializeToString())

    async def watch(self, request: health_pb2.HealthCheckRequest, call: Call) -> None:
        """Sends the status of a name, now and whenever it has changed."""
        sent, changed = None, asyncio.Event()
        self._watches.add(changed)
        try:
            while True:
                changed.clear()
                status = self.status(request.service)
                if status is None:
                    status = SERVICE_UNKNOWN
                if status != sent:
                    sent = status
                    await call.write(_Status(status=status).SerializeToString())
                await changed.wait()
        finally:
            self._watches.discard(changed)

    def _notify(self) -> None:
        for changed in self._watches:
            changed.set()
