"""What a running process is told by signals.

SIGTERM and SIGINT to stop, SIGUSR1 to pause repairs, SIGUSR2 to go on with them, SIGHUP to read its certificates and other files anew.
The last three never end it, not while it starts or stops either: who says them wants it to go on.

Signals, and no call of the service: pausing is for whoever operates the process, in a moment in which he may not trust what it does, and
the system lets nobody else send them. They can be sent twice; what holds is shown in the log and in the metrics.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import logging
import signal
from collections.abc import Callable
from types import FrameType

from .namespaces.gate import Gate
from .outliving import ASKING, outlived

_LOG = logging.getLogger(__name__)


def outlive_hangups() -> None:
    """SIGHUP ends the process no more, nor do SIGUSR1 and SIGUSR2; what they ask for is done while ``until_told_to_stop`` waits."""
    for each in ASKING:
        _hear(each, outlived)


def _hear(number: int, handler: Callable[[int, FrameType | None], object] | int) -> None:
    """Has a signal handled. Its handler is replaced at once: there is no moment in which the signal would end the process.

    An event loop that is to forget a signal gives it back its usual effect first, so none is asked to handle it.
    """
    with contextlib.suppress(ValueError):  # a thread that is not the main one
        signal.signal(number, handler)


@atexit.register
def _outlive_the_end() -> None:
    """The interpreter gives all signals but those that are ignored their usual effect back, before it has ended."""
    for each in ASKING:
        if signal.getsignal(each) is outlived:
            _hear(each, signal.SIG_IGN)


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

    stopping = (signal.SIGTERM, signal.SIGINT)
    with contextlib.suppress(NotImplementedError):
        for each in stopping:
            loop.add_signal_handler(each, asked.set)
    for number, handler in zip(ASKING, (reread, pause, resume), strict=False):
        _hear(number, lambda *_, handler=handler: loop.call_soon_threadsafe(handler))
    try:
        listening()
        await asked.wait()
        _LOG.info("stopping: finishing what was accepted")
    finally:
        outlive_hangups()
        with contextlib.suppress(NotImplementedError):
            for each in stopping:
                loop.remove_signal_handler(each)
