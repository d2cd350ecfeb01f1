"""The serve command. The modules of a server are imported only when one is run."""

from __future__ import annotations

import os

import typer

from ..config import EmbeddedLogConfig, ServerConfig
from ..config.building import server_config
from ..config.option import ReadBy
from ..config.sources import OptionValues
from ..process import collector_off_during_start
from .configured import configured
from .running import reporting_problems, run_until_signalled
from .settings import Output, TlsFlags, settings


@configured(ReadBy.SERVE)
def serve(context: typer.Context, in_force: OptionValues) -> None:
    """Run a server, until it is stopped (SIGTERM, Ctrl-C).

    By default it listens on loopback, and keeps its change log in your data folder. For this command --tls-certificate and --tls-key are
    the server's own.

    Every option can also be set in a file (config --sample writes one) and in the environment: --max-watches is max_watches in the file
    and TOPICPOLICIES_MAX_WATCHES in the environment. A flag takes precedence over the environment, and that over the file. The command
    config shows the options in force.

    \b
    Examples:
      topicpolicies serve
      topicpolicies serve --config sidecar.toml
      topicpolicies serve --pulsar pulsar://broker:6650 \\
          --admin-url http://broker:8080 --pulsar-token-file token
      topicpolicies serve --data policies.db --listen 0.0.0.0:6680 \\
          --tls-certificate server.pem --tls-key key.pem \\
          --authentication-providers token --token-secret-key secret.key \\
          --authorization roles.toml
    """  # noqa: D301 - "\b" keeps the lines
    chosen = settings(context)
    check_tls(chosen.tls_flags, in_force)
    with reporting_problems(chosen.output):
        config = server_config(in_force, os.environ)
    run(config, chosen.output)


def check_tls(flags: TlsFlags, in_force: OptionValues) -> None:
    """Checks that the global TLS options fit a server.

    Raises:
        typer.BadParameter: one is for clients only, or contradicts the server's certificate or its absence.
    """
    certificate = in_force.settings["tls_certificate"]
    if flags.ca_file is not None or flags.server_name is not None:
        raise typer.BadParameter("--tls-ca and --tls-server-name are for clients; a server takes --tls-client-ca.")
    if flags.use and certificate.value is None:
        raise typer.BadParameter("A server with TLS needs its --tls-certificate and --tls-key.")
    if flags.use is False and certificate.value is not None:
        raise typer.BadParameter(f"--no-tls contradicts tls_certificate ({certificate.where}).")


def run(config: ServerConfig, output: Output) -> None:
    """Runs a server until a signal stops it.

    Raises:
        typer.Exit: the server could not start, or ended with an error.
    """
    with collector_off_during_start():
        _run(config, output)


def _run(config: ServerConfig, output: Output) -> None:
    from ..rpc.server import Server  # noqa: PLC0415

    def make() -> Server:
        if config.data_folder is not None:
            config.data_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return Server(config)

    def said(server: Server) -> list[str]:
        embedded = [f"The change log is {config.log.path}"] if isinstance(config.log, EmbeddedLogConfig) else []
        return [f"Listening on {server.address}", *embedded]

    run_until_signalled("the server", output, (config.log_level, config.log_format), (config.listen, config.metrics_listen), make, said)
