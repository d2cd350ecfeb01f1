"""The change logs of all namespaces of a Pulsar cluster, and whether the cluster can be reached.

It can be reached if its admin API answers, and a reader has its connection or, if no log is open, a broker listens. The client library
reports no lost broker: it connects again, for ever. A broker process that is suspended keeps its connections and its listening sockets;
then it is the admin API that does not answer.

A reader whose log was deleted, or deleted and created again, has no connection either, which says nothing about the brokers. So if no
reader is connected although brokers listen, the logs are checked: those that do not exist any more, or were replaced, are lost then and do
not count any more.

**From time to time** each open log is checked, and the facts about the cluster are requested again. Looks at connections are made in the
task of the rounds itself. A check that asks brokers is a task of its own, at most one per log. The log that has been due longest is first,
and at most ``_PER_SECOND`` checks are begun in a second, for each is a few requests. A check that fails is logged if the log was well
before.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from urllib.parse import urlsplit
from weakref import WeakSet

from ...config import Limits, PulsarLogConfig, Writer
from ...core.errors import Kind
from ...core.reasons import LogState, Reason
from ...tasks import RestartedTask, TaskSet, asked_to_end
from ..change_log import Connections, LogError, LogSink, Start, already_open
from .admin import Admin
from .brokers import Brokers, PulsarLimits
from .client import PulsarClient
from .credentials import TlsOptions, TokenSource, tls_of, token_of
from .facts import PulsarFacts, learn
from .namespace_log import PulsarNamespaceLog
from .topics import Topics

_log = logging.getLogger(__name__)

_ROUND_SECONDS = 1.0
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
_BROKERS_SECONDS = 3.5
"""How long all answers of brokers to that may take together: less than the caller waits (``readiness``)."""
_ASKED = 4
"""How many logs without a connection are checked at once. Those that turn out to be gone do not count for the next call."""
_PORTS = {"pulsar": 6650, "pulsar+ssl": 6651}


class PulsarLog:
    """The change logs of a cluster (``change_log.ChangeLog``). An instance belongs to the event loop and the process that first use it."""

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
        self._admin = Admin(admin_url, token=token, tls=tls)
        self._topics = Topics(self._admin)
        self._client = PulsarClient(service_url, token=token, tls=tls)
        self._facts: PulsarFacts | None = None
        """The newest facts about the cluster; None: none are known yet."""
        self._facts_due_at = 0.0
        """When they are requested again, in monotonic seconds."""
        self._learning = asyncio.Lock()
        self._logs: dict[str, PulsarNamespaceLog | None] = {}
        self._starting: set[PulsarNamespaceLog] = set()
        """Logs whose opening is under way: they are compared with the newest facts when it has ended."""
        self._checking: set[PulsarNamespaceLog] = set()
        self._troubled: WeakSet[PulsarNamespaceLog] = WeakSet()
        """Logs of which a look or a check has failed since the last check that did not."""
        self._round_seconds = min(_ROUND_SECONDS, self._limits.creation_seconds)
        self._rounds = RestartedTask("Checking change logs", self._check_for_ever)
        self._tasks = TaskSet("Checking what change logs need")
        self._closed = False

    async def open(self, namespace: str, sink: LogSink, start: Start | None = None) -> PulsarNamespaceLog:
        """Opens the log of ``tenant/namespace`` (see ``change_log.ChangeLog.open``)."""
        self._make_sure_it_is_open()
        self._rounds.start()
        if namespace in self._logs:
            raise already_open(namespace)
        self._logs[namespace] = None
        try:
            log, exists = await self._found(namespace, sink)
        except BaseException:
            del self._logs[namespace]
            raise
        self._logs[namespace] = log  # from here on closing it gives the name back
        self._starting.add(log)
        try:
            await log.start(start, exists=exists)
            self._make_sure_it_is_open()
            if not log.facts.fits(self._facts):
                raise _upgraded(namespace)
        except BaseException:
            await log.close()
            raise
        finally:
            self._starting.discard(log)
        return log

    async def reach(self) -> str:
        """Returns when the cluster has answered (see ``change_log.ChangeLog.reach``), and why brokers do not read all change logs."""
        self._make_sure_it_is_open()
        answers = await asyncio.gather(self._reach_brokers(), self._admin.reached(_ANSWER_SECONDS), return_exceptions=True)
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
        connected = self._connected().values()
        return Connections(len(connected), sum(all(each) for each in connected))

    async def close(self) -> None:
        """Closes the open logs and the clients, in bounded time."""
        self._closed = True
        await self._rounds.stop()
        await self._tasks.close()
        await asyncio.gather(*(log.close() for log in self._open_logs()))
        await self._client.close(self._limits.close_seconds)
        await self._admin.close()

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
        brokers = Brokers(self._client, self._admin, self._topics, facts, self._limits, self._advertised)
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
            facts = self._facts = await learn(self._admin, self._service_url)
            self._facts_due_at = time.monotonic() + self._limits.facts_seconds
        for log in self._open_logs():
            if log not in self._starting and not log.facts.fits(facts):
                asyncio.get_running_loop().call_soon(log.lost, _upgraded(log.namespace))  # separate calls, because one may fail
        return facts

    def _open_logs(self) -> list[PulsarNamespaceLog]:
        return [log for log in list(self._logs.values()) if log is not None]

    def _forget(self, log: PulsarNamespaceLog) -> None:
        if self._logs.get(log.namespace) is log:
            del self._logs[log.namespace]

    # What is done from time to time

    async def _check_for_ever(self) -> None:
        next_round = time.monotonic() + self._round_seconds
        allowed = 0.0
        while True:
            pause = max(_LOOK_SECONDS, min(len(self._logs) / _LOOKS_PER_SECOND, _RAREST_LOOK_SECONDS))
            await asyncio.sleep(min(pause, self._round_seconds))
            logs, now = self._open_logs(), time.monotonic()
            whole = now >= next_round
            due = [(at, number) for number, log in enumerate(logs) if (at := self._look(log, whole=whole)) <= now]
            if not whole:
                continue
            next_round = now + self._round_seconds
            if logs and self._facts is not None and now >= self._facts_due_at and not self._learning.locked():
                self._tasks.begin(self._renew_facts(), "the facts about the cluster")
            most = _PER_SECOND * self._round_seconds
            allowed = min(allowed + most, max(most, 1.0))
            for _, number in sorted(due)[: int(allowed)]:
                allowed -= 1
                self._checking.add(logs[number])
                self._tasks.begin(self._check(logs[number]), "a check")

    def _look(self, log: PulsarNamespaceLog, *, whole: bool) -> float:
        """Looks at a log; returns when it is to be checked, if ``whole``, in monotonic seconds."""
        try:
            log.check_connection()
            if whole:
                log.close_idle()
                if log not in self._checking:
                    return log.due_at()
        except Exception as error:  # noqa: BLE001 (one log's trouble must not end the rounds of the others)
            self._note_failure(log, error)
        return float("inf")

    async def _check(self, log: PulsarNamespaceLog) -> None:
        try:
            await log.check()
        except (Exception, asyncio.CancelledError) as error:  # one log's trouble must not end the checks of the others
            if asked_to_end(error):
                raise
            self._note_failure(log, error)
        else:
            self._troubled.discard(log)
        finally:
            self._checking.discard(log)

    def _note_failure(self, log: PulsarNamespaceLog, error: BaseException) -> None:
        if log not in self._troubled:
            self._troubled.add(log)
            _log.error("Checking the change log of %s failed", log.namespace, exc_info=error)

    async def _renew_facts(self) -> None:
        with contextlib.suppress(LogError):  # what was known stays valid, and callers that open logs get the error
            await self._current_facts()

    # Whether the cluster can be reached

    def _connected(self) -> dict[PulsarNamespaceLog, tuple[bool, ...]]:
        return {log: connected for log in self._open_logs() if (connected := log.connected)}

    async def _reach_brokers(self) -> None:
        deadline = time.monotonic() + _BROKERS_SECONDS
        connected = self._connected()
        if any(map(any, connected.values())):
            return
        problem = await _connect(_hosts(self._service_url))
        if problem:
            raise LogError(LogState.UNREACHABLE, problem)
        try:
            async with asyncio.timeout(min(_ANSWER_SECONDS, deadline - time.monotonic())):
                some = [*connected][:_ASKED]
                await asyncio.gather(*(log.check() for log in some))
                if not any(log.out_of_reach for log in some):
                    return
        except TimeoutError:
            pass
        raise LogError(LogState.UNREACHABLE, "No reader of a change log is connected to a broker.")


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


def pulsar_log(config: PulsarLogConfig, limits: Limits, advertised: Callable[[], str] | None = None) -> PulsarLog:
    """Returns the change logs of a cluster. Nothing is connected yet.

    ``advertised`` returns where clients reach this process; None: this process never writes, so it never is the one writer of a log.
    """
    exclusive = config.writer is Writer.EXCLUSIVE
    return PulsarLog(
        config.service_url,
        config.admin_url,
        token=token_of(config),
        tls=tls_of(config),
        limits=PulsarLimits(recalled=config.recalled_entries, in_flight=limits.max_in_flight_per_namespace),
        advertised=advertised if exclusive else None,
    )
