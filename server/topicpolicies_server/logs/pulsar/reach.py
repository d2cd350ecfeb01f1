"""Whether a cluster can be reached: its admin API answers, and a reader has its connection, or, where none is open, a broker listens.

The client library tells nobody that there is no broker: it connects again, for ever. A broker that is stopped where it stands keeps its
connections, and listens; then it is the admin API that does not answer.

A reader whose log was deleted has no connection either, and says nothing of the brokers. So where none is connected though brokers listen,
it is asked whether there still are logs to be connected to.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from ...core.reasons import Reason
from ..change_log import LogError
from .admin import Admin
from .contacts import Contacts

_SECONDS = 3.0
"""How long an answer may take."""
_ASKED = 4
"""After so many logs it is asked whether they are gone. Those that are come to be closed, so others are asked then."""
_PORTS = {"pulsar": 6650, "pulsar+ssl": 6651}


class Reach:
    """Asks one cluster."""

    def __init__(self, service_url: str, admin: Admin, contacts: Contacts, gone: Callable[[str], Awaitable[bool]]) -> None:
        """Asks nothing yet.

        Args:
            service_url: where brokers are reached; several hosts are separated by commas.
            admin: their admin API.
            contacts: the connections that there are.
            gone: asks whether a namespace's log, which is open, is not there any more.
        """
        self._hosts = _hosts(service_url)
        self._admin = admin
        self._contacts = contacts
        self._gone = gone

    async def ask(self) -> None:
        """Returns when the cluster has answered.

        Raises:
            LogError: it can't be reached: ``LOG_UNREACHABLE`` if brokers can't, else as the admin API says.
        """
        brokers, admin = await asyncio.gather(self._brokers(), self._admin.reached(_SECONDS), return_exceptions=True)
        for answer in (brokers, admin):
            if isinstance(answer, BaseException):
                raise answer

    async def _brokers(self) -> None:
        connected = self._contacts.connected()
        if connected:
            return
        problem = await self._connect()
        if problem:
            raise LogError(Reason.LOG_UNREACHABLE, problem)
        if connected is not None and not await self._all_gone():
            raise LogError(Reason.LOG_UNREACHABLE, "No reader of a change log has its connection to a broker.")

    async def _all_gone(self) -> bool:
        """Whether the logs whose readers have no connection are not there any more. What brokers do not say is taken for a no."""
        try:
            async with asyncio.timeout(_SECONDS):
                for namespace in self._contacts.without()[:_ASKED]:
                    if not await self._gone(namespace):
                        return False
        except (LogError, TimeoutError):
            return False
        return True

    async def _connect(self) -> str:
        """Connects to the first broker that listens; why none does, if so."""
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
        return f"No broker is reached ({'; '.join(problems)})."


def _hosts(service_url: str) -> list[tuple[str, int]]:
    scheme, _, rest = service_url.partition("://")
    found = []
    for each in rest.partition("/")[0].split(","):
        parts = urlsplit(f"//{each.strip()}")
        if parts.hostname:
            found.append((parts.hostname, parts.port or _PORTS.get(scheme, 6650)))
    return found
