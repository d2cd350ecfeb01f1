"""The change logs of all namespaces of a Pulsar cluster, and whether the cluster can be reached.

It can be reached if its admin API answers, and a reader has its connection or a broker listens. (A broker process that is suspended keeps
its connections and its listening sockets; then it is the admin API that does not answer.)

**From time to time** each open log is checked, and the facts about the cluster are requested again. One task looks at the connections of
all logs. A check, which asks brokers a few questions, is a task of its own. The log that was checked the longest time ago is first, and at
most ``_PER_SECOND`` checks are begun in a second.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from operator import attrgetter
from urllib.parse import urlsplit

from ...config import PulsarLogConfig
from ...core.errors import Kind
from ...core.reasons import LogState, Reason
from ...tasks import RestartedTask, TaskSet
from ..change_log import Connections, LogError, LogSink, Start, already_open
from .admin import Admin
from .brokers import Brokers, PulsarLimits
from .client import PulsarClient
from .credentials import TlsOptions, TokenSource, tls_of, token_of
from .facts import PulsarFacts, learn
from .namespace_log import PulsarNamespaceLog
from .topics import Topics

_log = logging.getLogger(__name__)

_PER_SECOND = 30
"""Checks begun per second, for all logs together."""
_LOOK_SECONDS = 0.08
_LOOKS_PER_SECOND = 2_500
"""Looks at connections per second, for all logs together: with more than 200 logs, each is looked at more rarely."""
_RAREST_LOOK_SECONDS = 1.0
_REMARK_SECONDS = 0.4
"""How long to ask for the facts once the cluster has been reached, within the time that ``reach`` may take."""
_ANSWER_SECONDS = 3.0
"""How long one answer may take when it is asked whether the cluster can be reached."""
_PORTS = {"pulsar": 6650, "pulsar+ssl": 6651}


class PulsarLog:
    """The change logs of a cluster (``change_log.ChangeLogs``). An instance belongs to the event loop and the process that first use it."""

    def __init__(
        self,
        service_url: str,
        admin_url: str,
        *,
        token: TokenSource | None = None,
        tls: TlsOptions | None = None,
        limits: PulsarLimits | None = None,
        advertised: Callable[[], str] | None = None,
    ) -> None:
        """Connects to nothing before the first ``open`` or ``reach``.

        ``service_url`` and ``admin_url`` may name several hosts, separated by commas. ``advertised``: if given, each log has one writer at
        a time (PIP-68); it returns where clients reach this process, and is called when a log is opened.

        Raises:
            LogError: a file of ``tls`` can't be used (FAILED_PRECONDITION).
        """
        self._service_url = service_url
        self._limits = limits or PulsarLimits()
        self._advertised = advertised
        self.admin = Admin(admin_url, token=token, tls=tls)
        """The client of the brokers' admin API, for all of the process. It is closed with the log."""
        self._topics = Topics(self.admin)
        self._client = PulsarClient(service_url, token=token, tls=tls)
        self._facts: PulsarFacts | None = None
        """The newest facts about the cluster; None: none are known yet."""
        self._facts_due_at = 0.0
        """When they are requested again, in monotonic seconds."""
        self._learning = asyncio.Lock()
        self._logs: dict[str, PulsarNamespaceLog | None] = {}
        """By namespace; None: the opening is under way."""
        self._looking = RestartedTask("Looking at change logs", self._look_for_ever)
        self._tasks = TaskSet("The change logs of Pulsar")
        self._closed = False

    async def open(self, namespace: str, sink: LogSink, start: Start | None = None) -> PulsarNamespaceLog:
        """Opens the log of ``tenant/namespace`` (see ``change_log.ChangeLogs.open``)."""
        self._make_sure_it_is_open()
        self._looking.start()
        if namespace in self._logs:
            raise already_open(namespace)
        self._logs[namespace] = None
        try:
            log, exists = await self._found(namespace, sink)
            try:
                await log.start(start, exists=exists)
                self._make_sure_it_is_open()
                if not log.facts.fits(self._facts):
                    raise _upgraded(namespace)
            except BaseException:
                await log.close()
                raise
        except BaseException:
            del self._logs[namespace]
            raise
        self._logs[namespace] = log  # from here on, its end gives the name back
        return log

    async def reach(self) -> str:
        """Returns when the cluster has answered (see ``change_log.ChangeLogs.reach``), and why brokers do not read all change logs."""
        self._make_sure_it_is_open()
        answers = await asyncio.gather(self._reach_brokers(), self.admin.reached(_ANSWER_SECONDS), return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
        with contextlib.suppress(LogError, TimeoutError):  # what can't be learned now is reported where a log is opened
            async with asyncio.timeout(_REMARK_SECONDS):
                return (await self._current_facts()).unread
        return ""

    def cut_off(self, error: LogError) -> None:
        """Fails the events that wait for a producer."""
        for log in self._open_logs():
            log.cut_off(error)

    def connections(self) -> Connections:
        """How many open logs have their connections."""
        connected = [each for log in self._open_logs() if (each := log.connected)]
        return Connections(len(connected), sum(map(all, connected)))

    async def close(self) -> None:
        """Closes the open logs and the clients, in bounded time."""
        self._closed = True
        await self._looking.stop()
        await self._tasks.close()
        await asyncio.gather(*(log.close() for log in self._open_logs()))
        await self._client.close(self._limits.close_seconds)
        await self.admin.close()

    def _make_sure_it_is_open(self) -> None:
        if self._closed:
            raise LogError(Reason.LOG_UNAVAILABLE, "The change log is closed.")

    async def _found(self, namespace: str, sink: LogSink) -> tuple[PulsarNamespaceLog, bool]:
        facts = await self._current_facts()
        layout = await self._topics.find(namespace)
        exists = layout is not None
        if facts.unread and not (exists and facts.reads_existing):
            raise LogError(Reason.TOPIC_POLICIES_ELSEWHERE, facts.unread, kind=Kind.FAILED_PRECONDITION)
        if layout is None:
            layout = await self._topics.expected(namespace, facts.default_partitions)
        brokers = Brokers(self._client, self.admin, self._topics, facts, self._limits, self._advertised)
        return PulsarNamespaceLog(brokers, layout, sink, self._forget), exists

    async def _current_facts(self) -> PulsarFacts:
        """Returns the facts about the cluster, which are requested first if they are too old.

        If they have changed, logs that were opened for others are lost: they write another dialect than their brokers read.

        Raises:
            LogError: the cluster gave no answer.
        """
        async with self._learning:
            if self._facts is not None and time.monotonic() < self._facts_due_at:
                return self._facts
            self._facts_due_at = time.monotonic() + min(self._limits.creation_seconds, self._limits.facts_seconds)
            facts = self._facts = await learn(self.admin, self._service_url)
            self._facts_due_at = time.monotonic() + self._limits.facts_seconds
        for log in self._open_logs():
            if not log.facts.fits(facts):
                asyncio.get_running_loop().call_soon(log.lost, _upgraded(log.namespace))  # separate calls, because one may fail
        return facts

    def _open_logs(self) -> list[PulsarNamespaceLog]:
        return [log for log in list(self._logs.values()) if log is not None]

    def _forget(self, log: PulsarNamespaceLog) -> None:
        if self._logs.get(log.namespace) is log:
            del self._logs[log.namespace]

    async def _look_for_ever(self) -> None:
        while True:
            pause = max(_LOOK_SECONDS, min(len(self._logs) / _LOOKS_PER_SECOND, _RAREST_LOOK_SECONDS))
            await asyncio.sleep(pause)
            logs = self._open_logs()
            due = sorted((log for log in logs if log.look()), key=attrgetter("checked"))
            for log in due[: round(_PER_SECOND * pause)]:
                log.begin_check()
            if logs and self._facts is not None and time.monotonic() >= self._facts_due_at and not self._learning.locked():
                self._tasks.begin(self._renew_facts(), "the facts about the cluster")

    async def _renew_facts(self) -> None:
        with contextlib.suppress(LogError):  # what was known stays valid, and callers that open logs get the error
            await self._current_facts()

    async def _reach_brokers(self) -> None:
        if not any(any(log.connected) for log in self._open_logs()) and (problem := await _connect(_hosts(self._service_url))):
            raise LogError(LogState.UNREACHABLE, problem)


async def _connect(hosts: Sequence[tuple[str, int]]) -> str:
    problems = []
    for host, port in hosts:
        try:
            async with asyncio.timeout(_ANSWER_SECONDS / len(hosts)):
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


def _upgraded(namespace: str) -> LogError:
    return LogError(LogState.LOST, f"The brokers of {namespace} have another version or configuration now; its log is opened again.")


def pulsar_log(config: PulsarLogConfig, advertised: Callable[[], str] | None = None) -> PulsarLog:
    """Returns the change logs of a cluster. Nothing is connected yet.

    ``advertised`` returns where clients reach this process; None: this process never writes, so it never is the one writer of a log.
    """
    exclusive = config.writer == "exclusive"
    return PulsarLog(
        config.service_url,
        config.admin_url,
        token=token_of(config),
        tls=tls_of(config),
        limits=PulsarLimits(recalled=config.recalled_entries),
        advertised=advertised if exclusive else None,
    )
