"""What a running process is told by signals.

SIGTERM and SIGINT to stop, SIGUSR1 to pause repairs, SIGUSR2 to go on with them, SIGHUP to read its certificates and other files anew.
SIGHUP never ends it, not while it starts or stops either: who says it wants it to go on.

Signals, and no call of the service: pausing is for whoever operates the process, in a moment in which he may not trust what it does, and
the system lets nobody else send them. They can be sent twice; what holds is shown in the log and in the metrics.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Callable

from .namespaces.gate import Gate

_LOG = logging.getLogger(__name__)


def outlive_hangups() -> None:
    """SIGHUP ends the process no more; what it asks for is done while ``until_told_to_stop`` waits."""
    with contextlib.suppress(AttributeError, ValueError):  # a system without it (Windows), or a thread that is not the main one
        signal.signal(signal.SIGHUP, _outlived)


def _outlived(_number: int, _frame: object) -> None:
    """A handler, and not ``SIG_IGN``, which processes that are begun from here would inherit."""


async def until_told_to_stop(
    gate: Gate, listening: Callable[[], None] = lambda: None, read_anew: Callable[[], None] = lambda: None
) -> None:
    """Returns at SIGTERM or SIGINT, and pauses and resumes repairs meanwhile. A second signal to stop then has its usual effect.

    Where the system has no such signals (Windows), it waits until it is cancelled.

    Args:
        gate: what repairs pass.
        listening: called once signals are listened to: whoever is told that a server runs may tell it to stop at once.
        read_anew: called at SIGHUP.
    """
    loop = asyncio.get_running_loop()
    asked = asyncio.Event()

    def pause() -> None:
        _LOG.warning("repairs are paused until SIGUSR2 (%d wait)", gate.waiting)
        gate.pause()

    def resume() -> None:
        _LOG.warning("repairs go on (%d have waited)", gate.waiting)
        gate.resume()

    def reread() -> None:
        _LOG.info("files are read anew")
        read_anew()

    handlers = {signal.SIGTERM: asked.set, signal.SIGINT: asked.set}
    if hasattr(signal, "SIGUSR1"):
        handlers |= {signal.SIGUSR1: pause, signal.SIGUSR2: resume, signal.SIGHUP: reread}
    with contextlib.suppress(NotImplementedError):
        for each, handler in handlers.items():
            loop.add_signal_handler(each, handler)
    try:
        listening()
        await asked.wait()
        _LOG.info("stopping: finishing what was accepted")
    finally:
        with contextlib.suppress(NotImplementedError):
            for each in handlers:
                loop.remove_signal_handler(each)
        outlive_hangups()
