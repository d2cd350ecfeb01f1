"""The commands about a server and this program: info, health, version."""

from __future__ import annotations

from contextlib import closing
from importlib import metadata
from typing import Annotated

import grpc
import typer
from grpc_health.v1 import health_pb2, health_pb2_grpc

from topicpolicies.channels import open_channel
from topicpolicies.errors import from_rpc_error
from topicpolicies.v1.service_pb2 import LogKind, WriterMode

from ..escaping import printable
from . import forms
from .calls import calling, check
from .exits import ExitCode, reporting
from .rendering import show_columns
from .settings import Settings, settings

_LOGS = {
    LogKind.LOG_KIND_EMBEDDED: "embedded, in a file of the server",
    LogKind.LOG_KIND_PULSAR: "Pulsar, in each namespace's __change_events",
    LogKind.LOG_KIND_MEMORY: "in memory: lost when the server ends",
}
_WRITERS = {
    WriterMode.WRITER_MODE_SOLE: "sole: only this server writes",
    WriterMode.WRITER_MODE_SHARED: "shared: brokers and other servers write too",
    WriterMode.WRITER_MODE_EXCLUSIVE: "exclusive: one server at a time",
    WriterMode.WRITER_MODE_READ_ONLY: "read-only: this server writes nothing",
}


def info(context: typer.Context) -> None:
    """Show the server's version, log and writers.

    \b
    Examples:
      topicpolicies info
      topicpolicies info --server sidecar:6680 --output json
    """  # noqa: D301 - "\b" keeps the lines
    chosen = settings(context)
    with calling(chosen) as client:
        found = client.server_info()
    if chosen.for_programs:
        chosen.show(forms.of_message(found))
        return
    rows = (
        ("version", found.version),
        ("log", _LOGS.get(found.log, "unknown")),
        ("cluster", found.cluster or "none, or not known yet"),
        ("writers", _WRITERS.get(found.writer_mode, "unknown")),
    )
    show_columns((name, printable(value)) for name, value in rows)


def health(
    context: typer.Context,
    service: Annotated[str, typer.Option("--service", metavar="NAME", help="liveness or readiness; empty: readiness.")] = "",
) -> None:
    """Check whether the server is ready.

    The server is not ready while its change log can't be reached, or while it stops.

    Ends with exit code 0 if it is ready, 5 if it is not.

    \b
    Examples:
      topicpolicies health
      topicpolicies health --server localhost:6680 --timeout 2
      topicpolicies health --service liveness
    """  # noqa: D301 - "\b" keeps the lines
    chosen = settings(context)
    with reporting(chosen.output, chosen):
        status = status_of(chosen, service)
    if chosen.for_programs:
        chosen.show({"status": status})
    else:
        typer.echo(status)
    if status != "SERVING":
        raise typer.Exit(ExitCode.UNAVAILABLE)


def status_of(chosen: Settings, service: str) -> str:
    """Returns the status of a service by its name in gRPC's health service. An answer that does not come is a TopicPoliciesError."""
    check(chosen)
    with closing(open_channel(grpc, chosen.server, None, chosen.tls_flags.of_client(), ())) as channel:
        request = health_pb2.HealthCheckRequest(service=service)
        try:
            response = health_pb2_grpc.HealthStub(channel).Check(request, timeout=chosen.timeout_seconds)
        except grpc.RpcError as error:
            raise from_rpc_error(error) from error
    return str(health_pb2.HealthCheckResponse.ServingStatus.Name(response.status))


def version(context: typer.Context) -> None:
    """Show the version of this program."""
    chosen = settings(context)
    found = metadata.version("topicpolicies")
    if chosen.for_programs:
        chosen.show({"version": found})
    else:
        typer.echo(f"topicpolicies {found}")
