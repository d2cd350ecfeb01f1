"""Runs a server or a guard as a process of its own, until it is told to stop: its start, its signals and its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol, TypeVar

from .garbage import tuned_collector
from .namespaces.activity import Activity
from .namespaces.registry import Registry
from .reloading import Reloader
from .signals import ignore_control_signals, until_told_to_stop


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


async def until_stopped(
    make: Callable[[], _Service],
    started: Callable[[_Service], None] = lambda _: None,
    around: Callable[[Activity], AbstractContextManager[None]] = lambda _: nullcontext(),
) -> None:
    """Runs a service until SIGTERM or SIGINT, then stops it. A second such signal ends the process at once.

    SIGUSR1 and SIGUSR2 pause and resume repairs; SIGHUP has files read anew.

    Args:
        make: makes the service, on the event loop that it will run on.
        started: called when the service has started.
        around: makes a context manager that is entered while the service runs.

    Raises:
        PolicyError: the service can't start.
        OSError: the service can't start, because of a file or an address.
    """
    ignore_control_signals()
    service = make()
    await service.start()
    try:
        with around(service.registry.activity):
            await until_told_to_stop(service.registry.repairs, lambda: started(service), service.reloader.reload_now)
    finally:
        await service.stop()


def run(make: Callable[[], _Service], started: Callable[[_Service], None] = lambda _: None) -> None:
    """Runs a service in a process of its own until it is told to stop (see ``until_stopped``); on uvloop, if that is installed."""
    try:
        import uvloop  # noqa: PLC0415
    except ImportError:
        asyncio.run(until_stopped(make, started, tuned_collector))
    else:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(until_stopped(make, started, tuned_collector))
