"""The signals that control a running server without ending it, and the commands that run servers.

The module imports little, so ``entry`` can use it at once.
"""

from __future__ import annotations

import signal

SERVERS = frozenset({"serve", "guard", "demo"})
"""The commands that run until they are told to stop, and handle signals themselves."""
CONTROL_SIGNALS = tuple(getattr(signal, name) for name in ("SIGHUP", "SIGUSR1", "SIGUSR2") if hasattr(signal, name))
"""The signals that request an action of a running server (``signals``). Windows has none of them."""


def ignore_signal(_number: int, _frame: object) -> None:
    """Handles a signal by doing nothing. It is used in place of ``SIG_IGN``, which child processes would inherit."""
