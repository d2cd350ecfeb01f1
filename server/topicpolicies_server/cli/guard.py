"""The guard command. The modules of a guard are imported only when one is run."""

from __future__ import annotations

import typer

from ..config import GuardConfig
from ..config.building import guard_config
from ..config.option import ReadBy
from ..config.sources import OptionValues
from ..process import collector_off_during_start
from .configured import configured
from .running import reporting_problems, run_until_signalled
from .settings import Output, settings


@configured(ReadBy.GUARD)
def guard(context: typer.Context, in_force: OptionValues) -> None:
    """Restore what brokers lose of each other's changes.

    It runs until it is stopped (SIGTERM, Ctrl-C).

    Brokers without PIP-428 (as of Pulsar 4.0) lose settings when two are changed at almost the same time. A guard reads the events of
    the named namespaces and restores what was lost; it logs each repair. Beside brokers that lose nothing it writes nothing.

    Options are read from a file and from the environment too, as with serve.

    \b
    Examples:
      topicpolicies guard 'acme/*' \\
          --pulsar pulsar://broker:6650 --admin-url http://broker:8080
      topicpolicies guard acme/orders --report-only --config sidecar.toml
    """  # noqa: D301 - "\b" keeps the lines
    output = settings(context).output
    with reporting_problems(output):
        config = guard_config(in_force)
    run(config, output)


def run(config: GuardConfig, output: Output) -> None:
    """Runs a guard until a signal stops it.

    Raises:
        typer.Exit: the guard could not start, or ended with an error.
    """
    with collector_off_during_start():
        _run(config, output)


def _run(config: GuardConfig, output: Output) -> None:
    from ..guard.guard import GuardService  # noqa: PLC0415

    said = f"Guarding {', '.join(config.guard)}{', reporting only' if config.report_only else ''}"
    lines = config.log_level, config.log_format
    run_until_signalled("the guard", output, lines, (config.metrics_listen,), lambda: GuardService(config), lambda _: [said])
