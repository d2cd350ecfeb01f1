"""Notes on standard error: that a command waits for its server, and that its server could not confirm an answer."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import typer

from topicpolicies import Client

from ..escaping import printable
from . import forms
from .settings import Settings

SILENT_SECONDS = 3.0
"""How long a command waits before it says so."""
_KEY = "topicpolicies-unconfirmed-since"
_READS = ("GetPolicy", "GetEffectivePolicy", "ListPolicies", "GetPolicyAsOf", "ListHistory")


@contextmanager
def waiting(chosen: Settings, what: str = "") -> Iterator[Callable[[], None]]:
    """Writes one line on standard error if the body takes long; nothing for programs, or if standard error is no terminal.

    Args:
        chosen: the global options.
        what: what the command is doing; empty: it waits for one answer, until ``--timeout``.

    Yields:
        A function that the body may call before its end, when it has something to show: no line is written after that.
    """
    if chosen.for_programs or chosen.timeout_seconds <= SILENT_SECONDS or not sys.stderr.isatty():
        yield lambda: None
        return
    told = what or f"Waiting for {printable(chosen.server)}, for {chosen.timeout_seconds:g} s at most (--timeout)"
    timer = threading.Timer(SILENT_SECONDS, lambda: typer.echo(f"{told} ...", err=True))
    timer.daemon = True
    timer.start()
    try:
        yield timer.cancel
    finally:
        timer.cancel()


def note_unconfirmed(client: Client, *, json: bool) -> None:
    """From now on, prints since when the client's answers could not be confirmed; once, and nothing if all are confirmed.

    Args:
        client: the client of the command.
        json: whether to print a JSON document of its own, so that the JSON of the answer stays the same.
    """
    noted = False

    def noting(method: Any) -> Callable[..., Any]:
        def call(request: Any, **options: Any) -> Any:
            nonlocal noted
            answer, about = method.with_call(request, **options)
            since = dict(about.trailing_metadata() or ()).get(_KEY)
            if since and not noted:
                noted = True
                _note(datetime.fromisoformat(since), json=json)
            return answer

        return call

    for stub in (client.stub, client.history_stub):
        for name in _READS:
            if hasattr(stub, name):
                setattr(stub, name, noting(getattr(stub, name)))


def _note(since: datetime, *, json: bool) -> None:
    if json:
        typer.echo(forms.dumps({"unconfirmed_since": since.isoformat(timespec="milliseconds")}), err=True)
        return
    shown = since.astimezone().isoformat(sep=" ", timespec="milliseconds")
    typer.echo(f"The server has not reached the change log since {shown}: there may be newer changes than these.", err=True)
