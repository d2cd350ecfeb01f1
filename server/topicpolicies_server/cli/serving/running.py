"""What the commands share that run until they are told to stop: their log, and how they end that can't start."""

from __future__ import annotations

import errno
import json
import logging
import os
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from ...config import Address, ConfigError, LogLevel
from ...core.errors import PolicyError
from ..exits import ExitCode, tell_other
from ..settings import Output


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
def starting(what: str, output: Output, *addresses: Address | None) -> Iterator[Callable[[], None]]:
    """Ends the command with a sentence when ``what`` could not start. Gives what is to be called once it has.

    Args:
        what: the subject of the sentence.
        output: how it is told.
        addresses: where it was to listen.
    """
    running = False

    def started() -> None:
        nonlocal running
        running = True

    try:
        yield started
    except (typer.Exit, typer.Abort):  # the end of the command itself, which Typer makes a RuntimeError
        raise
    except (PolicyError, OSError, RuntimeError) as error:
        if running and not isinstance(error, PolicyError):
            raise
        reason, why = _why(error, [each for each in addresses if each is not None])
        tell_other(reason, f"{what} {'ended' if running else 'could not start'}: {why}", output)
        raise typer.Exit(ExitCode.ERROR if running else ExitCode.NOT_STARTED) from None


def _why(error: PolicyError | OSError | RuntimeError, addresses: list[Address]) -> tuple[str, str]:
    """The reason for programs, and the sentence."""
    if isinstance(error, PolicyError):
        return error.reason, error.message
    if isinstance(error, OSError) and error.filename:
        return "FILE", f"{error.filename} can't be used ({error.strerror}): name another place."
    for address in addresses:
        if why := _why_not_bound(address):
            return "ADDRESS", why
    return "START", f"{error.strerror if isinstance(error, OSError) and error.strerror else error}."


def refuse_taken_socket(address: Address) -> None:
    """Looks whether somebody listens on a Unix socket: gRPC would put its own in the place of it without a word.

    Raises:
        OSError: somebody does.
    """
    if address.path:
        with socket.socket(socket.AF_UNIX) as tried:
            tried.settimeout(1)
            try:
                tried.connect(address.path)
            except (BlockingIOError, TimeoutError):
                pass  # more want to connect than are let in: somebody listens
            except OSError:
                return  # nobody listens; what else is wrong with it is said when it is listened on
        raise OSError(errno.EADDRINUSE, "another program listens there", address.path)


_HINTS = {
    errno.EADDRINUSE: "another program listens there; stop that one, or name another address",
    errno.EACCES: "this user may not; name a port above 1023",
    errno.EADDRNOTAVAIL: "this machine has no such address; name one that it has",
}


def _why_not_bound(address: Address) -> str | None:
    """Why the system refuses to listen there, asked again, because gRPC does not tell. None if it does not refuse."""
    if address.path:
        folder = Path(address.path).absolute().parent
        refused = not (folder.is_dir() and os.access(folder, os.W_OK))
        return f"nothing can listen on {address}: its directory is not there, or can't be written; name another path." if refused else None
    try:
        for family, kind, protocol, _, place in socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM):
            with socket.socket(family, kind, protocol) as tried:
                tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                tried.bind(place)
    except socket.gaierror:
        return f"nothing can listen on {address}: nobody knows this host; name another address."
    except OSError as error:
        return f"nothing can listen on {address}: {_HINTS.get(error.errno or 0, error.strerror)}."
    return None


def log_to_standard_error(level: LogLevel) -> None:
    """Sets up the log."""
    logging.basicConfig(level=level.name, stream=sys.stderr, format="%(asctime)s %(levelname)-7s %(name)s: %(message)s", force=True)
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it would tell of every question to Pulsar's admin API
