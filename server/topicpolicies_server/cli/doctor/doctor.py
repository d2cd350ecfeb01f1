"""The doctor command: chooses the checks by what it is given, runs them and shows their findings."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, NamedTuple

import typer

from topicpolicies import AsyncClient, Tls
from topicpolicies.addresses import places_of

from ...config import ConfigError, PulsarLogConfig, ServerConfig
from ...config.building import server_config
from ...config.option import ReadBy
from ...config.sources import OptionValues
from ..exits import ExitCode, reporting
from ..serving.configured import configured
from ..settings import Settings, check_target, settings
from .certificates import certificates
from .checks import Check, Finding, Level, Result, examine, failed, ok
from .disk import disk
from .metrics import clock, metrics
from .reaching import reaching, wants_tls
from .report import Screen, Silent, count, of_results, summary
from .scratch import Scratch, cleaned
from .sidecar import sidecar
from .tokens import ShownToken

ScratchPlace = Annotated[
    str,
    typer.Option("--scratch", metavar="PLACE", help="Change a topic without policies here, and revert the change: a namespace or a topic."),
]
Namespaces = Annotated[
    list[str] | None, typer.Option("--namespace", metavar="NAMESPACE", help="Check this namespace (tenant/namespace); can be repeated.")
]
Metrics = Annotated[str, typer.Option("--metrics", metavar="HOST:PORT", help="The address of the server's metrics.")]
Pre = Annotated[bool, typer.Option("--pre", help="Check only what must hold before the server is started.")]
_SOURCES = ("pulsar", "data", "admin_url")
"""Options of the log. A user who gives one of them is taken to be the operator of the server."""


class Subject(NamedTuple):
    """What the checks look at."""

    target: str
    tls: bool | Tls | None
    namespaces: Sequence[str]
    scratch: str
    metrics: str
    config: ServerConfig | None
    """The server's own options; None: they are not given, or wrong."""
    problems: Sequence[str]
    """What is wrong with the server's options, a sentence each."""
    pre: bool


@configured(ReadBy.SERVE, of_server=False)
def doctor(
    context: typer.Context,
    in_force: OptionValues,
    *,
    scratch: ScratchPlace = "",
    namespaces: Namespaces = None,
    metrics_at: Metrics = "",
    pre: Pre = False,
) -> None:
    """Find what is wrong, and show what to do.

    It checks the server's address and certificate, whether it is alive and ready, and, with --scratch, a change and its removal. With the
    options of serve (--config, --pulsar, ...) it also checks the broker, the sidecar's own token, and the server's disk.

    Ends with exit code 0 if no check fails (warnings do not count), and with 10 if one does.

    \b
    Examples:
      topicpolicies doctor
      topicpolicies doctor --server sidecar:6680 --scratch public/default
      topicpolicies doctor --config sidecar.toml --namespace acme/orders
      topicpolicies doctor --pre --pulsar pulsar://broker:6650 \\
          --admin-url http://broker:8080 --pulsar-token-file token
    """  # noqa: D301 - "\b" keeps the lines
    chosen = settings(context)
    subject = _subject(context, chosen, in_force, namespaces or [], scratch, metrics_at, pre=pre)
    with reporting(chosen.output), contextlib.closing(Silent() if chosen.json else Screen()) as looking:
        results, left_over = asyncio.run(_examined(subject, chosen, looking))
    if chosen.json:
        typer.echo(json.dumps(of_results(results, left_over)))
    else:
        typer.echo(f"\n{summary(results)}")
    if left_over:
        typer.echo(left_over, err=True)
    if left_over or count(results, Level.FAILED):
        raise typer.Exit(ExitCode.UNWELL)


