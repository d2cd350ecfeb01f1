"""A process that runs a server or a guard until it is told to stop: its start, its signals and its end, on the fastest loop there is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol, TypeVar

from .garbage import rarely_looked_for
from .namespaces.activity import Activity
from .namespaces.registry import Registry
from .rereading import Rereading
from .signals import outlive_hangups, until_told_to_stop


class Service(Protocol):
    """What such a process runs."""

    @property
    def registry(self) -> Registry:
        """Its namespaces, whose repairs signals pause and resume. There is one once it is started."""

    @property
    def rereading(self) -> Rereading:
        """What it reads anew, which SIGHUP asks for."""

    async def start(self) -> None:
        """Begins. What fails to start has given back what it had taken."""

    async def stop(self) -> None:
        """Finishes what was accepted, and gives back what it has, whatever fails meanwhile."""


_Service = TypeVar("_Service", bound=Service)


async def until_stopped(
    make: Callable[[], _Service],
    started: Callable[[_Service], None] = lambda _: None,
    around: Callable[[Activity], AbstractContextManager[None]] = lambda _: nullcontext(),
) -> None:
    """Runs a service until SIGTERM or SIGINT, then stops it. A second signal ends it at once.

    SIGUSR1 and SIGUSR2 pause and resume repairs; SIGHUP has files read anew.

    Args:
        make: makes the service, on the loop that it is to run on.
        started: called when it has started.
        around: what holds for the process while it runs.

    Raises:
        PolicyError: it can't start.
        OSError: it can't start, because of a file or an address.
    """
    outlive_hangups()
    service = make()
    await service.start()
    try:
        with around(service.registry.activity):
            await until_told_to_stop(service.registry.gate, lambda: started(service), service.rereading.ask)
    finally:
        await service.stop()


def run(make: Callable[[], _Service], started: Callable[[_Service], None] = lambda _: None) -> None:
    """Runs a service in this process, which is its own, until it is told to stop (see ``until_stopped``), on uvloop where there is one."""
    try:
        import uvloop  # noqa: PLC0415
    except ImportError:
        asyncio.run(until_stopped(make, started, rarely_looked_for))
    else:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(until_stopped(make, started, rarely_looked_for))
