"""The server: the log, the namespaces and gRPC, from the first accepted call to the last answered one."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Self

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc
from grpc_reflection.v1alpha._async import ReflectionServicer

from ..access.authority import ByRoles
from ..access.deciding import open_authority
from ..access.opening import Opened
from ..checkpoints import Checkpoints, open_checkpoints
from ..cluster.admission import Admission
from ..cluster.opening import open_admission
from ..config import EmbeddedLogConfig, HistoryConfig, Limits, LogConfig, PulsarLogConfig, Recorded, ServerConfig, insecure
from ..core.fold.fold import FoldContext
from ..guard import Guard, tell_of_healing
from ..health import LogWatch, Pulse, Readiness, report
from ..history import Bounds, History, open_history
from ..logs.change_log import ChangeLog
from ..metrics import CallCounts, Endpoint, ServerCollector
from ..namespaces.registry import Registry
from ..rereading import Rereading
from .calls import Calls, Door, Observer
from .certificates import Certificates
from .decoding import RECEIVED_TIMES
from .expiring import Expiring
from .handlers import Others, handlers
from .health import HealthService
from .identifying import Identifying
from .info import info
from .journal import Journal
from .permitting import Permitting
from .rationing import ration
from .servicer import SERVICE, Servicer
from .stopping import stop_calls
from .watching.warrants import Warrants

if TYPE_CHECKING:
    from ..logs.pulsar.admin import Admin

_LOG = logging.getLogger(__name__)
_LEAST_PENDING = 3_000
"""Calls that may have arrived and not begun: gRPC's own hard limit."""


