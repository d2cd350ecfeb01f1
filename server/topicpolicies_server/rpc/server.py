"""The server: opens the change log, the namespaces and gRPC in order, and closes them in reverse order.

``Server._open`` wires the whole process together: it shows what is opened, in which order, and what depends on what.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from importlib import metadata
from time import perf_counter
from typing import TYPE_CHECKING, Any, Self

import grpc
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection, reflection_pb2
from grpc_reflection.v1alpha._async import ReflectionServicer

from topicpolicies import Tls
from topicpolicies.v1 import history_pb2, service_pb2

from ..access import Caller
from ..access.grants import Grants, open_roles
from ..checkpoints import Checkpoints
from ..cluster.cluster import Cluster, open_cluster
from ..config import Address, EmbeddedLogConfig, Limits, LogConfig, PulsarLogConfig, ServerConfig, insecure
from ..core.errors import stopping
from ..core.fold.fold import FoldContext
from ..files import Reloader
from ..history import Bounds, check_history, open_history
from ..logs.change_log import ChangeLogs
from ..namespaces.registry import Registry
from ..ops.http import Endpoint
from ..ops.metrics import CallCounts, ServerCollector, ServerSources
from ..readiness import Readiness
from . import histories, reads
from .access_log import AccessLog
from .calls import LAST_SECONDS, Call, Calls, Method
from .changes import batch_update_policies, change_policy, end_at_deadline, end_changes
from .dependencies import Dependencies
from .forwarding import Forwarding
from .health import HealthService
from .listening import ServerCertificates, bind, grpc_server, keep_quiet
from .reads import marked
from .watching.history_part import watch_history
from .watching.policy_part import watch_policies
from .watching.stream import WatchStreams

if TYPE_CHECKING:
    from ..access.identification import Identification
    from ..declared.files import Declared
    from ..guard import Guard
    from ..logs.pulsar.admin import Admin

_LOG = logging.getLogger(__name__)
_VERSION = metadata.version("topicpolicies")
POLICIES = service_pb2.DESCRIPTOR.services_by_name["TopicPoliciesService"]
HISTORY = history_pb2.DESCRIPTOR.services_by_name["PolicyHistoryService"]
_HEALTH = health_pb2.DESCRIPTOR.services_by_name["Health"]


class Server:
    """A server of topic policies (``process.Service``). ``async with Server(config) as server: ...`` starts and stops it."""

    registry: Registry
    """The namespaces that are in memory, once the server is started."""
    readiness: Readiness
    """Whether the server is ready, once it is started: the change log can be reached, and the server does not stop."""
    calls: Calls
    """The calls in progress, once the server is started."""
    dependencies: Dependencies
    """What serves the methods, once the server is started."""

    def __init__(self, config: ServerConfig, declared: Sequence[Declared] = ()) -> None:
        """Starts nothing yet. ``declared``: what each owner declares in the files of ``config.declared``."""
        self.config = config
        self._declared = declared
        self.address = str(config.listen)
        """The address that the server listens on; once started, with the port that the system chose."""
        self.metrics_address: Address | None = None
        """The address of metrics and probes, once started; None: they are not served."""
        self.reloader = Reloader()
        """The files that are read again while the server runs. Each part that depends on a file registers it there."""
        self._admin: Admin | None = None
        """The client of the brokers' admin API, which Pulsar's log has, once the log is open; None: there are no brokers."""
        self._opened = contextlib.AsyncExitStack()
        """What is open. It is closed when the server stops, the last part first, each even if the closing of another one fails."""
        self._sources = ServerSources(reloader=self.reloader, limits=config.limits)

    async def start(self) -> None:
        """Opens the log and listens.

        Raises:
            LogError: the log can't be opened, for example because another process holds the file.
            PolicyError: the history can't be opened, for example for the same reason.
            RuntimeError: a file with keys, roles or facts can't be used.
            OSError: the server can't listen on the address, or a file can't be used.
        """
        keep_quiet()
        for sentence in insecure(self.config):
            _LOG.warning("insecure: %s", sentence)
        async with contextlib.AsyncExitStack() as opened:
            await self._open(opened)
            self._opened = opened.pop_all()

    async def _open(self, opened: contextlib.AsyncExitStack) -> None:
        config, limits = self.config, self.config.limits
        self.registry, self.readiness = registry, readiness = await self._open_namespaces(opened)
        self.calls = calls = self._open_calls(opened)
        cluster = open_cluster(config, self._admin, self.reloader, readiness.refuses_waiting)
        if cluster is not None:
            opened.push_async_callback(cluster.close)
        roles = open_roles(config.authorization, self._admin, self.reloader, opened)
        grants = Grants(roles, show_secrets=config.show_secrets)
        self.dependencies = Dependencies(
            registry=registry,
            limits=limits,
            grants=grants,
            watches=WatchStreams(limits.max_watches, grants),
            cluster=cluster,
            forwarding=self._open_forwarding(opened),
        )
        calls.on_deadline = partial(end_at_deadline, self.dependencies)
        opened.push_async_callback(self.reloader.close)
        credentials = None
        if config.tls is not None:
            certificates = ServerCertificates(config.tls)
            certificates.follow(self.reloader)
            self._sources.certificate_ends = lambda: certificates.ends_at
            credentials = certificates.credentials()
        server = grpc_server(limits, mutual_tls=config.tls is not None and config.tls.client_ca_file is not None)
        health = HealthService(readiness, (POLICIES.full_name, HISTORY.full_name))
        of_health: dict[str, Method[Any]] = {"Check": health.check, "List": health.list, "Watch": health.watch}
        server.add_generic_rpc_handlers((*self.services(), calls.serve(_HEALTH, of_health, ours=False)))
        if config.reflection:
            server.add_generic_rpc_handlers((_reflection(calls),))
        opened.push_async_callback(readiness.stop)
        self._show(opened, self._open_guard(opened))  # until all calls have ended
        opened.push_async_callback(_stop_calls, server, calls, self.dependencies.watches, limits.drain_seconds)
        await readiness.start()
        self._open_declared(opened)
        self.address = str(bind(server, config.listen, credentials))
        await server.start()
        self.reloader.start()

    def services(self) -> tuple[grpc.GenericRpcHandler, ...]:
        """Returns the handlers of both services for a gRPC server."""
        dependencies = self.dependencies

        async def get_server_info(dependencies: Dependencies, _message: service_pb2.GetServerInfoRequest, _call: Call) -> bytes:
            return info(self.config, dependencies.cluster).SerializeToString()

        policies: dict[str, Method[Any]] = {
            "UpdatePolicy": partial(change_policy, dependencies),
            "BatchUpdatePolicies": partial(batch_update_policies, dependencies),
            "DeletePolicy": partial(change_policy, dependencies),
            "GetPolicy": marked(reads.get_policy, dependencies),
            "GetEffectivePolicy": marked(reads.get_effective_policy, dependencies),
            "GetServerInfo": marked(get_server_info, dependencies),
            "ListPolicies": marked(reads.list_policies, dependencies),
            "WatchPolicies": partial(watch_policies, dependencies),
        }
        of_history: dict[str, Method[Any]] = {
            "ListHistory": marked(histories.list_history, dependencies),
            "GetPolicyAsOf": marked(histories.get_policy_as_of, dependencies),
            "WatchHistory": partial(watch_history, dependencies),
        }
        return self.calls.serve(POLICIES, policies), self.calls.serve(HISTORY, of_history)

    async def stop(self) -> None:
        """Stops gracefully: refuses new calls, ends watches with a bookmark, finishes accepted changes, then closes the log."""
        self.readiness.drained()
        await self._opened.aclose()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def _open_namespaces(self, opened: contextlib.AsyncExitStack) -> tuple[Registry, Readiness]:
        """Opens the log, the history and the checkpoints, and returns the namespaces and what watches whether the log can be reached."""
        config, limits = self.config, self.config.limits
        advertised = None if config.read_only else lambda: str(config.advertise or self.address)  # who writes nothing must not lead
        if (recorded := config.history) is not None:
            check_history(recorded.path)  # before the log is opened: a start that is refused changes nothing
        log = await open_log(config.log, limits, advertised)
        opened.push_async_callback(log.close)
        self._admin = getattr(log, "admin", None)
        history = None
        if recorded is not None:
            history = open_history(recorded.path, Bounds(recorded.days * 86_400.0, recorded.megabytes << 20))
            opened.push_async_callback(history.close)
        context = FoldContext(sole_writer=isinstance(config.log, EmbeddedLogConfig))
        readiness = Readiness(limits.log_patience_seconds, log)
        checkpoints = None
        if config.checkpoints is not None:
            checkpoints = Checkpoints(config.checkpoints)
            opened.push_async_callback(checkpoints.close)
        registry = Registry(
            log,
            limits,
            context,
            read_only=config.read_only,
            pause_repairs=config.pause_repairs,
            history=history,
            readiness=readiness,
            checkpoints=checkpoints,
        )
        opened.push_async_callback(registry.close)
        return registry, readiness

    def _open_calls(self, opened: contextlib.AsyncExitStack) -> Calls:
        """Returns the calls in progress (none yet), with what identifies their callers and who observes them."""
        config = self.config
        calls = Calls(config.limits)
        if config.authentication.enabled:
            from ..access.identification import open_identification  # noqa: PLC0415 - as in open_log

            identification = open_identification(config.authentication, self.reloader)
            opened.push_async_callback(identification.close)
            self._sources.issuers = identification.issuers.values()
            calls.identify = partial(_identify, identification)
        if config.access_log.which != "off":
            access_log = AccessLog(config.access_log, config.log_format)
            self._sources.unrecorded = lambda: access_log.lost
            opened.push_async_callback(asyncio.to_thread, access_log.close)
            calls.observers = (access_log.ended,)
        return calls

    def _open_forwarding(self, opened: contextlib.AsyncExitStack) -> Forwarding | None:
        config = self.config
        if not config.exclusive:
            return None
        from ..logs.pulsar.credentials import token_from_file  # noqa: PLC0415 - as in open_log

        token = token_from_file(config.peer_token_file) if config.peer_token_file is not None else str
        tls = None
        if (own := config.tls) is not None:  # which other sidecars are assumed to have too
            trusted = config.peer_trust_certs_file or own.client_ca_file
            tls = Tls(ca_file=trusted, certificate_file=own.certificate_file, key_file=own.key_file)
        forwarding = Forwarding(config.limits.update_timeout_seconds, tls=tls, token=token)
        opened.push_async_callback(forwarding.close)
        return forwarding

    def _open_guard(self, opened: contextlib.AsyncExitStack) -> Guard | None:
        if not self.config.guard or self._admin is None:
            return None
        from ..guard import Guard  # noqa: PLC0415 - as in open_log

        guard = Guard(self.registry, self._admin, self.config.guard)
        guard.start()
        opened.push_async_callback(guard.stop)
        return guard

    def _open_declared(self, opened: contextlib.AsyncExitStack) -> None:
        """Compares documents with the declared policies, and puts them in the way of changes, if there are any."""
        if self.config.declared is None:
            return
        from ..declared.drift import Drift  # noqa: PLC0415 - YAML is not needed to serve

        drift = Drift(self.registry, self.dependencies.cluster, self.config.declared, self._declared, enforce=self.config.enforce)
        self.dependencies.constraints_of = drift.constraints_of
        self._sources.drift = drift.by_namespace
        drift.start(self.reloader)
        opened.push_async_callback(drift.stop)

    def _show(self, opened: contextlib.AsyncExitStack, guard: Guard | None) -> None:
        """Serves metrics and probes over HTTP, and sends spans to a collector, as far as either is configured."""
        if self.config.metrics_listen is None and self.config.telemetry is None:
            return
        calls = self.calls
        counts = CallCounts(lambda: [call.method for call in calls], calls.unread_seconds, self.dependencies.watches.records)
        calls.observers = (*calls.observers, lambda call: counts.ended(call.method, *call.status, perf_counter() - call.started))
        collector = ServerCollector(self.registry, counts, self._sources, guarded=(lambda: guard.guarded) if guard is not None else None)
        if self.config.telemetry is not None:
            from .tracing import open_tracing  # noqa: PLC0415 - OpenTelemetry is an extra

            tracing = open_tracing(self.config.telemetry)
            calls.began = tracing.began
            calls.observers = (*calls.observers, tracing.ended)
            opened.push_async_callback(asyncio.to_thread, tracing.close)
        if self.config.metrics_listen is None:
            return
        metrics = Endpoint(self.config.metrics_listen, collector, self.readiness.report)
        opened.push_async_callback(metrics.close)
        self.metrics_address = metrics.address
        _LOG.info("metrics at http://%s/metrics", metrics.address)


def _reflection(calls: Calls) -> grpc.GenericRpcHandler:
    service = reflection_pb2.DESCRIPTOR.services_by_name["ServerReflection"]
    servicer = ReflectionServicer((POLICIES.full_name, HISTORY.full_name, _HEALTH.full_name, reflection.SERVICE_NAME))

    async def reflect(requests: Any, call: Call) -> None:
        decoded = (calls.decode(reflection_pb2.ServerReflectionRequest.FromString, raw) async for raw in requests)
        async for answer in servicer.ServerReflectionInfo(decoded, call):
            await call.write(answer.SerializeToString())

    return calls.serve(service, {"ServerReflectionInfo": reflect}, ours=False)


_CERTIFICATE = "x509_pem_cert"


def _identify(identification: Identification, call: Call) -> Awaitable[Caller]:
    """Identifies the caller of a call (``calls.Identify``).

    The health service answers callers without credentials, because its clients (``grpc_health_probe``, an orchestrator) have none.
    """
    context, needed = call.context, not call.method.startswith(_HEALTH.full_name)
    # The authentication context is not looked up in vain: gRPC builds a whole dictionary for each look-up.
    return identification.caller(call.metadata, lambda: next(iter(context.auth_context().get(_CERTIFICATE, ())), None), needed=needed)


_MOMENT_SECONDS = 0.1
"""Seconds for which health watches can still send NOT_SERVING before they are ended."""


async def _stop_calls(server: grpc.aio.Server, calls: Calls, watches: WatchStreams, seconds: float) -> None:
    """Ends all calls of a server, and stops the server, in this order.

    1. Watches end, each with a bookmark. New calls are refused with SHUTTING_DOWN for a moment; then gRPC accepts no more.
    2. Calls in progress have ``seconds`` to finish. A peer that does not read is not waited for.
    3. Changes without a result are answered: with SHUTTING_DOWN if they certainly were not made, else with OUTCOME_UNKNOWN.
    4. All other calls are ended with SHUTTING_DOWN.
    5. The peers of the calls that are left do not read: their connections are closed.
    """
    watches.stop()
    await calls.refuse()
    closed = asyncio.get_running_loop().create_task(server.stop(seconds + 4 * LAST_SECONDS), name="no new calls")
    try:
        await calls.until(calls.drained, seconds)
        end_changes(calls)
        await calls.until(calls.drained, LAST_SECONDS)
        await asyncio.wait({closed}, timeout=_MOMENT_SECONDS)
        for call in calls:
            call.end(stopping())
        await calls.until(lambda: not len(calls), LAST_SECONDS + _MOMENT_SECONDS)
        await asyncio.wait({closed}, timeout=LAST_SECONDS)  # gRPC sends answers after their methods have returned
    finally:
        await server.stop(None)
        await closed
        await watches.closed()


async def open_log(config: LogConfig, limits: Limits, advertised: Callable[[], str] | None) -> ChangeLogs:
    """Opens the change log that a configuration names.

    ``advertised`` returns the address at which clients reach this server; it is called only once the server listens. None: the server
    never writes, so it need not be reached as a log's writer.

    Raises:
        LogError: the log can't be opened.
    """
    if isinstance(config, PulsarLogConfig):
        from ..logs.pulsar.log import pulsar_log  # noqa: PLC0415

        return pulsar_log(config, advertised)
    from ..logs.sqlite import Compaction, SqliteLog  # noqa: PLC0415

    log = SqliteLog(
        config.path,
        compaction=Compaction(retention_ms=int(limits.retention_seconds * 1000), retained_bytes=limits.max_retained_bytes),
    )
    await log.start()
    return log


def info(config: ServerConfig, cluster: Cluster | None) -> service_pb2.ServerInfo:
    """Returns the answer to GetServerInfo. ``cluster``: knows the cluster; None: the cluster is not known."""
    log = config.log
    if isinstance(log, EmbeddedLogConfig):
        kind = service_pb2.LOG_KIND_EMBEDDED if log.path is not None else service_pb2.LOG_KIND_MEMORY
        mode = service_pb2.WRITER_MODE_SOLE
    else:
        kind = service_pb2.LOG_KIND_PULSAR
        mode = service_pb2.WRITER_MODE_EXCLUSIVE if log.writer == "exclusive" else service_pb2.WRITER_MODE_SHARED
    return service_pb2.ServerInfo(
        version=_VERSION,
        log=kind,
        cluster=cluster.name if cluster is not None else "",
        writer_mode=service_pb2.WRITER_MODE_READ_ONLY if config.read_only else mode,
    )
