"""A process that appends to an SQLite log until it is killed, and prints which events it appended and which were acknowledged.

It reads one line of JSON per run, and forks for each run, so that only the first has to wait for the imports::

    {"path": ..., "keys": 5, "compact": false, "file_limit": 0}

It answers with lines: ``pid 4711``, ``a 17`` (appended), ``k 17`` (acknowledged), ``f 17 1`` (failed, outcome unknown), ``lost``. If the
file may not grow further (``file_limit``), the run ends after some failures and prints how many entries it then read (``read 17``).
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import sys
from collections.abc import Sequence
from typing import Any

from tests.logs.samples import a_key, an_update
from topicpolicies_server.core.policies.events import Event, Placed
from topicpolicies_server.logs.change_log import LogError
from topicpolicies_server.logs.sqlite import Compaction, SqliteLog

NAMESPACE = "acme/orders"
DEPTH = 50
"""How many appends are in flight."""


def say(*lines: str) -> None:
    """Writes lines at once and unbuffered, so that they are not lost when the process is killed."""
    os.write(1, "".join(line + "\n" for line in lines).encode())


class Sink:
    """Prints outcomes, and counts the entries that were read."""

    def __init__(self) -> None:
        self.ready = asyncio.Event()
        self.changed = asyncio.Event()
        self.newest = -1
        self.in_flight = 0
        self.lost_once = False
        self.entries = self.failures = 0

    def read(self, events: Sequence[Placed]) -> None:
        self.entries += len(events)
        for placed in events:
            if placed.event is not None and placed.event.stamp is not None:
                self.newest = max(self.newest, int(placed.event.stamp.event_id))

    def caught_up(self) -> None:
        self.ready.set()

    def acknowledged(self, events: Sequence[Placed]) -> None:
        say(*(f"k {placed.event.stamp.event_id}" for placed in events if placed.event is not None and placed.event.stamp is not None))
        self.in_flight -= len(events)
        self.changed.set()

    def append_failed(self, event: Event, error: LogError) -> None:
        assert event.stamp is not None
        say(f"f {event.stamp.event_id} {int(error.outcome_unknown)}")
        self.in_flight -= 1
        self.failures += 1
        self.changed.set()

    def lost(self, error: LogError) -> None:
        say(f"lost {error.message}")
        self.lost_once = True
        self.changed.set()

    def led(self) -> None:
        pass


async def live(path: str, keys: int, compact: bool, file_limit: int) -> None:
    """Appends numbered events to the keys in turn, starting after the highest number in the log."""
    compaction = Compaction(retention_ms=-1, interval_seconds=0.02, minimum=20, pause_seconds=0.001) if compact else None
    change_log = SqliteLog(path, compaction=compaction)
    sink = Sink()
    log = await change_log.open(NAMESPACE, sink)
    await sink.ready.wait()
    if file_limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_limit, resource.RLIM_INFINITY))
    number = sink.newest
    while not sink.lost_once and sink.failures < 2 * DEPTH:
        while sink.in_flight < DEPTH:
            number += 1
            say(f"a {number}")
            log.append(an_update(a_key(NAMESPACE, number % keys), number, event_id=str(number)))
            sink.in_flight += 1
        sink.changed.clear()
        await sink.changed.wait()
    await log.close()
    again = Sink()
    await change_log.open(NAMESPACE, again)
    await again.ready.wait()
    say(f"read {again.entries}")
    await change_log.close()


def main() -> None:
    """Forks a run for each line of the standard input, one after the other."""
    for line in sys.stdin:
        wanted: dict[str, Any] = json.loads(line)
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            asyncio.run(live(wanted["path"], wanted["keys"], wanted["compact"], wanted["file_limit"]))
            os._exit(0)
        say(f"pid {child}")
        os.waitpid(child, 0)
        say("over")


if __name__ == "__main__":
    main()