class Server:
    """A running server (``process.Service``). ``async with Server(config) as server: ...`` starts and stops it."""

    def __init__(self, config: ServerConfig) -> None:
        """``config``: everything that it is told."""
        self.config = config
        self.address = str(config.listen)
        """Where it listens; with the port that the system chose, once started."""
        self.rereading = Rereading()
        """What it reads anew while it runs: whoever depends on a file says so there."""
        self._log: ChangeLog | None = None
        self._registry: Registry | None = None
        self._history: History | None = None
        self._checkpoints: Checkpoints | None = None
        self._servicer: Servicer | None = None
        self._admission: Admission | None = None
        self._authority: ByRoles | None = None
        self._guard: Guard | None = None
        self._guard_admin: Admin | None = None
        self._opened: Opened | None = None
        self._metrics: Endpoint | None = None
        self._counts = CallCounts() if config.metrics_listen is not None else None
        self._watch: LogWatch | None = None
        self._pulse: Pulse | None = None
        self._journal: Journal | None = None
        self._grpc: grpc.aio.Server | None = None

    @property
    def registry(self) -> Registry:
        """The namespaces."""
        assert self._registry is not None, "started"
        return self._registry

    @property
    def calls(self) -> Calls:
        """The calls in progress."""
        assert self._servicer is not None, "started"
        return self._servicer.calls

    @property
    def readiness(self) -> Readiness:
        """Whether it is ready."""
        assert self._watch is not None, "started"
        return self._watch.readiness

    @property
    def warrants(self) -> Warrants | None:
        """What open watches need; None: they need nothing."""
        assert self._servicer is not None, "started"
        return self._servicer.warrants

    async def start(self) -> None:
        """Opens the log and listens.

        Raises:
            LogError: the log can't be opened, for example because another process holds the file.
            PolicyError: the history can't be opened, for such a reason, or a key that callers are verified with.
            OSError: the address can't be listened on, or a file can't be used.
        """
        config = self.config
        for warning in config.warnings():
            _LOG.warning("%s", warning)
        self._log = await open_log(config.log, config.limits, lambda: config.advertise or self.address)
        sole_writer = isinstance(config.log, EmbeddedLogConfig)
        context = FoldContext(sole_writer=sole_writer)
        try:
            self._history = _open_history(config.history)
        except BaseException:
            await self._log.close()
            raise
        self._registry = Registry(
            self._log,
            config.limits,
            context,
            read_only=config.read_only,
            pause_repairs=config.pause_repairs,
            history=self._history,
        )
        self._watch = LogWatch(self._log, config.limits.log_patience_seconds)
        self._registry.heed(self._watch.readiness)
        if (kept := config.checkpoints) is not None:
            self._checkpoints = open_checkpoints(kept.path, named_here=kept.named_here)
        if self._checkpoints is not None:
            self._registry.keep_checkpoints(self._checkpoints)
        try:
            calls = Calls(config.limits.max_concurrent_calls, *self._open_doors())
            ration(calls, config.limits)
            self._keep_journal(calls)
            refuses = self._watch.readiness.refuses_waiting
            self._admission = await open_admission(config.log, missing_topics=config.missing_topics, refuses=refuses)
            self._authority = await open_authority(config.authorization, config.log, self.rereading)
        except BaseException:
            await self.stop()
            raise
        admission = self._admission
        permitting = Permitting(self._authority) if self._authority is not None else None
        self._servicer = Servicer(
            self._registry,
            config.limits,
            lambda: info(config, admission),
            calls,
            admission=admission,
            permitting=permitting,
            show_secrets=config.show_secrets,
        )
        limits = config.limits
        self._grpc = grpc.aio.server(
            options=[
                ("grpc.max_receive_message_length", RECEIVED_TIMES * limits.max_message_bytes),
                # Unless told otherwise, gRPC cancels calls of a burst, without a reason, before this limit is met.
                ("grpc.server.max_pending_requests", max(limits.max_concurrent_calls, _LEAST_PENDING)),
                ("grpc.server.max_pending_requests_hard_limit", max(limits.max_concurrent_calls, _LEAST_PENDING)),
                ("grpc.so_reuseport", 0),
                ("grpc.keepalive_time_ms", int(limits.keepalive_seconds * 1000)),
                ("grpc.keepalive_permit_without_calls", 1),
                ("grpc.http2.min_ping_interval_without_data_ms", 5000),
            ],
            maximum_concurrent_rpcs=2 * limits.max_concurrent_calls,  # those beyond the limit are told why
        )
        self._grpc.add_generic_rpc_handlers((handlers(self._servicer, limits.max_message_bytes),))
        others = Others(self._grpc, self._servicer.calls, limits.max_message_bytes)
        health_pb2_grpc.add_HealthServicer_to_server(HealthService(self.readiness, self._registry, SERVICE, permitting), others)
        if config.reflection:
            services = (SERVICE, health_pb2.DESCRIPTOR.services_by_name["Health"].full_name, reflection.SERVICE_NAME)
            reflection_pb2_grpc.add_ServerReflectionServicer_to_server(ReflectionServicer(services), others)
        try:
            self._listen(self._grpc)
            await self._watch.start()
            await self._grpc.start()
            for sentence in insecure(config):
                _LOG.warning("insecure: %s", sentence)
            self._guard_and_show(config, self._registry)
            self.rereading.start()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stops gracefully: no new calls, watches end with a bookmark, what was accepted is finished, then the log is closed."""
        async with contextlib.AsyncExitStack() as steps:  # the last one first, and each of them whatever becomes of the others
            log = (self._checkpoints, self._history, self._log, self._registry)
            for part in (self._opened, self._guard_admin, self._authority, self._admission, *log):
                if part is not None:
                    steps.push_async_callback(part.close)
            if self._journal is not None:
                steps.push_async_callback(asyncio.to_thread, self._journal.close)
            steps.push_async_callback(self.rereading.close)
            if self._guard is not None:
                steps.push_async_callback(self._guard.stop)
            if self._metrics is not None:
                steps.push_async_callback(self._metrics.close)
            if self._grpc is not None and self._servicer is not None:
                steps.push_async_callback(stop_calls, self._grpc, self._servicer, self.config.limits.drain_seconds)
            if self._pulse is not None:
                self._pulse.stop()
            if self._watch is not None:
                steps.push_async_callback(self._watch.stop)
                self._watch.readiness.drained(time.monotonic())

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def _open_doors(self) -> tuple[list[Door], list[Observer]]:
        """What every call passes, and who is told of it."""
        if not self.config.authentication.asks:
            return [], []
        self._opened = Opened(self.config.authentication)
        for source in self._opened.sources:
            self.rereading.add(*source)
        expiring = Expiring()
        return [Identifying(self._opened.identification), expiring], [expiring]

    def _keep_journal(self, calls: Calls) -> None:
        """Counts calls, and records them, if that was asked for."""
        if self._counts is not None:
            calls.observers += (self._counts,)
        if self.config.call_record.which is not Recorded.OFF:
            self._journal = Journal(self.config.call_record, self.config.log_format)
            calls.observers += (self._journal,)
            calls.change_observers += (self._journal,)

    def _guard_and_show(self, config: ServerConfig, registry: Registry) -> None:
        if config.guard and isinstance(config.log, PulsarLogConfig):
            from ..guard.discovery import discovery  # noqa: PLC0415 - as in open_log
            from ..logs.pulsar.opening import admin_api  # noqa: PLC0415

            self._guard_admin = admin_api(config.log)
            self._guard = Guard(registry, discovery(self._guard_admin, config.guard, config.limits))
            registry.activity.on_repair = tell_of_healing
            self._guard.start()
        if config.metrics_listen is not None:
            readiness, pulse = self.readiness, Pulse()
            if self._counts is not None and self._servicer is not None:
                self._counts.watches, self._counts.unread_seconds = self._servicer.watch_records, self.calls.unread_seconds
            self._pulse = pulse
            self._metrics = Endpoint(
                config.metrics_listen, ServerCollector(registry, self._guard, self._counts), lambda: report(readiness, pulse)
            )
            _LOG.info("metrics at http://%s/metrics", self._metrics.address)

    def _listen(self, server: grpc.aio.Server) -> None:
        config = self.config
        if config.tls is not None:
            certificates = Certificates(config.tls)
            port = server.add_secure_port(str(config.listen), certificates.credentials())
            certificates.follow(self.rereading)
        else:
            port = server.add_insecure_port(str(config.listen))
        if not config.listen.path:
            self.address = str(config.listen._replace(port=port))


def _open_history(config: HistoryConfig | None) -> History | None:
    if config is None:
        return None
    return open_history(config.path, Bounds(config.max_age_seconds, config.max_bytes))


async def open_log(config: LogConfig, limits: Limits, advertised: Callable[[], str]) -> ChangeLog:
    """The change log that a configuration names. Each backend is imported only where it is used.

    Args:
        config: which, and how.
        limits: how much may be in flight.
        advertised: where clients reach this server, asked for when it has begun to listen.

    Raises:
        LogError: it can't be opened.
    """
    if isinstance(config, PulsarLogConfig):
        from ..logs.pulsar.opening import pulsar_log  # noqa: PLC0415

        return pulsar_log(config, limits, advertised)
    if config.path is None:
        from ..logs.memory import MemoryLog  # noqa: PLC0415

        return MemoryLog(in_flight_limit=limits.max_in_flight_per_namespace)
    from ..logs.sqlite import Compaction, SqliteLog  # noqa: PLC0415

    log = SqliteLog(
        config.path,
        compaction=Compaction(
            retention_ms=int(limits.retention_seconds * 1000),
            retained=limits.max_retained_events,
            retained_bytes=limits.max_retained_bytes,
        ),
        in_flight_limit=limits.max_in_flight_per_namespace,
        in_flight_bytes=limits.max_in_flight_bytes,
    )
    await log.start()
    return log
