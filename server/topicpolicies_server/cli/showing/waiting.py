"""Tells people at a terminal that a command is waiting for its server, so that silence is not taken for a fault."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer

from ...escaping import printable
from ..settings import Settings
from .rendering import console

SILENT_SECONDS = 3.0
"""How long a command waits before it says so."""


@contextmanager
def waiting(chosen: Settings, what: str = "") -> Iterator[Callable[[], None]]:
    """Writes one line on standard error if the body takes long; nothing with ``--output json``, or if standard error is no terminal.

    Args:
        chosen: the global options.
        what: what the command is doing; empty: it waits for one answer, until ``--timeout``.

    Yields:
        A function that the body may call before its end, when it has something to show: no line is written after that.
    """
    if chosen.json or chosen.timeout_seconds <= SILENT_SECONDS or not console(stderr=True).is_terminal:
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
