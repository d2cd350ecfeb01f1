"""The health command: a check of gRPC's standard health service, with the result as an exit code."""

from __future__ import annotations

import contextlib
import json
from typing import Annotated

import grpc
import typer

from topicpolicies.addresses import addresses_of
from topicpolicies.channels import Tls, credentials_for, options_for
from topicpolicies.errors import DeadlineExceeded, Unavailable, from_rpc_error

from ..exits import ExitCode, reporting
from ..settings import Settings, settings


def health(
    context: typer.Context,
    service: Annotated[str, typer.Option("--service", help="liveness, readiness, or a namespace; empty: readiness.")] = "",
) -> None:
    """Check whether the server is ready.

    The server is not ready while its change log can't be reached, or while it stops. Of several addresses the first that answers counts.

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
        status = _check(chosen, service)
    if chosen.json:
        typer.echo(json.dumps({"status": status}))
    else:
        typer.echo(status)
    if status != "SERVING":
        raise typer.Exit(ExitCode.UNAVAILABLE)


def _check(chosen: Settings, service: str) -> str:
    """Returns the status that the first address reports that can be reached; if none can, the last one's error is raised."""
    chosen.check()
    credentials, tls = credentials_for(chosen.server, chosen.tls), chosen.tls
    *others, last = addresses_of(chosen.server)
    seconds = chosen.timeout_seconds / (len(others) + 1)
    for address in others:
        with contextlib.suppress(Unavailable, DeadlineExceeded):
            return _check_at(address, credentials, tls, service, seconds)
    return _check_at(last, credentials, tls, service, seconds)


def _check_at(address: str, credentials: grpc.ChannelCredentials | None, tls: bool | Tls | None, service: str, seconds: float) -> str:
    from grpc_health.v1 import health_pb2, health_pb2_grpc  # noqa: PLC0415 - for this command only

    options = options_for(address, tls, ())
    opened = grpc.insecure_channel(address, options) if credentials is None else grpc.secure_channel(address, credentials, options)
    with opened as channel:
        request = health_pb2.HealthCheckRequest(service=service)
        try:
            response = health_pb2_grpc.HealthStub(channel).Check(request, timeout=seconds)
        except grpc.RpcError as error:
            raise from_rpc_error(error) from error
    return str(health_pb2.HealthCheckResponse.ServingStatus.Name(response.status))
