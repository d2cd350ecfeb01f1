"""Runs a server or a guard as a process of its own, until it is told to stop: its start, its signals and its end.

SIGTERM and SIGINT stop it, SIGUSR1 pauses repairs, SIGUSR2 resumes them, and SIGHUP has certificates and other files read anew. Pausing is
a signal and not a call of the service, because it is for the operator of the process, perhaps at a moment when they do not trust what it
does, and the system lets no other user send signals. Sending a signal twice does no harm; the log and the metrics show what is in force.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Callable
from typing import Protocol, TypeVar

from .garbage import tuned_collector
from .namespaces.registry import Registry
from .namespaces.repairs import RepairQueue
from .reloading import Reloader
from .signals import CONTROL_SIGNALS, ignore_control_signals, install

_LOG = logging.getLogger(__name__)


class Service(Protocol):
    """A server or a guard."""

    @property
    def registry(self) -> Registry:
        """The service's namespaces, whose repairs SIGUSR1 and SIGUSR2 pause and resume. Available once the service is started."""

    @property
    def reloader(self) -> Reloader:
        """The files that the service reads anew, at SIGHUP at once."""

    async def start(self) -> None:
        """Starts the service. If that fails, everything that was acquired is released."""

    async def stop(self) -> None:
        """Finishes the requests that were accepted, and releases everything, whatever fails meanwhile."""


_Service = TypeVar("_Service", bound=Service)


def run(make: Callable[[], _Service], started: Callable[[_Service], None] = lambda _: None) -> None:
    """Runs a service in a process of its own until it is told to stop (see ``until_stopped``); on uvloop, if that is installed."""
    try:
        import uvloop  # noqa: PLC0415
    except ImportError:
        asyncio.run(until_stopped(make, started, tuned=True))
    else:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(until_stopped(make, started, tuned=True))


async def until_stopped(make: Callable[[], _Service], started: Callable[[_Service], None] = lambda _: None, *, tuned: bool = False) -> None:
    """Runs a service until SIGTERM or SIGINT, then stops it. A second such signal ends the process at once.

    Args:
        make: makes the service, on the event loop that it will run on.
        started: called when the service has started.
        tuned: whether to tune the process's garbage collector meanwhile.

    Raises:
        PolicyError: the service can't start.
        OSError: the service can't start, because of a file or an address.
    """
    ignore_control_signals()
    service = make()
    await service.start()
    try:
        with tuned_collector(service.registry.activity) if tuned else contextlib.nullcontext():
            await until_told_to_stop(service.registry.repairs, lambda: started(service), service.reloader.reload_now)
    finally:
        await service.stop()


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
        install(number, lambda *_, handler=handler: loop.call_soon_threadsafe(handler))
    try:
        listening()
        await asked.wait()
        _LOG.info("stopping: finishing what was accepted")
    finally:
        ignore_control_signals()
        with contextlib.suppress(NotImplementedError):
            for each in stopping:
                loop.remove_signal_handler(each)
