"""What commands that run until a signal stops them have in common: log lines, and errors of the configuration and the start."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import typer

from ...config import Address, ConfigError, LogFormat, LogLevel
from ...core.errors import PolicyError
from ...escaping import printable
from ...ops.log import set_up_logging
from ..exits import ExitCode, report_other
from ..settings import Output
from .addresses import NotBoundError, check_addresses

if TYPE_CHECKING:
    from ...process import Service

_LOG = logging.getLogger(__name__)
_Service = TypeVar("_Service", bound="Service")


@contextmanager
def reporting_problems(output: Output) -> Iterator[None]:
    """Reports all problems of a wrong configuration, and ends the command.

    Raises:
        typer.Exit: the body raised ConfigError.
    """
    try:
        yield
    except ConfigError as error:
        report_problems(error, output)
        raise typer.Exit(ExitCode.USAGE) from None


def report_problems(error: ConfigError, output: Output) -> None:
    """Reports the problems of a configuration on standard error: a line each, or one JSON document."""
    if output is Output.JSON:
        violations = [{"field": "", "reason": "CONFIGURATION", "description": problem} for problem in error.problems]
        told = {"code": "INVALID_ARGUMENT", "reason": "CONFIGURATION", "message": str(error), "violations": violations}
        typer.echo(json.dumps({"error": told}), err=True)
        return
    for problem in error.problems:
        typer.echo(f"Error: {printable(problem)}", err=True)


@contextmanager
def starting(what: str, output: Output, *addresses: Address | None, form: LogFormat = LogFormat.TEXT) -> Iterator[Callable[[], None]]:
    """Ends the command with a message if ``what`` could not start. Yields a function to be called once it has started.

    Args:
        what: the subject of the message.
        output: the form of the message, if ``form`` is TEXT.
        addresses: where ``what`` is to listen.
        form: the format of log lines; unless it is TEXT, the message is a log line too.

    Raises:
        typer.Exit: the addresses can't be listened on, or the body failed to start or, with a PolicyError, to go on.
    """
    wanted = [each for each in addresses if each is not None]
    running = False

    def started() -> None:
        nonlocal running
        running = True

    try:
        check_addresses(wanted)  # before anything is opened, and before gRPC reports it less clearly
        yield started
    except (typer.Exit, typer.Abort):  # end the command, and are RuntimeErrors
        raise
    except (PolicyError, OSError, RuntimeError) as error:
        if running and not isinstance(error, PolicyError):
            raise
        reason, why = _why(error, wanted)
        sentence = f"{what} {'ended' if running else 'could not start'}: {why}"
        if form is LogFormat.TEXT:
            report_other(reason, sentence, output)
        else:
            _LOG.critical("%s", sentence, extra={"fields": {"reason": str(reason)}})
        raise typer.Exit(ExitCode.ERROR if running else ExitCode.NOT_STARTED) from None


def _why(error: PolicyError | OSError | RuntimeError, addresses: list[Address]) -> tuple[str, str]:
    """Returns the reason, for programs, and the explanation, for people."""
    if isinstance(error, PolicyError):
        return error.reason, error.message
    if isinstance(error, OSError) and error.filename:
        return "FILE", f"{error.filename} can't be used ({error.strerror}): name another place."
    try:
        check_addresses(addresses)  # another program may have begun to listen meanwhile
    except NotBoundError as not_bound:
        return "ADDRESS", str(not_bound)
    return "START", f"{error.strerror if isinstance(error, OSError) and error.strerror else error}."


def run_until_signalled(
    what: str,
    output: Output,
    lines: tuple[LogLevel, LogFormat],
    addresses: Sequence[Address | None],
    make: Callable[[], _Service],
    said: Callable[[_Service], Sequence[str]],
) -> None:
    """Runs a server or a guard, which logs on standard error, until a signal stops it.

    Args:
        what: the subject of the message if it could not start.
        output: the form of that message.
        lines: the level and the format of log lines.
        addresses: where it is to listen.
        make: makes the server or guard.
        said: returns the lines to print on standard error once it runs.

    Raises:
        typer.Exit: the server or guard could not start, or ended with an error.
    """
    from ...process import run  # noqa: PLC0415 - what a process runs is not part of every command

    set_up_logging(*lines)
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
