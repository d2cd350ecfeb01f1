"""Calls of a server: a client with the global options. On standard error it notes that it waits, and what the server could not confirm."""

from __future__ import annotations

import getpass
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import typer
from grpc import StatusCode

from topicpolicies import Client, TokenFile, TopicPoliciesError
from topicpolicies.addresses import is_local, places_of

from ..escaping import printable
from .exits import accepts
from .globals import Globals, tell
from .rendering import dumps

SILENT_SECONDS = 3.0
"""How long a command waits before it says so at a terminal."""
_START_SECONDS = 1.0
"""How long a server on this machine may take to begin to listen."""
_UNCONFIRMED = "topicpolicies-unconfirmed-since"


@contextmanager
def calling(chosen: Globals, *, listening: bool = True) -> Iterator[Client]:
    """Yields a client of the server.

    ``listening``: whether a server has to listen, if its address is of this machine.
    """
    check(chosen)
    token = TokenFile(chosen.token_file) if chosen.token_file is not None else None
    actor = chosen.actor
    if actor is None:  # credentials say who calls
        actor = _login_name() if token is None and chosen.tls_certificate is None else ""
    with Client(chosen.server, tls=chosen.tls, token=token, actor=actor, timeout=chosen.timeout_seconds) as client:
        if listening:
            _check_listening(chosen.server, min(_START_SECONDS, chosen.timeout_seconds))
        noted: set[str] = set()
        for stub in (client.stub, client.history_stub):
            for name, method in list(vars(stub).items()):
                if not name.startswith("Watch"):  # those are answered with streams
                    setattr(stub, name, _noting(method, chosen, noted))
        yield client


def _login_name() -> str:
    """Returns the user's login name; empty: there is none."""
    try:
        return getpass.getuser().encode(errors="replace").decode()
    except (OSError, KeyError, ImportError):
        return ""


def _noting(method: Any, chosen: Globals, noted: set[str]) -> Callable[..., Any]:
    """Returns a method of a stub, which answers with one message, that notes on standard error, once, that answers are not confirmed."""

    def call(request: Any, **options: Any) -> Any:
        with _noting_that_it_waits(chosen, noted):
            answer, about = method.with_call(request, **options)
        since = dict(about.trailing_metadata() or ()).get(_UNCONFIRMED)
        if since and _UNCONFIRMED not in noted:
            noted.add(_UNCONFIRMED)
            moment = datetime.fromisoformat(since)
            shown = moment.astimezone().isoformat(sep=" ", timespec="milliseconds")
            told = f"The server has not reached the change log since {shown}: there may be newer changes than these."
            of_programs = {"unconfirmed_since": moment.isoformat(timespec="milliseconds")}
            if chosen.json:
                typer.echo(dumps(of_programs), err=True)
            else:
                tell(told)
        return answer

    return call


@contextmanager
def _noting_that_it_waits(chosen: Globals, noted: set[str]) -> Iterator[None]:
    told = f"Waiting for {printable(chosen.server)}, for {chosen.timeout_seconds:g} s at most (--timeout) ..."

    def note() -> None:
        if told not in noted:
            noted.add(told)
            tell(told)

    timer = threading.Timer(SILENT_SECONDS, note)
    timer.daemon = True
    if sys.stderr.isatty() and not chosen.for_programs:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


def check(chosen: Globals) -> None:
    """Checks the address, because gRPC reports an invalid port only as a refused connection, and the files that the options name."""
    server = chosen.server
    if server.startswith(("pulsar://", "pulsar+ssl://", "http://", "https://")) or ("@" in server and not server.startswith("unix")):
        option = "--pulsar" if server.startswith("pulsar") else "--admin-url"
        brokers = "" if "@" in server else f" That is the address of brokers: name it to a server, by serve {option} {server}."
        raise typer.BadParameter(f"An address is HOST:PORT of a topic policies server, without a password.{brokers}", param_hint="--server")
    try:
        places_of(server)
    except ValueError as error:
        raise typer.BadParameter(f"{error}.", param_hint="--server") from None
    files = {"--token-file": chosen.token_file, "--tls-ca": chosen.tls_ca}
    files |= {"--tls-certificate": chosen.tls_certificate, "--tls-key": chosen.tls_key}
    for option, path in files.items():
        if path is not None and not path.exists():
            raise typer.BadParameter(f"File '{path}' does not exist.", param_hint=option)


def _check_listening(server: str, seconds: float) -> None:
    """Waits until a server listens, if its address is of this machine: a client would go on trying until its timeout."""
    if not is_local(server) or places_of(server)[0].path:
        return
    end = time.monotonic() + seconds
    while not accepts(server, max(0.1, end - time.monotonic())):
        if time.monotonic() + 0.1 > end:
            told = f"No server listens at {server}. Start one on this machine with topicpolicies serve, or name another with --server."
            raise TopicPoliciesError(told, code=StatusCode.UNAVAILABLE)
        time.sleep(0.1)
