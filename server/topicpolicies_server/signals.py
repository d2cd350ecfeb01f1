"""The signals that control a running server without ending it: SIGHUP, SIGUSR1 and SIGUSR2.

They never end the process, not even while it starts or stops: their sender wants it to go on. The module imports little, so ``__main__``
can use it at once.
"""

from __future__ import annotations

import atexit
import signal
from collections.abc import Callable

SERVERS = frozenset({"serve", "guard", "demo"})
"""The commands that run until they are told to stop, and handle signals themselves."""
CONTROL_SIGNALS = tuple(getattr(signal, name) for name in ("SIGHUP", "SIGUSR1", "SIGUSR2") if hasattr(signal, name))
"""The signals that request an action of a running server (``process``). Windows has none of them."""


def ignore_control_signals() -> None:
    """Makes SIGHUP, SIGUSR1 and SIGUSR2 harmless: they no longer end the process."""
    for each in CONTROL_SIGNALS:
        install(each, _ignore)


def install(number: int, handler: Callable[[int, object], object] | int) -> None:
    """Installs a signal's handler. The handler is replaced in one step, so there is no moment in which the signal would end the process.

    Event loops are not used for this: removing a handler from a loop restores the signal's default effect first.
    """
    try:
        signal.signal(number, handler)
    except ValueError:  # raised on any thread but the main one
        return


def _ignore(_number: int, _frame: object) -> None:
    """Handles a signal by doing nothing. It is used in place of ``SIG_IGN``, which child processes would inherit."""


@atexit.register
def _ignore_at_exit() -> None:
    """Ignores the signals at exit: the interpreter restores the default effect of all other signals before the process has ended."""
    for each in CONTROL_SIGNALS:
        if signal.getsignal(each) is _ignore:
            install(each, signal.SIG_IGN)
