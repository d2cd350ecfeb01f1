"""The health command: a check of gRPC's standard health service, with the result as an exit code."""

from __future__ import annotations

import json
from typing import Annotated

import grpc
import typer

from topicpolicies.channels import credentials_for, options_for
from topicpolicies.errors import from_rpc_error

from ..exits import ExitCode, reporting
from ..settings import Settings, settings


def health(
    context: typer.Context,
    service: Annotated[str, typer.Option("--service", help="liveness, readiness, or a namespace; empty: readiness.")] = "",
) -> None:
    """Check whether the server is ready.

    The server is not ready while its change log can't be reached, or while it stops.

    Ends with exit code 0 if it is ready, 5 if it is not.

    \b
    Examples:
      topicpolicies health
      topicpolicies health --server localhost:6680 --timeout 2
      topicpolicies health --service liveness
      topicpolicies health --service acme/orders
    """  # noqa: D301 - "\b" keeps the lines
    chosen = settings(context)
    with reporting(chosen.output, chosen.server):
        status = status_of(chosen, service)
    if chosen.json:
        typer.echo(json.dumps({"status": status}))
    else:
        typer.echo(status)
    if status != "SERVING":
        raise typer.Exit(ExitCode.UNAVAILABLE)


def status_of(chosen: Settings, service: str) -> str:
    """Returns the status of a service by its name in gRPC's health service.

    Raises:
        TopicPoliciesError: there is no answer.
    """
    from grpc_health.v1 import health_pb2, health_pb2_grpc  # noqa: PLC0415 - for this command only

    chosen.check()
    credentials, options = credentials_for(chosen.server, chosen.tls), options_for(chosen.server, chosen.tls)
    opened = (
        grpc.insecure_channel(chosen.server, options) if credentials is None else grpc.secure_channel(chosen.server, credentials, options)
    )
    with opened as channel:
        request = health_pb2.HealthCheckRequest(service=service)
        try:
            response = health_pb2_grpc.HealthStub(channel).Check(request, timeout=chosen.timeout_seconds)
        except grpc.RpcError as error:
            raise from_rpc_error(error) from error
    return str(health_pb2.HealthCheckResponse.ServingStatus.Name(response.status))
