"""Runs a server or a guard as a process of its own, until it is told to stop: its start, its signals, its garbage collector and its end.

SIGTERM and SIGINT stop it, SIGUSR1 pauses repairs, SIGUSR2 resumes them, and SIGHUP has certificates and other files read anew. Pausing is
a signal and not a call of the service, because it is for the operator of the process. SIGHUP, SIGUSR1 and SIGUSR2 never end the process,
not even while it starts or stops: their sender wants it to go on.

The interpreter's cyclic garbage collector delays every answer while it runs, and its time grows with the objects that it examines. Only
reference cycles need it. So it is tuned for the whole process: it is off during the start, whose objects are set aside (``gc.freeze``), and
collections are rare. A server that is embedded in another program leaves that program's collector as it is.

``__main__`` imports this module before all others, so it imports little.
"""

from __future__ import annotations

import asyncio
import atexit
import gc
import logging
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from .files import Reloader
    from .namespaces.registry import Registry

_LOG = logging.getLogger(__name__)

SERVERS = frozenset({"serve", "guard", "demo"})
"""The commands that run until they are told to stop, and handle signals themselves."""
CONTROL_SIGNALS = tuple(getattr(signal, name) for name in ("SIGHUP", "SIGUSR1", "SIGUSR2") if hasattr(signal, name))
"""The signals that request an action of a running server. Windows has none of them."""
YOUNGEST = 5_000
"""The three thresholds of ``gc.set_threshold``: this one counts objects, the others collections."""
MIDDLE = 2
OLDEST = 200


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
    gc.disable()  # until the service is started
    try:
        import uvloop  # noqa: PLC0415

        loop_factory = uvloop.new_event_loop
    except ImportError:
        loop_factory = None
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(until_stopped(make, started))


async def until_stopped(make: Callable[[], _Service], started: Callable[[_Service], None] = lambda _: None) -> None:
    """Runs a service until SIGTERM or SIGINT, then stops it. A second such signal ends the process at once.

    ``make`` is called on the event loop that the service will run on.

    Raises:
        PolicyError: the service can't start.
        OSError, RuntimeError: the service can't start, because of a file or an address.
    """
    ignore_control_signals()
    service = make()
    await service.start()
    try:
        gc.freeze()
        gc.set_threshold(YOUNGEST, MIDDLE, OLDEST)
        gc.enable()
        await until_told_to_stop(service, lambda: started(service))
    finally:
        await service.stop()


async def until_told_to_stop(service: Service, listening: Callable[[], None] = lambda: None) -> None:
    """Waits for SIGTERM or SIGINT, and handles the other signals meanwhile. A second SIGTERM or SIGINT then has its default effect.

    ``listening`` is called once the signals are handled: as soon as a server says that it runs, it may be told to stop.
    """
    loop, repairs = asyncio.get_running_loop(), service.registry.repairs
    asked = asyncio.Event()

    def pause() -> None:
        _LOG.warning("repairs are paused until SIGUSR2 (%d wait)", repairs.waiting)
        repairs.pause()

    def resume() -> None:
        _LOG.warning("repairs are resumed (%d have waited)", repairs.waiting)
        repairs.resume()

    def reload() -> None:
        _LOG.info("files are read again")
        service.reloader.reload_now()

    stopping = (signal.SIGTERM, signal.SIGINT)
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
        for each in stopping:
            loop.remove_signal_handler(each)


# --- signals --------------------------------------------------------------------------------------------------------


def ignore_control_signals() -> None:
    """Makes SIGHUP, SIGUSR1 and SIGUSR2 harmless: they no longer end the process."""
    for each in CONTROL_SIGNALS:
        _install(each, _ignore)


def _install(number: int, handler: Callable[[int, object], object] | int) -> None:
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
            _install(each, signal.SIG_IGN)
