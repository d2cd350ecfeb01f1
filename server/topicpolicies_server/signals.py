"""The signals of a running server or guard.

SIGTERM and SIGINT stop it, SIGUSR1 pauses repairs, SIGUSR2 resumes them, and SIGHUP has certificates and other files read anew. The last
three never end the process, not even while it starts or stops: their sender wants it to go on.

Pausing is a signal and not a call of the service, because it is for the operator of the process, perhaps at a moment when they do not trust
what it does, and the system lets no other user send signals. Sending a signal twice does no harm; the log and the metrics show what is in
force.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import logging
import signal
from collections.abc import Callable
from types import FrameType

from .control_signals import CONTROL_SIGNALS, ignore_signal
from .namespaces.repair_queue import RepairQueue

_LOG = logging.getLogger(__name__)


def ignore_control_signals() -> None:
    """Makes SIGHUP, SIGUSR1 and SIGUSR2 harmless: they no longer end the process. Only ``until_told_to_stop`` gives them an effect."""
    for each in CONTROL_SIGNALS:
        _install(each, ignore_signal)


def _install(number: int, handler: Callable[[int, FrameType | None], object] | int) -> None:
    """Installs a signal's handler. The handler is replaced in one step, so there is no moment in which the signal would end the process.

    Event loops are not used for this: removing a handler from a loop restores the signal's default effect first.
    """
    with contextlib.suppress(ValueError):  # raised on any thread but the main one
        signal.signal(number, handler)


@atexit.register
def _ignore_at_exit() -> None:
    """Ignores the signals at exit: the interpreter restores the default effect of all other signals before the process has ended."""
    for each in CONTROL_SIGNALS:
        if signal.getsignal(each) is ignore_signal:
            _install(each, signal.SIG_IGN)


async def until_told_to_stop(
    repairs: RepairQueue, listening: Callable[[], None] = lambda: None, read_anew: Callable[[], None] = lambda: None
) -> None:
    """Waits for SIGTERM or SIGINT, and handles the other signals meanwhile. A second SIGTERM or SIGINT then has its default effect.

    On a system without such signals (Windows), waits until it is cancelled.

    Args:
        repairs: SIGUSR1 and SIGUSR2 pause and resume them.
        listening: called once the signals are handled: as soon as a server says that it runs, it may be told to stop.
        read_anew: called at SIGHUP.
    """
    loop = asyncio.get_running_loop()
    asked = asyncio.Event()

    def pause() -> None:
        _LOG.warning("repairs are paused until SIGUSR2 (%d wait)", repairs.waiting)
        repairs.pause()

    def resume() -> None:
        _LOG.warning("repairs are resumed (%d have waited)", repairs.waiting)
        repairs.resume()

    def reload() -> None:
        _LOG.info("files are read again")
        read_anew()

    stopping = (signal.SIGTERM, signal.SIGINT)
    with contextlib.suppress(NotImplementedError):
        for each in stopping:
            loop.add_signal_handler(each, asked.set)
    for number, handler in zip(CONTROL_SIGNALS, (reload, pause, resume), strict=False):
        _install(number, lambda *_, handler=handler: loop.call_soon_threadsafe(handler))
    try:
        listening()
        await asked.wait()
        _LOG.info("stopping: finishing what was accepted")
    finally:
        ignore_control_signals()
        with contextlib.suppress(NotImplementedError):
            for each in stopping:
                loop.remove_signal_handler(each)
