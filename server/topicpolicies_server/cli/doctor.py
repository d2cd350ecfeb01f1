"""The doctor command: runs checks as a client of a server, and with its options as its operator; shows what is wrong and what to do."""

from __future__ import annotations

import os
from asyncio import Runner
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from ..config import Address, EmbeddedLogConfig, PulsarLogConfig, ServerConfig
from ..config.building import server_config
from ..config.option import ReadBy
from ..config.sources import OptionValues
from .calls import calling
from .checks import LEVELS, Doctor, Problem, check_server
from .configured import configured
from .exits import ExitCode, reporting
from .serve import refusal
from .settings import Settings, full_namespace, settings

_SOURCES = ("pulsar", "data", "admin_url")
"""Options of the log. A user who gives one of them is taken to be the operator of the server."""
Scratch = Annotated[
    str,
    typer.Option("--scratch", metavar="PLACE", help="Check by a dry run whether a topic can be changed here: a namespace or a topic."),
]
Namespaces = Annotated[
    list[str] | None, typer.Option("--namespace", metavar="NAMESPACE", help="Check this namespace (tenant/namespace); can be repeated.")
]
Pre = Annotated[bool, typer.Option("--pre", help="Check only what must hold before the server is started.")]


@configured(ReadBy.SERVE, of_server=False)
def doctor(
    context: typer.Context, in_force: OptionValues, *, scratch: Scratch = "", namespaces: Namespaces = None, pre: Pre = False
) -> None:
    """Find what is wrong, and show what to do.

    It checks the server's address, whether the service answers and is ready, and, with --scratch, whether a change would be made. With the
    options of serve (--config, --pulsar, ...) it also checks the brokers and the server's own token. It changes nothing.

    Ends with exit code 0 if no check fails (warnings do not count), and with 10 if one does.

    \b
    Examples:
      topicpolicies doctor
      topicpolicies doctor --server sidecar:6680 --scratch public/default
      topicpolicies doctor --config sidecar.toml --namespace acme/orders
      topicpolicies doctor --pre --pulsar pulsar://broker:6650 \\
          --admin-url http://broker:8080 --pulsar-token-file token
    """  # noqa: D301 - "\b" keeps the lines
    chosen, config = settings(context), None
    if in_force.file is not None or pre or any(in_force.settings[name].given for name in _SOURCES):
        config = server_config(in_force, os.environ)
    said = context.parent is not None and getattr(context.parent.get_parameter_source("server"), "name", "") != "DEFAULT"
    if config is not None and not said:
        chosen = _of_config(chosen, config)
    named = list(dict.fromkeys([*map(full_namespace, namespaces or []), *([scratch] if scratch.count("/") == 1 else [])]))
    if wrong := next((each for each in named if each.count("/") != 1 or not all(each.split("/"))), None):
        raise typer.BadParameter(f'"{wrong}" is not a namespace: write tenant/namespace.', param_hint="--namespace")
    run = Doctor(silent=chosen.for_programs)
    if not pre:
        with calling(chosen, listening=False) as client:
            check_server(run, chosen, client, named, scratch)
    if config is not None and pre and isinstance(config.log, EmbeddedLogConfig) and config.log.path is not None:
        listen, data = config.listen, config.log.path
        run.check("listen", lambda: _free(listen))
        run.check("data", lambda: _writable(data))
    if config is not None and isinstance(config.log, PulsarLogConfig):
        from .broker_checks import Brokers  # noqa: PLC0415 - what clients have no use for need not be installed

        with reporting(chosen.output), Runner() as runner, closing(Brokers(config.log, runner)) as brokers:
            brokers.check(run, named)
    counts = run.counts
    if chosen.for_programs:
        chosen.show({"well": not counts["failed"], "counts": counts, "checks": run.findings})
    else:
        typer.echo(f"\n{len(run.findings)} checks: {', '.join(f'{counts[level]} {level}' for level in LEVELS[:3])}.")
    if counts["failed"]:
        raise typer.Exit(ExitCode.UNWELL)


def _free(address: Address) -> str:
    if why := refusal(address):
        raise Problem(f"{address}: {why}")
    return str(address)


def _writable(path: Path) -> str:
    folder = next(each for each in path.absolute().parents if each.exists())  # serve makes the data folder
    if not os.access(path if path.exists() else folder, os.W_OK) or not os.access(folder, os.W_OK):
        raise Problem(f"{path} can't be written")
    return str(path)


def _of_config(chosen: Settings, config: ServerConfig) -> Settings:
    """Returns how the server of a configuration is reached from its own machine."""
    listen = config.listen
    target = str(listen._replace(host="127.0.0.1") if listen.unspecified else listen)
    return replace(chosen, server=target, tls_flags=chosen.tls_flags if config.tls is None else replace(chosen.tls_flags, use=True))
