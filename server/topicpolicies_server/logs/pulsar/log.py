"""The change logs of all namespaces of a Pulsar cluster."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Callable

from ...core.errors import Kind
from ...core.names import CHANGE_EVENTS
from ...core.reasons import LogState, Reason
from ..change_log import Connections, LogError, LogSink, Start, already_open
from .access import Access
from .admin import Admin
from .admin.facts import PulsarFacts, learn
from .admin.topics import Topics
from .broker_connections import BrokerConnections
from .client import PulsarClient
from .credentials import Identity, TlsOptions
from .health_checks import Checked, HealthChecks
from .limits import PulsarLimits
from .namespace_log import PulsarNamespaceLog
from .reach import Reach
from .upgrades import Upgrades, same_for_logs

_CHECK_SECONDS = 1.0
_REMARK_SECONDS = 0.4
"""How long to ask for the facts once the cluster has been reached, within the time that ``reach`` may take."""


class PulsarLog:
    """The change logs of a cluster (``change_log.ChangeLog``). An instance belongs to the event loop and the process that first use it."""

    def __init__(
        self,
        service_url: str,
        admin_url: str,
        *,
        token: Identity | None = None,
        tls: TlsOptions | None = None,
        cluster: str = "",
        topic: str = CHANGE_EVENTS,
        limits: PulsarLimits | None = None,
        advertised: Callable[[], str] | None = None,
    ) -> None:
        """Connects to nothing before the first ``open`` or ``reach``.

        Args:
            service_url: ``pulsar://host:port`` or ``pulsar+ssl://host:port``; several hosts are separated by commas.
            admin_url: ``http://host:port`` or ``https://host:port`` of the brokers' admin API; several hosts likewise.
            token: authenticates the sidecar at both.
            tls: how to verify brokers' certificates.
            cluster: the cluster's name; by default the brokers are asked, which may not be able to tell.
            topic: the local name of the logs' topics. A name other than the brokers' own is for a sidecar that brokers with
                ``systemTopicEnabled`` use as their policies service; such a topic is an ordinary one, and keeps only what its namespace's
                retention or compaction threshold says.
            limits: timeouts and bounds.
            advertised: if given, each log has one writer at a time (PIP-68); returns where clients reach this process, and is called when a
                log is opened.
        """
        self._service_url = service_url
        self._admin_url = admin_url
        self._token = token
        self._tls = tls
        self._cluster = cluster
        self._topic = topic
        self._limits = limits or PulsarLimits()
        self._advertised = advertised
        self._admin: Admin | None = None
        self._client: PulsarClient | None = None
        self._upgrades: Upgrades | None = None
        self._topics: Topics | None = None
        self._connections = BrokerConnections()
        self._reach: Reach | None = None
        self._asking = asyncio.Lock()
        self._logs: dict[str, PulsarNamespaceLog | None] = {}
        self._starting: set[PulsarNamespaceLog] = set()
        """Logs whose opening is under way: they are compared with the newest facts when it has ended."""
        self._checks: HealthChecks | None = None
        self._closed = False

    async def open(self, namespace: str, sink: LogSink, start: Start | None = None) -> PulsarNamespaceLog:
        """Opens the log of ``tenant/namespace`` (see ``change_log.ChangeLog.open``)."""
        if self._closed:
            raise LogError(Reason.LOG_UNAVAILABLE, "The change log is closed.")
        if namespace in self._logs:
            raise already_open(namespace)
        self._logs[namespace] = None
        try:
            log, exists = await self._found(namespace, sink)
        except BaseException:
            del self._logs[namespace]
            raise
        self._logs[namespace] = log  # from here on closing it gives the name back
        return await self._started(log, start, exists=exists)

    async def reach(self) -> str:
        """Returns when the cluster has answered (see ``change_log.Reached``), and why brokers do not read all change logs."""
        if self._closed:
            raise LogError(Reason.LOG_UNAVAILABLE, "The change log is closed.")
        self._begin()
        assert self._reach is not None and self._upgrades is not None, "begun"
        await self._reach.ask()
        with contextlib.suppress(LogError, TimeoutError):  # what can't be learned now is reported where a log is opened
            async with asyncio.timeout(_REMARK_SECONDS):
                return (await self._upgrades.facts()).unread
        return ""

    def cut_off(self, error: LogError) -> None:
        """Fails the events that wait for a producer."""
        self._connections.cut_off(error)

    def connections(self) -> Connections:
        """How many open logs have their connections (see ``change_log.Connected``)."""
        return self._connections.counts()

    async def close(self) -> None:
        """Closes the open logs and the clients, in bounded time."""
        self._closed = True
        if self._checks is not None:
            await self._checks.stop()
        await asyncio.gather(*(log.close() for log in self._open_logs()))
        if self._client is not None:
            await self._client.close(self._limits.close_seconds)
        if self._admin is not None:
            await self._admin.close()

    async def _found(self, namespace: str, sink: LogSink) -> tuple[PulsarNamespaceLog, bool]:
        """Returns the log of a namespace, not started, and whether it exists."""
        access = await self._access()
        layout = await access.topics.find(namespace)
        exists = layout is not None
        facts = access.facts
        if facts.unread and not (exists and facts.reads_existing):
            raise LogError(Reason.TOPIC_POLICIES_ELSEWHERE, facts.unread, kind=Kind.FAILED_PRECONDITION)
        if layout is None:
            layout = await access.topics.expected(namespace, facts.default_partitions)
        return PulsarNamespaceLog(access, layout, sink, self._forget), exists

    async def _started(self, log: PulsarNamespaceLog, start: Start | None, *, exists: bool) -> PulsarNamespaceLog:
        """Starts a log and returns it, or closes it."""
        self._starting.add(log)
        try:
            await log.start(start, exists=exists)
        except BaseException:
            await log.close()
            raise
        finally:
            self._starting.discard(log)
        if self._closed:
            await log.close()
            raise LogError(Reason.LOG_UNAVAILABLE, "The change log is closed.")
        if self._upgrades is not None and not self._upgrades.are_right_for(log.facts):
            await log.close()
            raise _upgraded(log.namespace)
        return log

    def _begin(self) -> None:
        """Creates the clients for the brokers, unless they exist. Nothing is connected yet.

        Raises:
            LogError: a TLS file can't be used.
        """
        if self._reach is not None:
            return
        try:
            admin = Admin(self._admin_url, token=self._token, tls=self._tls)
        except OSError as error:
            raise LogError(
                Reason.CLUSTER_UNAVAILABLE, f"A TLS file for Pulsar can't be used: {error}.", kind=Kind.FAILED_PRECONDITION
            ) from error
        self._admin = admin
        self._topics = Topics(admin, self._topic)
        self._client = PulsarClient(self._service_url, token=self._token, tls=self._tls)
        self._upgrades = Upgrades(
            functools.partial(learn, admin, self._service_url, cluster=self._cluster),
            self._reopen_for,
            every_seconds=self._limits.facts_seconds,
            soonest_seconds=self._limits.creation_seconds,
        )
        self._checks = HealthChecks(self._checked, every_seconds=min(_CHECK_SECONDS, self._limits.creation_seconds))
        self._checks.start()
        self._reach = Reach(self._service_url, admin, self._connections, self._gone)

    async def _access(self) -> Access:
        async with self._asking:
            self._begin()
            assert self._admin is not None and self._topics is not None and self._client is not None and self._upgrades is not None, "begun"
            facts = await self._upgrades.facts()
            ways = (
                self._client,
                self._admin,
                self._topics,
                facts,
                self._limits,
                self._advertised,
                self._upgrades.invalidate,
            )
            return Access(*ways, self._connections)

    def _checked(self) -> list[Checked]:
        logs = self._open_logs()
        return [*logs, self._upgrades] if logs and self._upgrades is not None else [*logs]

    def _reopen_for(self, facts: PulsarFacts) -> None:
        """Ends the logs that were opened for other facts, because they write another dialect than their brokers read."""
        for log in self._open_logs():
            if log not in self._starting and not same_for_logs(log.facts, facts):
                asyncio.get_running_loop().call_soon(log.lost, _upgraded(log.namespace))  # separate calls, because one may fail

    def _open_logs(self) -> list[PulsarNamespaceLog]:
        return [log for log in self._logs.values() if log is not None]

    def _forget(self, log: PulsarNamespaceLog) -> None:
        if self._logs.get(log.namespace) is log:
            del self._logs[log.namespace]
            if not log.out_of_reach:
                self._connections.forget(log.namespace)

    async def _gone(self, namespace: str) -> bool:
        """Checks the open log of a namespace; returns whether it does not exist any more, and so was lost."""
        log = self._logs.get(namespace)
        if log is None:  # it was lost because it was out of reach: otherwise ``connections`` would not list it any more
            return False
        assert self._checks is not None, "begun"
        await self._checks.look_after(log)
        return not log.out_of_reach


def _upgraded(namespace: str) -> LogError:
    return LogError(LogState.LOST, f"The brokers of {namespace} have another version or configuration now; its log is opened again.")
