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
from topicpolicies.values import enum_name

from ..escaping import printable
from .calls import calling, check
from .exits import ExitCode
from .globals import Globals
from .rendering import show_columns


def info(chosen: Globals) -> None:
    """Show the server's version, log and writers.

    \b
    Examples:
      topicpolicies info
      topicpolicies info --server sidecar:6680 --output json
    """  # noqa: D301 - "\b" keeps the lines
    with calling(chosen) as client:
        found = client.server_info()
    if not chosen.shown(found):
        log, writers = enum_name(LogKind.DESCRIPTOR, found.log), enum_name(WriterMode.DESCRIPTOR, found.writer_mode)
        rows = {"version": found.version, "log": log.lower(), "cluster": found.cluster or "not known", "writers": writers.lower()}
        show_columns((name, printable(value)) for name, value in rows.items())


def health(
    chosen: Globals,
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
    status = status_of(chosen, service)
    if not chosen.shown({"status": status}):
        typer.echo(status)
    if status != "SERVING":
        raise typer.Exit(ExitCode.UNAVAILABLE)


def status_of(chosen: Globals, service: str) -> str:
    """Returns the status of a service by its name in gRPC's health service. An answer that does not come is a TopicPoliciesError."""
    check(chosen)
    with closing(open_channel(grpc, chosen.server, None, chosen.tls, ())) as channel:
        request = health_pb2.HealthCheckRequest(service=service)
        try:
            response = health_pb2_grpc.HealthStub(channel).Check(request, timeout=chosen.timeout_seconds)
        except grpc.RpcError as error:
            raise from_rpc_error(error) from error
    return str(health_pb2.HealthCheckResponse.ServingStatus.Name(response.status))


def version(chosen: Globals) -> None:
    """Show the version of this program."""
    found = metadata.version("topicpolicies")
    if not chosen.shown({"version": found}):
        typer.echo(f"topicpolicies {found}")
