"""The serve command. What runs a server is imported only when one is run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from topicpolicies import Tls

from ..config import (
    DEFAULT_LISTEN,
    RECALLED_ENTRIES,
    EmbeddedLogConfig,
    HistoryConfig,
    Limits,
    LogConfig,
    LogLevel,
    PulsarLogConfig,
    ServerConfig,
    TlsConfig,
    Writer,
    history_beside,
    parse_address,
)
from .running import (
    QUESTION_RATE,
    REPAIR_RATE,
    Level,
    MetricsListen,
    PauseRepairs,
    QuestionRate,
    RecalledEntries,
    RepairRate,
    log_to_standard_error,
    starting,
    telling_problems,
)
from .settings import settings

_LOG = "Change log"
_NETWORK = "Network"
_HISTORY = "History"


def serve(  # noqa: PLR0913, PLR0917 - options
    context: typer.Context,
    listen: Annotated[
        str, typer.Option("--listen", metavar="HOST:PORT", help="Where to listen; port 0 lets the system choose.", rich_help_panel=_NETWORK)
    ] = DEFAULT_LISTEN,
    insecure_listen: Annotated[
        bool, typer.Option("--insecure-listen", help="Let other machines connect without TLS.", rich_help_panel=_NETWORK)
    ] = False,
    client_ca: Annotated[
        Path | None,
        typer.Option("--tls-client-ca", help="Let in only clients with a certificate of this authority, PEM.", rich_help_panel=_NETWORK),
    ] = None,
    data: Annotated[
        Path | None, typer.Option("--data", metavar="FILE.db", help="The embedded log, without a broker.", rich_help_panel=_LOG)
    ] = None,
    cluster_file: Annotated[
        Path | None,
        typer.Option("--cluster-file", metavar="FILE.toml", help="What is known of the cluster; goes with --data.", rich_help_panel=_LOG),
    ] = None,
    pulsar: Annotated[
        str, typer.Option("--pulsar", metavar="pulsar://HOST:PORT", help="Pulsar's own log, instead.", rich_help_panel=_LOG)
    ] = "",
    admin_url: Annotated[
        str, typer.Option("--admin-url", metavar="http://HOST:PORT", help="A broker's admin API; goes with --pulsar.", rich_help_panel=_LOG)
    ] = "",
    pulsar_token_file: Annotated[
        Path | None, typer.Option("--pulsar-token-file", help="A file with the token for Pulsar.", rich_help_panel=_LOG)
    ] = None,
    pulsar_trust: Annotated[
        Path | None, typer.Option("--pulsar-tls-trust-certs", help="The authorities of Pulsar's certificates, PEM.", rich_help_panel=_LOG)
    ] = None,
    writer: Annotated[
        Writer, typer.Option("--writer", help="Who writes Pulsar's log: everybody, or one sidecar at a time.", rich_help_panel=_LOG)
    ] = Writer.SHARED,
    advertise: Annotated[
        str,
        typer.Option(
            "--advertise",
            metavar="HOST:PORT",
            help="Where clients reach this server; goes with --writer exclusive. By default where it listens.",
            rich_help_panel=_NETWORK,
        ),
    ] = "",
    history: Annotated[
        Path | None,
        typer.Option("--history", metavar="FILE.db", help="Its record of all changes; by default beside --data.", rich_help_panel=_HISTORY),
    ] = None,
    no_history: Annotated[bool, typer.Option("--no-history", help="Keep no record.", rich_help_panel=_HISTORY)] = False,
    history_days: Annotated[
        int, typer.Option("--history-days", min=1, max=36_600, help="Drop what is older.", rich_help_panel=_HISTORY)
    ] = 366,
    history_megabytes: Annotated[
        int, typer.Option("--history-megabytes", min=1, max=1 << 24, help="Drop the oldest beyond that.", rich_help_panel=_HISTORY)
    ] = 1024,
    missing_topics: Annotated[
        bool, typer.Option("--allow-missing-topics", help="Take policies of topics that do not exist yet.", rich_help_panel=_LOG)
    ] = False,
    show_secrets: Annotated[
        bool, typer.Option("--show-secrets", help="Show the object storages' credentials in offload policies to everybody who may read.")
    ] = False,
    read_only: Annotated[bool, typer.Option("--read-only", help="Write nothing: refuse updates, and only tell of repairs.")] = False,
    pause_repairs: PauseRepairs = False,
    max_repairs_per_second: RepairRate = REPAIR_RATE,
    recalled_entries: RecalledEntries = RECALLED_ENTRIES,
    guard: Annotated[
        list[str] | None,
        typer.Option("--guard", metavar="NAMESPACE", help="Keep namespaces loaded and repaired; * stands for any characters; repeatable."),
    ] = None,
    max_questions_per_second: QuestionRate = QUESTION_RATE,
    metrics_listen: MetricsListen = "",
    log_level: Level = LogLevel.INFO,
) -> None:
    """Run a server, until it is told to stop (SIGTERM, Ctrl-C).

    It listens on loopback unless told otherwise. Either --data or --pulsar says where the change log is. Here --tls-certificate and
    --tls-key are the server's own.

    \b
    Examples:
      topicpolicies serve --data policies.db
      topicpolicies serve --pulsar pulsar://broker:6650 --admin-url http://broker:8080 --pulsar-token-file token
      topicpolicies serve --data policies.db --listen 0.0.0.0:6680 --tls-certificate server.pem --tls-key key.pem
    """  # noqa: D301 - "\b" keeps the lines
    chosen = settings(context)
    tls = _tls_config(chosen.tls, client_ca)
    with telling_problems(chosen.output):
        config = ServerConfig(
            log=_log_config(data, cluster_file, pulsar, admin_url, pulsar_token_file, pulsar_trust, writer, recalled_entries),
            listen=parse_address(listen),
            tls=tls,
            insecure_listen=insecure_listen,
            advertise=advertise,
            history=_history_config(history, data, no_history, history_days, history_megabytes),
            missing_topics=missing_topics,
            show_secrets=show_secrets,
            read_only=read_only,
            pause_repairs=pause_repairs,
            limits=Limits(max_repairs_per_second=max_repairs_per_second, max_guard_questions_per_second=max_questions_per_second),
            guard=tuple(guard or ()),
            metrics_listen=parse_address(metrics_listen) if metrics_listen else None,
            log_level=log_level,
        )
    run(config)


def _tls_config(tls: bool | Tls | None, client_ca: Path | None) -> TlsConfig | None:
    """The server's TLS, from the options that are a client's with the other commands."""
    if isinstance(tls, Tls) and (tls.ca_file is not None or tls.server_name is not None):
        raise typer.BadParameter("--tls-ca and --tls-server-name are for clients; a server takes --tls-client-ca.")
    if isinstance(tls, Tls) and tls.certificate_file is not None and tls.key_file is not None:
        return TlsConfig(certificate_file=tls.certificate_file, key_file=tls.key_file, client_ca_file=client_ca)
    if tls or client_ca is not None:
        raise typer.BadParameter("A server with TLS needs its --tls-certificate and --tls-key.")
    return None


def _log_config(
    data: Path | None,
    cluster_file: Path | None,
    pulsar: str,
    admin_url: str,
    token_file: Path | None,
    trust: Path | None,
    writer: Writer,
    recalled_entries: int,
) -> LogConfig:
    if (data is None) == (not pulsar):
        raise typer.BadParameter("Say where the change log is: either --data FILE.db or --pulsar pulsar://HOST:PORT.")
    if data is not None:
        if admin_url or token_file or trust:
            raise typer.BadParameter("--admin-url, --pulsar-token-file and --pulsar-tls-trust-certs go with --pulsar.")
        return EmbeddedLogConfig(path=data, cluster_file=cluster_file)
    if cluster_file is not None:
        raise typer.BadParameter("--cluster-file goes with --data: with --pulsar the brokers are asked.")
    return PulsarLogConfig(
        service_url=pulsar,
        admin_url=admin_url,
        token_file=token_file,
        tls_trust_certs_file=trust,
        writer=writer,
        recalled_entries=recalled_entries,
    )


def _history_config(path: Path | None, data: Path | None, off: bool, days: int, megabytes: int) -> HistoryConfig | None:
    if off and path is not None:
        raise typer.BadParameter("--history and --no-history contradict each other.")
    if path is None and data is not None:
        path = history_beside(data)
    if off or path is None:
        return None
    return HistoryConfig(path=path, max_age_seconds=days * 86_400.0, max_bytes=megabytes << 20)


def run(config: ServerConfig) -> None:
    """Serves until told to stop.

    Raises:
        typer.Exit: it could not start.
    """
    from ..rpc.server import Server  # noqa: PLC0415
    from ..rpc.server import serve as serve_until_told  # noqa: PLC0415

    log_to_standard_error(config.log_level)

    def started(server: Server) -> None:
        typer.echo(f"Listening on {server.address}", err=True)

    with starting("the server"):
        serve_until_told(config, started)
