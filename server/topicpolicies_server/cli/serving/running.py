"""What the commands share that run until they are told to stop: their log, and how they end that can't start."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import typer

from ...config import Address, ConfigError, LogFormat, LogLevel
from ...core.errors import PolicyError
from ...lines import tell_lines
from ..exits import ExitCode, tell_other
from ..settings import Output
from .addresses import NotBoundError, check_addresses

if TYPE_CHECKING:
    from ...process import Service

_LOG = logging.getLogger(__name__)
_Service = TypeVar("_Service", bound="Service")


@contextmanager
def telling_problems(output: Output) -> Iterator[None]:
    """Tells what is wrong with a configuration, all of it, and ends the command."""
    try:
        yield
    except ConfigError as error:
        tell_problems(error, output)
        raise typer.Exit(ExitCode.USAGE) from None


def tell_problems(error: ConfigError, output: Output) -> None:
    """Tells what is wrong with a configuration on standard error: a sentence each, or one JSON document."""
    if output is Output.JSON:
        violations = [{"field": "", "reason": "CONFIGURATION", "description": problem} for problem in error.problems]
        told = {"code": "INVALID_ARGUMENT", "reason": "CONFIGURATION", "message": str(error), "violations": violations}
        typer.echo(json.dumps({"error": told}), err=True)
        return
    for problem in error.problems:
        typer.echo(f"Error: {problem}", err=True)


@contextmanager
def starting(what: str, output: Output, *addresses: Address | None, form: LogFormat = LogFormat.TEXT) -> Iterator[Callable[[], None]]:
    """Ends the command with a sentence when ``what`` could not start. Gives what is to be called once it has.

    Args:
        what: the subject of the sentence.
        output: how it is told.
        addresses: where it was to listen.
        form: how lines are written; but for people, that it could not start is a line like all others.
    """
    wanted = [each for each in addresses if each is not None]
    running = False

    def started() -> None:
        nonlocal running
        running = True

    try:
        check_addresses(wanted)  # before anything is opened, and before gRPC tells of it in its own words
        yield started
    except (typer.Exit, typer.Abort):  # the end of the command itself, which Typer makes a RuntimeError
        raise
    except (PolicyError, OSError, RuntimeError) as error:
        if running and not isinstance(error, PolicyError):
            raise
        reason, why = _why(error, wanted)
        sentence = f"{what} {'ended' if running else 'could not start'}: {why}"
        if form is LogFormat.TEXT:
            tell_other(reason, sentence, output)
        else:
            _LOG.critical("%s", sentence, extra={"fields": {"reason": str(reason)}})
        raise typer.Exit(ExitCode.ERROR if running else ExitCode.NOT_STARTED) from None


def _why(error: PolicyError | OSError | RuntimeError, addresses: list[Address]) -> tuple[str, str]:
    """The reason for programs, and the sentence."""
    if isinstance(error, PolicyError):
        return error.reason, error.message
    if isinstance(error, OSError) and error.filename:
        return "FILE", f"{error.filename} can't be used ({error.strerror}): name another place."
    try:
        check_addresses(addresses)  # somebody may have been faster
    except NotBoundError as not_bound:
        return "ADDRESS", str(not_bound)
    return "START", f"{error.strerror if isinstance(error, OSError) and error.strerror else error}."


def run_until_told(
    what: str,
    output: Output,
    lines: tuple[LogLevel, LogFormat],
    addresses: Sequence[Address | None],
    make: Callable[[], _Service],
    said: Callable[[_Service], Sequence[str]],
) -> None:
    """Runs a server or a guard, with a log on standard error, until it is told to stop.

    Args:
        what: the subject of the sentence that tells that it could not start.
        output: how that is told.
        lines: of the log: how much, and how they are written.
        addresses: where it is to listen.
        make: makes it.
        said: what is said on standard error once it runs.

    Raises:
        typer.Exit: it could not start, or ended with an error.
    """
    from ...process import run  # noqa: PLC0415 - what a process runs is not part of every command

    tell_lines(*lines)
    form = lines[1]

    def running(service: _Service) -> None:
        started()
        for line in said(service):
            if form is LogFormat.TEXT:
                typer.echo(line, err=True)
            else:
                _LOG.info("%s", line)

    with starting(what, output, *addresses, form=form) as started:
        run(make, running)