def _subject(
    context: typer.Context, chosen: Settings, in_force: OptionValues, namespaces: Sequence[str], scratch: str, metrics_at: str, *, pre: bool
) -> Subject:
    config, problems = None, list[str]()
    if in_force.file is not None or pre or any(in_force.settings[name].given for name in _SOURCES):
        try:
            config = server_config(in_force, os.environ)
        except ConfigError as error:
            problems += error.problems
    target, tls = chosen.server, chosen.tls
    said = context.parent is not None and getattr(context.parent.get_parameter_source("server"), "name", "") != "DEFAULT"
    if config is not None and not said:
        listen = config.listen
        target = str(listen._replace(host="127.0.0.1") if listen.unspecified else listen)
        tls = True if tls is None and config.tls is not None else tls
    if config is not None and config.metrics_listen is not None and not metrics_at:
        at = config.metrics_listen
        metrics_at = str(at._replace(host="127.0.0.1") if at.unspecified else at)
    check_target(target)
    looked_at = dict.fromkeys([*namespaces, *([scratch] if scratch.count("/") == 1 else [])])
    if wrong := next((each for each in looked_at if each.count("/") != 1 or not all(each.split("/"))), None):
        raise typer.BadParameter(f'"{wrong}" is not a namespace: write tenant/namespace.', param_hint="--namespace")
    return Subject(target, tls, list(looked_at), scratch, metrics_at, config, problems, pre)


async def _examined(subject: Subject, chosen: Settings, looking: Silent) -> tuple[list[Result], str]:
    """Returns the results, and a message about the scratch change if it could not be reverted."""
    results: list[Result] = []
    async with contextlib.AsyncExitStack() as stack:
        checks = [*_of_options(subject)]
        scratch = None
        if not subject.pre:
            shown = ShownToken(chosen.token_file)
            client = await stack.enter_async_context(
                AsyncClient(subject.target, tls=subject.tls, token=shown.token, actor=_sendable(chosen.actor))
            )
            checks += _of_server(subject, client, shown)
            scratch = Scratch(client, subject.scratch) if subject.scratch else None
            checks += _of_scratch(scratch)
        if subject.config is not None:
            checks += await stack.enter_async_context(_of_operator(subject.config, subject.namespaces))
        try:
            async for result in examine(checks, looking.begins):
                results.append(result)
                looking.ended(result)
        finally:
            left_over = "" if scratch is None else await cleaned(scratch)
            if left_over and sys.exc_info()[0] is not None:
                typer.echo(left_over, err=True)
    return results, left_over


def _of_options(subject: Subject) -> list[Check]:
    async def run() -> Finding:
        return failed(" ".join(subject.problems)) if subject.problems else ok()

    if not subject.problems and subject.config is None:
        return []
    check = Check(
        name="options.valid",
        holds="the server's options are valid",
        why="serve does not start with invalid options.",
        run=run,
        remedy="Correct them: topicpolicies config shows the options in force, and the source of each.",
    )
    return [check]


def _of_server(subject: Subject, client: AsyncClient, shown: ShownToken) -> list[Check]:
    target, tls = subject.target, subject.tls
    place = places_of(target)[0]
    limits = dataclasses.asdict(subject.config.limits) if subject.config is not None else {}
    return [
        *reaching(target, tls),
        *certificates(place, tls, used=wants_tls(target, tls)),
        *shown.checks(),
        *sidecar(target, tls, client, subject.namespaces),
        *clock(subject.metrics),
        *metrics(subject.metrics, limits),
    ]


def _of_scratch(scratch: Scratch | None) -> list[Check]:
    async def run() -> Finding:
        return Finding(Level.SKIPPED, "it needs a namespace: --scratch TENANT/NAMESPACE")

    if scratch is not None:
        return scratch.checks()
    return [Check(name="scratch.change", holds="a change and its removal", why="Changes are what the server is for.", run=run, remedy="")]


@asynccontextmanager
async def _of_operator(config: ServerConfig, namespaces: Sequence[str]) -> AsyncIterator[list[Check]]:
    checks = disk(config)
    if not isinstance(config.log, PulsarLogConfig):
        yield checks
        return
    from .brokers import AdminRequests, brokers  # noqa: PLC0415 - what clients have no use for need not be installed

    requests = AdminRequests(config.log)
    try:
        yield [*brokers(config.log, requests, namespaces, needs_superuser=_needs_superuser(config)), *checks]
    finally:
        await requests.close()


def _needs_superuser(config: ServerConfig) -> bool:
    """Whether the server learns the superusers only from the brokers' configuration, which brokers show only to superusers."""
    return config.authorization.brokers and not config.authorization.superuser_roles


def _sendable(actor: str) -> str:
    return actor if actor.isascii() and actor.isprintable() and actor == actor.strip() else ""
