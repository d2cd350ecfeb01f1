"""Signals that a server outlives, and which commands are servers: known before anything is imported that takes a moment."""

from __future__ import annotations

import signal

SERVERS = frozenset({"serve", "guard", "demo"})
"""Commands that run until they are told to stop, and deal with signals themselves."""
ASKING = tuple(getattr(signal, name) for name in ("SIGHUP", "SIGUSR1", "SIGUSR2") if hasattr(signal, name))
"""Signals that ask for something. Windows has none of them."""


def outlived(_number: int, _frame: object) -> None:
    """A handler, and not ``SIG_IGN``, which processes that are begun from here would inherit."""
