"""What the commands share that run until they are told to stop: their log, the options about repairs, and what is wrong with them."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, TypeAlias

import typer

from ..config import MOST_RECALLED_ENTRIES, ConfigError, Limits, LogLevel
from ..core.errors import PolicyError
from .exits import ExitCode, tell_other
from .settings import Output

_REPAIRS = "Repairs"

PauseRepairs: TypeAlias = Annotated[
    bool,
    typer.Option("--pause-repairs", help="Begin with repairs paused; SIGUSR2 resumes, SIGUSR1 pauses again.", rich_help_panel=_REPAIRS),
]
RepairRate: TypeAlias = Annotated[
    float,
    typer.Option("--max-repairs-per-second", metavar="N", help="The most repairs in a second, on average.", rich_help_panel=_REPAIRS),
]
RecalledEntries: TypeAlias = Annotated[
    int,
    typer.Option(
        "--recalled-entries",
        metavar="N",
        min=0,
        max=MOST_RECALLED_ENTRIES,
        help="Read so many of Pulsar's entries as they were, although compacted.",
        rich_help_panel=_REPAIRS,
    ),
]
REPAIR_RATE = Limits().max_repairs_per_second
QuestionRate: TypeAlias = Annotated[
    float,
    typer.Option("--max-questions-per-second", metavar="N", help="The most questions of a guard about which namespaces there are."),
]
QUESTION_RATE = Limits().max_guard_questions_per_second
MetricsListen: TypeAlias = Annotated[
    str, typer.Option("--metrics-listen", metavar="HOST:PORT", help="Where to show metrics (Prometheus), over HTTP without TLS.")
]
Level: TypeAlias = Annotated[LogLevel, typer.Option("--log-level", help="How much to tell on standard error.")]


@contextmanager
def telling_problems(output: Output) -> Iterator[None]:
    """Tells what is wrong with a configuration, all of it, and ends the command."""
    try:
        yield
    except ConfigError as error:
        for problem in error.problems:
            tell_other("CONFIGURATION", problem, output)
        raise typer.Exit(ExitCode.USAGE) from None


@contextmanager
def starting(what: str) -> Iterator[None]:
    """Ends the command with a sentence when ``what`` could not start."""
    try:
        yield
    except (PolicyError, OSError, RuntimeError) as error:
        typer.echo(f"Error: {what} could not start: {error}", err=True)
        raise typer.Exit(ExitCode.ERROR) from None


def log_to_standard_error(level: LogLevel) -> None:
    """Sets up the log."""
    logging.basicConfig(level=level.name, stream=sys.stderr, format="%(asctime)s %(levelname)-7s %(name)s: %(message)s", force=True)
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it would tell of every question to Pulsar's admin API
