"""What an append to the embedded log costs the event loop, how many appends it takes a second, and how fast a log is loaded.

    python -m bench.embedded_log [--keys 100000] [--appends 20000]

The figure that matters is the loop thread's, because the server's event loop is its bottleneck. It includes everything from ``append``,
with the Avro encoding, to the callback that wakes the waiter, and the waiter itself.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

from topicpolicies.v1.policies_pb2 import RetentionPolicies, TopicPolicies
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.policies.documents import split
from topicpolicies_server.core.policies.events import Action, Event, Placed, Stamp, StampKind
from topicpolicies_server.logs.change_log import LogError
from topicpolicies_server.logs.sqlite import SqliteLog

NAMESPACE = "bench/embedded"


class Waiting:
    """A sink that wakes the task that waits for an event."""

    def __init__(self) -> None:
        self.waiters: dict[str, asyncio.Future[None]] = {}
        self.ready = asyncio.Event()
        self.count = 0

    def read(self, events: Sequence[Placed]) -> None:
        """Counts the events."""
        self.count += len(events)

    def caught_up(self) -> None:
        """All present events have been read."""
        self.ready.set()

    def appended(self, events: Sequence[Placed]) -> None:
        """Wakes the waiters of these events."""
        for placed in events:
            if placed.event is not None and placed.event.stamp is not None:
                self.waiters.pop(placed.event.stamp.event_id).set_result(None)

    def append_failed(self, event: Event, error: LogError) -> None:
        """Not called here."""
        raise AssertionError(event, error)

    def lost(self, error: LogError) -> None:
        """Not called here."""
        raise error

    def led(self) -> None:
        """Not called here."""


_MASK = ("max_producer_per_topic", "retention_policies")


def updates(count: int, keys: int) -> Iterator[Event]:
    """Yields updates of each key in turn, each with another document."""
    for n in range(count):
        document = split(
            TopicPolicies(
                max_producer_per_topic=n, retention_policies=RetentionPolicies(retention_time_in_minutes=n, retention_size_in_mb=n)
            )
        )
        stamp = Stamp(str(uuid.uuid4()), StampKind.UPDATE, request_id=str(uuid.uuid4()), mask=_MASK)
        yield Event(PolicyKey(f"persistent://{NAMESPACE}/topic-{n % keys}", Scope.LOCAL), Action.UPDATE, document, stamp)


def spread(seconds: list[float]) -> str:
    """Returns the median and the maximum of some times, as text."""
    seconds.sort()
    return f"p50 {seconds[len(seconds) // 2] * 1e3:.2f} ms, p99 {seconds[len(seconds) * 99 // 100] * 1e3:.2f} ms"


async def append(path: Path, in_flight: int, count: int) -> None:
    """Appends with this many events waiting at a time, and prints the times."""
    change_log = SqliteLog(path)
    sink = Waiting()
    log = await change_log.open(NAMESPACE, sink)
    await sink.ready.wait()
    events = iter(list(updates(count, 1_000)))
    loop = asyncio.get_running_loop()
    waits: list[float] = []

    async def worker() -> None:
        for event in events:
            assert event.stamp is not None
            done = sink.waiters[event.stamp.event_id] = loop.create_future()
            began = time.perf_counter()
            log.append(event)
            await done
            waits.append(time.perf_counter() - began)

    wall, thread, process = time.perf_counter(), time.thread_time(), time.process_time()
    await asyncio.gather(*(worker() for _ in range(in_flight)))
    wall, thread, process = time.perf_counter() - wall, time.thread_time() - thread, time.process_time() - process
    await change_log.close()
    print(
        f"{in_flight:4} in flight: {count / wall:7,.0f} appends/s; {thread / count * 1e6:5.1f} us of the loop's thread and"
        f" {process / count * 1e6:5.1f} us of the process each; {spread(waits)}"
    )


async def load(path: Path, keys: int) -> None:
    """Fills a log with one event per key, opens it, and prints how fast it was read and how long the loop was delayed meanwhile."""
    change_log = SqliteLog(path, in_flight_limit=keys)
    sink = Waiting()
    log = await change_log.open(NAMESPACE, sink)
    await sink.ready.wait()
    for n, event in enumerate(updates(keys, keys)):
        assert event.stamp is not None
        sink.waiters[event.stamp.event_id] = asyncio.get_running_loop().create_future()
        log.append(event)
        if n % 256 == 0:
            await asyncio.sleep(0)
    await log.close()
    await change_log.close()
    change_log = SqliteLog(path)
    sink = Waiting()
    lags: list[float] = []

    async def watch() -> None:
        while True:
            began = time.perf_counter()
            await asyncio.sleep(0.002)
            lags.append(time.perf_counter() - began - 0.002)

    watching = asyncio.create_task(watch())
    wall, process = time.perf_counter(), time.process_time()
    await change_log.open(NAMESPACE, sink)
    await sink.ready.wait()
    wall, process = time.perf_counter() - wall, time.process_time() - process
    watching.cancel()
    assert sink.count == keys
    print(
        f"{keys:,} keys loaded in {wall:.1f} s: {keys / wall:,.0f}/s, {process / keys * 1e6:.0f} us of the process each;"
        f" meanwhile the loop was late by {spread(lags)}"
    )
    await change_log.close()


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--appends", type=int, default=20_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        for in_flight in (1, 8, 64, 512):
            asyncio.run(append(Path(directory) / f"{in_flight}.db", in_flight, options.appends // (10 if in_flight == 1 else 1)))
        asyncio.run(load(Path(directory) / "load.db", options.keys))


if __name__ == "__main__":
    main()
