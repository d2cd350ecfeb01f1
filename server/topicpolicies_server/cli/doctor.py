"""The doctor command: chooses the checks by what it is given, runs them and shows their findings."""

from __future__ import annotations

import contextlib
import json
import os
from asyncio import Runner
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

import typer

from ..config import PulsarLogConfig, ServerConfig
from ..config.building import server_config
from ..config.option import ReadBy
from ..config.sources import OptionValues
from .checks import Check, Result, counts, examine
from .configured import configured
from .exits import ExitCode, reporting
from .serve import reporting_problems
from .settings import Settings, settings
from .sidecar import sidecar

Scratch = Annotated[
    str,
    typer.Option("--scratch", metavar="PLACE", help="Check by a dry run whether a topic can be changed here: a namespace or a topic."),
]
Namespaces = Annotated[
    list[str] | None, typer.Option("--namespace", metavar="NAMESPACE", help="Check this namespace (tenant/namespace); can be repeated.")
]
Pre = Annotated[bool, typer.Option("--pre", help="Check only what must hold before the server is started.")]
_SOURCES = ("pulsar", "data", "admin_url")
"""Options of the log. A user who gives one of them is taken to be the operator of the server."""


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
        with reporting_problems(chosen.output):
            config = server_config(in_force, os.environ)
    said = context.parent is not None and getattr(context.parent.get_parameter_source("server"), "name", "") != "DEFAULT"
    if config is not None and not said:
        listen = config.listen
        target = str(listen._replace(host="127.0.0.1") if listen.unspecified else listen)
        tls = chosen.tls_flags if config.tls is None else replace(chosen.tls_flags, use=True)
        chosen = replace(chosen, server=target, tls_flags=tls)
    named = list(dict.fromkeys([*(namespaces or []), *([scratch] if scratch.count("/") == 1 else [])]))
    if wrong := next((each for each in named if each.count("/") != 1 or not all(each.split("/"))), None):
        raise typer.BadParameter(f'"{wrong}" is not a namespace: write tenant/namespace.', param_hint="--namespace")
    with reporting(chosen.output, chosen.server):
        results = _examined(chosen, config, named, scratch, pre=pre)
    numbers = counts(results)
    if chosen.json:
        typer.echo(json.dumps({"well": not numbers["failed"], "counts": numbers, "checks": [result.json() for result in results]}))
    else:
        typer.echo(f"\n{len(results)} checks: {', '.join(f'{numbers[level]} {level}' for level in ('failed', 'warning', 'skipped'))}.")
    if numbers["failed"]:
        raise typer.Exit(ExitCode.UNWELL)


def _examined(chosen: Settings, config: ServerConfig | None, namespaces: Sequence[str], scratch: str, *, pre: bool) -> list[Result]:
    results = list[Result]()
    with contextlib.ExitStack() as stack:
        checks = list[Check]()
        if not pre:
            checks += sidecar(chosen, stack.enter_context(chosen.client(listening=False)), namespaces, scratch)
        if config is not None and isinstance(config.log, PulsarLogConfig):
            from ..logs.pulsar.admin import admin_api  # noqa: PLC0415 - what clients have no use for need not be installed
            from .broker_checks import Brokers  # noqa: PLC0415

            runner, admin = stack.enter_context(Runner()), admin_api(config.log)
            stack.callback(lambda: runner.run(admin.close()))
            checks += Brokers(config.log, admin, runner).checks(namespaces)
        for result in examine(checks):
            results.append(result)
            if not chosen.json:
                typer.echo("\n".join(result.lines()))
    return results
