"""Whether a cluster can be reached: its admin API answers, and a reader has its connection or, if no log is open, a broker listens.

The client library reports no lost broker: it connects again, for ever. A broker process that is suspended keeps its connections and its
listening sockets; then it is the admin API that does not answer.

A reader whose log was deleted, or deleted and created again, has no connection either, which says nothing about the brokers. So if no
reader is connected although brokers listen, the logs are checked: those that do not exist any more, or were replaced, are lost then and do
not count any more.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from ...core.reasons import LogState
from ..change_log import LogError
from .admin import Admin
from .broker_connections import BrokerConnections

_SECONDS = 3.0
"""How long one answer may take."""
_TOTAL_SECONDS = 3.5
"""How long all answers of brokers may take together: less than the caller waits (``health/log_probe``)."""
_ASKED = 4
"""How many logs are checked at once. Those that turn out to be gone do not count any more, so the next call checks others."""
_PORTS = {"pulsar": 6650, "pulsar+ssl": 6651}


class Reach:
    """Checks whether one cluster can be reached."""

    def __init__(self, service_url: str, admin: Admin, connections: BrokerConnections, gone: Callable[[str], Awaitable[bool]]) -> None:
        """Requests nothing yet.

        Args:
            service_url: where brokers are reached; several hosts are separated by commas.
            admin: the brokers' admin API.
            connections: which connections there are.
            gone: checks the open log of a namespace, and returns whether it does not exist any more or was replaced. Several calls run side
                by side, and are cancelled after some seconds; a check that was begun must then go on.
        """
        self._hosts = _hosts(service_url)
        self._admin = admin
        self._connections = connections
        self._gone = gone

    async def ask(self) -> None:
        """Returns when the cluster has answered.

        Raises:
            LogError: the cluster can't be reached: ``UNREACHABLE`` if brokers can't, otherwise the error of the admin API.
        """
        brokers, admin = await asyncio.gather(self._brokers(), self._admin.reached(_SECONDS), return_exceptions=True)
        for answer in (brokers, admin):
            if isinstance(answer, BaseException):
                raise answer

    async def _brokers(self) -> None:
        deadline = time.monotonic() + _TOTAL_SECONDS
        connected = self._connections.any_connected()
        if connected:
            return
        problem = await self._connect()
        if problem:
            raise LogError(LogState.UNREACHABLE, problem)
        if connected is not None and not await self._all_gone(min(_SECONDS, deadline - time.monotonic())):
            raise LogError(LogState.UNREACHABLE, "No reader of a change log is connected to a broker.")

    async def _all_gone(self, seconds: float) -> bool:
        """Whether the logs whose readers have no connection do not exist any more. Without an answer in time: False."""
        try:
            async with asyncio.timeout(seconds):
                return all(await asyncio.gather(*map(self._gone, self._connections.disconnected()[:_ASKED])))
        except TimeoutError:
            return False

    async def _connect(self) -> str:
        """Connects to the first broker that listens; returns "", or why no broker does."""
        problems = []
        for host, port in self._hosts:
            try:
                async with asyncio.timeout(_SECONDS / len(self._hosts)):
                    _, writer = await asyncio.open_connection(host, port)
            except TimeoutError:
                problems.append(f"{host}:{port} does not answer")
            except OSError as error:
                problems.append(f"{host}:{port}: {error.strerror or error}")
            else:
                writer.close()
                with contextlib.suppress(OSError):
                    await writer.wait_closed()
                return ""
        return f"No broker can be reached ({'; '.join(problems)})."


def _hosts(service_url: str) -> list[tuple[str, int]]:
    scheme, _, rest = service_url.partition("://")
    found = []
    for each in rest.partition("/")[0].split(","):
        parts = urlsplit(f"//{each.strip()}")
        if parts.hostname:
            found.append((parts.hostname, parts.port or _PORTS.get(scheme, 6650)))
    return found
