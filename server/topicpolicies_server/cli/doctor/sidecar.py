"""Checks of a running sidecar: whether its service answers, whether it is alive and ready, and whether namespaces can be read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import grpc

from topicpolicies import Tls, TopicPoliciesError
from topicpolicies.channels import credentials_for, options_for
from topicpolicies.v1.service_pb2 import LOG_KIND_MEMORY, LogKind, ServerInfo, WriterMode
from topicpolicies.values import enum_name

from .checks import Check, Finding, failed, ok, warning
from .permissions import permission

if TYPE_CHECKING:
    from topicpolicies import AsyncClient

_CALL_SECONDS = 6.0


def judged_info(info: ServerInfo) -> Finding:
    """Judges a server by what it reports about itself."""
    log, writers = enum_name(LogKind.DESCRIPTOR, info.log), enum_name(WriterMode.DESCRIPTOR, info.writer_mode)
    told = f"version {info.version}, log {log.lower()}, writers {writers.lower()}"
    if info.log == LOG_KIND_MEMORY:
        return warning(f"{told}: what is written is lost when the server ends", "Give the server --data FILE.db or --pulsar.")
    return ok(told)


def judged_refusal(error: TopicPoliciesError) -> Finding:
    """Judges the error with which a server refused to report about itself."""
    told = f"{error.code.name}: {error.message}"
    if error.code is grpc.StatusCode.UNIMPLEMENTED:
        return failed(f"it is another gRPC service ({told})", "Name the port that serve says it listens on.")
    if error.code in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED):
        return failed(told, "Authenticate yourself with --token-file FILE, or --tls-certificate and --tls-key; and have that role allowed.")
    if any(violation.reason == "TOKEN_IN_THE_CLEAR" for violation in error.violations):
        return failed(told, "Say --tls: without it the token could be read on the network.")
    return failed(told)


def sidecar(target: str, tls: bool | Tls | None, client: AsyncClient, namespaces: Sequence[str]) -> list[Check]:
    """Returns the checks of a running sidecar.

    Args:
        target: the sidecar's address.
        tls: the TLS of connections to it.
        client: a client of it.
        namespaces: the namespaces to check.
    """

    async def service() -> Finding:
        try:
            return judged_info(await client.server_info(timeout=_CALL_SECONDS))
        except TopicPoliciesError as error:
            return judged_refusal(error)

    async def health(name: str) -> Finding:
        status = await _status(target, tls, name)
        return ok(status) if status == "SERVING" else failed(status)

    def reading(namespace: str) -> Check:
        async def read() -> Finding:
            try:
                has = await _has_documents(client, namespace)
            except TopicPoliciesError as error:
                return failed(f"{error.reason or error.code.name}: {error.message}", REMEDIES.get(error.reason, ""))
            return ok("it has documents" if has else "it has no document")

        return Check(
            name=f"server.namespace {namespace}",
            holds=f"{namespace} can be read",
            why="Requests for a namespace that can't be loaded fail.",
            run=read,
            remedy="Check the server's log for why it can't read the namespace, and whether the broker serves it.",
            needs=("server.service",),
            seconds=15,
        )

    return [
        Check(
            name="server.service",
            holds="the service answers",
            why="Something between here and the server, such as a proxy, may accept calls and not forward them.",
            run=service,
            remedy="Check the server's log, and what is between here and the server.",
            needs=("address.grpc",),
        ),
        Check(
            name="server.liveness",
            holds="the process is alive",
            why="A process that hangs has to be restarted.",
            run=lambda: health("liveness"),
            remedy="Start the server again, and keep its log.",
            needs=("server.service",),
        ),
        Check(
            name="server.readiness",
            holds="the server is ready: its change log can be reached",
            why="Without the log changes are refused, and reads are as old as what was read last.",
            run=lambda: health("readiness"),
            remedy="The server's log says why. With the server's options (--config FILE, --pulsar ...) this command checks the broker too.",
            needs=("server.service",),
        ),
        *(check for namespace in namespaces for check in (reading(namespace), permission(client, namespace))),
    ]


REMEDIES = {
    "TOPIC_POLICIES_ELSEWHERE": "Use pulsar-admin beside these brokers, or have them read change logs as that sentence says.",
    "NAMESPACE_NOT_FOUND": "Create it (pulsar-admin namespaces create), or correct its name.",
    "TOPIC_POLICIES_DISABLED": "Set topicLevelPoliciesEnabled=true and systemTopicEnabled=true at the brokers.",
    "CLUSTER_UNAVAILABLE": "If the admin API refuses the server, make it an admin: pulsar-admin tenants update TENANT --admin-roles ROLE.",
}


async def _has_documents(client: AsyncClient, namespace: str) -> bool:
    async for _ in client.list(namespace, page_size=1, timeout=_CALL_SECONDS):
        return True
    return False


async def _status(target: str, tls: bool | Tls | None, name: str) -> str:
    from grpc_health.v1 import health_pb2, health_pb2_grpc  # noqa: PLC0415 - for these checks only

    credentials, options = credentials_for(target, tls), options_for(target, tls)
    opened = grpc.aio.insecure_channel(target, options) if credentials is None else grpc.aio.secure_channel(target, credentials, options)
    async with opened as channel:
        try:
            answer = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(service=name), timeout=_CALL_SECONDS)
        except grpc.aio.AioRpcError as error:
            return f"{error.code().name}: {error.details()}"
    return str(health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status))
