"""The processor time of programs, by their threads.

A server's first thread runs its loop. Those of gRPC have names that begin in one way; all others take what the client library receives and
has acknowledged, or write what is recorded. A thread that has ended meanwhile is not counted.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_GRPC = ("grpc", "event_engine", "timer_manager")


class Used(NamedTuple):
    """Seconds of processor time."""

    loop: float
    """Of the server's event loop."""
    grpc: float
    """Of the threads that have gRPC's names."""
    library: float
    """Of its other threads."""
    broker: float
    """Of all of the broker; 0 where its process is not known."""


class Processors:
    """What a server and the broker beside it have used from one look to the next."""

    def __init__(self, server: int, broker: int = 0) -> None:
        """``server`` and ``broker`` are processes; 0: there is none to be looked at."""
        self._server = server
        self._broker = broker
        self._before = seconds_of(server), seconds_of(broker)

    def used(self) -> Used:
        """What was used since the last look, or since the beginning."""
        now = seconds_of(self._server), seconds_of(self._broker)
        (server, broker), self._before = self._before, now
        loop = grpc = library = 0.0
        for thread, (name, seconds) in now[0].items():
            spent = seconds - server.get(thread, ("", 0.0))[1]
            if thread == self._server:
                loop += spent
            elif name.startswith(_GRPC):
                grpc += spent
            else:
                library += spent
        return Used(loop, grpc, library, sum(seconds - broker.get(thread, ("", 0.0))[1] for thread, (_, seconds) in now[1].items()))


def seconds_of(process: int) -> Mapping[int, tuple[str, float]]:
    """The name and the processor time of each thread that a process has; empty for 0."""
    found = {}
    for thread in Path(f"/proc/{process}/task").iterdir() if process else ():
        with suppress(OSError):  # it has ended
            found[int(thread.name)] = (thread / "comm").read_text().strip(), int((thread / "schedstat").read_text().split()[0]) / 1e9
    return found


def note(whose: str, rounds: Sequence[Used]) -> str:
    """Words for the medians of what one of something took in each round."""
    loop, grpc, library, broker = (statistics.median(each) * 1e6 for each in zip(*rounds, strict=True))
    threads = f"its loop {loop:.0f}, gRPC's threads {grpc:.0f}, others {library:.0f}"
    text = f"processor time of {whose}: the server's {loop + grpc + library:.0f} us ({threads})"
    return f"{text}, the broker's {broker:.0f}" if broker else text


def of_one(used: Used, many: float) -> Used:
    """What one of so many took."""
    return Used(*(seconds / many for seconds in used))
