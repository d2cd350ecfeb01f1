"""The guard command. What runs a guard is imported only when one is run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..config import RECALLED_ENTRIES, GuardConfig, Limits, LogLevel, PulsarLogConfig, parse_address
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


def guard(  # noqa: PLR0913, PLR0917 - options
    context: typer.Context,
    namespaces: Annotated[list[str], typer.Argument(metavar="NAMESPACE...", help="tenant/namespace; * stands for any characters.")],
    pulsar: Annotated[str, typer.Option("--pulsar", metavar="pulsar://HOST:PORT", help="The brokers.")],
    admin_url: Annotated[str, typer.Option("--admin-url", metavar="http://HOST:PORT", help="Their admin API.")],
    pulsar_token_file: Annotated[Path | None, typer.Option("--pulsar-token-file", help="A file with the token for Pulsar.")] = None,
    pulsar_trust: Annotated[
        Path | None, typer.Option("--pulsar-tls-trust-certs", help="The authorities of Pulsar's certificates, PEM.")
    ] = None,
    report_only: Annotated[bool, typer.Option("--report-only", help="Write nothing: tell what would be healed.")] = False,
    pause_repairs: PauseRepairs = False,
    max_repairs_per_second: RepairRate = REPAIR_RATE,
    recalled_entries: RecalledEntries = RECALLED_ENTRIES,
    max_questions_per_second: QuestionRate = QUESTION_RATE,
    metrics_listen: MetricsListen = "",
    log_level: Level = LogLevel.INFO,
) -> None:
    """Heal what brokers undo of each other's changes, until told to stop (SIGTERM, Ctrl-C).

    Brokers without PIP-428 (as of Pulsar 4.0) lose settings when two are changed at almost the same time. A guard reads the events of
    the named namespaces and restates what was lost; each healing is a line in the log. Beside brokers that lose nothing it writes nothing.

    \b
    Examples:
      topicpolicies guard 'acme/*' --pulsar pulsar://broker:6650 --admin-url http://broker:8080
      topicpolicies guard acme/orders --report-only --pulsar pulsar://broker:6650 --admin-url http://broker:8080
    """  # noqa: D301 - "\b" keeps the lines
    with telling_problems(settings(context).output):
        config = GuardConfig(
            log=PulsarLogConfig(
                service_url=pulsar,
                admin_url=admin_url,
                token_file=pulsar_token_file,
                tls_trust_certs_file=pulsar_trust,
                recalled_entries=recalled_entries,
            ),
            patterns=tuple(namespaces),
            report_only=report_only,
            pause_repairs=pause_repairs,
            limits=Limits(max_repairs_per_second=max_repairs_per_second, max_guard_questions_per_second=max_questions_per_second),
            log_level=log_level,
            metrics_listen=parse_address(metrics_listen) if metrics_listen else None,
        )
    run(config)


def run(config: GuardConfig) -> None:
    """Guards until told to stop.

    Raises:
        typer.Exit: it could not start.
    """
    from ..guard.service import serve as guard_until_told  # noqa: PLC0415

    log_to_standard_error(config.log_level)

    def started(_: object) -> None:
        typer.echo(f"Guarding {', '.join(config.patterns)}{', reporting only' if config.report_only else ''}", err=True)

    with starting("the guard"):
        guard_until_told(config, started)
