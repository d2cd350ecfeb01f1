"""What commands that run until a signal stops them have in common: log lines, and errors of the configuration and the start."""

from __future__ import annotations

import errno
import json
import logging
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import typer

from ..config import Address, ConfigError, LogFormat, LogLevel
from ..core.errors import PolicyError
from ..escaping import printable
from ..ops.log import set_up_logging
from .exits import ExitCode, report_other
from .settings import Output

if TYPE_CHECKING:
    from ..process import Service

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
    running = False

    def started() -> None:
        nonlocal running
        running = True

    try:
        for each in addresses:
            if each is not None and (refused := _refusal(each)):
                raise _NotBoundError(f"nothing can listen on {each}: {refused}.")
        yield started
    except (typer.Exit, typer.Abort):  # end the command, and are RuntimeErrors
        raise
    except (PolicyError, OSError, RuntimeError) as error:
        if running and not isinstance(error, PolicyError):
            raise
        reason, why = _why(error)
        sentence = f"{what} {'ended' if running else 'could not start'}: {why}"
        if form is LogFormat.TEXT:
            report_other(reason, sentence, output)
        else:
            _LOG.critical("%s", sentence, extra={"fields": {"reason": str(reason)}})
        raise typer.Exit(ExitCode.ERROR if running else ExitCode.NOT_STARTED) from None


def _why(error: PolicyError | OSError | RuntimeError) -> tuple[str, str]:
    """Returns the reason, for programs, and the explanation, for people."""
    if isinstance(error, PolicyError):
        return error.reason, error.message
    if isinstance(error, _NotBoundError):
        return "ADDRESS", str(error)
    if isinstance(error, OSError) and error.filename:
        return "FILE", f"{error.filename} can't be used ({error.strerror}): name another place."
    return "START", f"{error.strerror if isinstance(error, OSError) and error.strerror else error}."


class _NotBoundError(OSError):
    """Nothing can listen on an address. The text is a sentence that says which and why."""


_IN_USE = "another program listens there; stop it, or name another address"
_HINTS = {
    errno.EACCES: "this user lacks the permission; name a port above 1023",
    errno.EADDRINUSE: _IN_USE,
    errno.EADDRNOTAVAIL: "this machine has no such address; name one that it has",
}


def _refusal(address: Address) -> str:
    """Returns why an address can't be listened on, found out by trial, because gRPC's error does not say why; empty: it can be."""
    if address.path:
        return _refusal_of_socket(address.path)
    try:
        places = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError):
        return "the host name can't be resolved; name another address"
    refused: list[OSError] = []
    for family, kind, protocol, _, place in places:
        try:
            with socket.socket(family, kind, protocol) as tried:
                tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                tried.bind(place)
        except OSError as error:
            refused.append(error)
        else:
            return ""
    first = next((each for each in refused if each.errno == errno.EADDRINUSE), refused[0])
    return _HINTS.get(first.errno or 0, f"{first.strerror}; name another address")


def _refusal_of_socket(path: str) -> str:
    """Returns the same of a Unix socket. gRPC would silently replace the socket of another program that listens there."""
    folder = Path(path).absolute().parent
    if not (folder.is_dir() and os.access(folder, os.W_OK)):
        return "its directory does not exist or can't be written; name another path"
    with socket.socket(socket.AF_UNIX) as tried:
        tried.settimeout(1)
        try:
            tried.connect(path)
        except (BlockingIOError, TimeoutError):
            return _IN_USE  # a program listens, and its queue of connections is full
        except OSError:
            return ""  # no program listens; any other problem is reported when the server listens
    return _IN_USE


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
    from ..process import run  # noqa: PLC0415 - what a process runs is not part of every command

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
