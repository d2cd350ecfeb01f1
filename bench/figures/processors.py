"""The processor time of programs, by their threads.

A server's first thread runs its event loop. The names of gRPC's threads have a common beginning; all others belong to the client library
for Pulsar, or write files. A thread that has ended meanwhile is not counted.
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
    """The time of the server's event loop."""
    grpc: float
    """The time of the threads that have gRPC's names."""
    library: float
    """The time of the server's other threads."""
    broker: float
    """The time of all threads of the broker; 0 if its process is not known."""


class Processors:
    """The processor time of a server and the broker beside it, between one reading and the next."""

    def __init__(self, server: int, broker: int = 0) -> None:
        """``server`` and ``broker`` are process ids; 0: there is no such process."""
        self._server = server
        self._broker = broker
        self._before = seconds_of(server), seconds_of(broker)

    def used(self) -> Used:
        """Returns the time used since the last reading, or since the beginning."""
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
    """Returns the name and the processor time of each thread of a process; empty for 0."""
    found = {}
    for thread in Path(f"/proc/{process}/task").iterdir() if process else ():
        with suppress(OSError):  # the thread has ended
            found[int(thread.name)] = (thread / "comm").read_text().strip(), int((thread / "schedstat").read_text().split()[0]) / 1e9
    return found


def note(whose: str, rounds: Sequence[Used]) -> str:
    """Returns a text with the medians of the processor time that ``whose`` took in each round."""
    loop, grpc, library, broker = (statistics.median(each) * 1e6 for each in zip(*rounds, strict=True))
    threads = f"its loop {loop:.0f}, gRPC's threads {grpc:.0f}, others {library:.0f}"
    text = f"processor time of {whose}: the server's {loop + grpc + library:.0f} us ({threads})"
    return f"{text}, the broker's {broker:.0f}" if broker else text


def of_one(used: Used, many: float) -> Used:
    """Returns the time per item of ``many``."""
    return Used(*(seconds / many for seconds in used))
