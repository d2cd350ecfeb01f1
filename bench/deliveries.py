"""Deliveries of ``WatchPolicies`` to 1 to 1,000 watchers, beside a raw broadcast of the same bytes to as many streams.

    python3 dev.py bench deliveries

In each round batches of updates make changes while all watchers follow them (mode EVERY: each watcher receives every change). Then a
server on the same stack writes messages of the same sizes to as many streams, and does nothing else. The rate is deliveries per second,
from the first change sent to the last one delivered. It includes the cost of the updates themselves: with one watcher that is nearly all.
So the server's processor time per delivery is shown too, without that of as many updates without watchers, made just before; other work on
the machine does not affect it. A ratio is the median of the ratios of the rounds.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import statistics
import sys
import time
from collections import defaultdict, deque
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

import grpc
import uvloop
from google.protobuf.duration_pb2 import Duration
from rich.console import Console
from rich.table import Table

from bench.batching import BATCH, TOPICS, batches, send
from bench.broadcast import METHOD
from bench.harness.watching import METHOD as WATCH_POLICIES
from bench.harness.watching import events_of
from bench.targets import Program, running, sqlite
from topicpolicies.v1 import service_pb2

CHANGES = {1: 16_384, 100: 4_096, 1_000: 512}
"""How many changes a round makes, by number of watchers."""
_BATCH = 64
_NAMESPACE = "public/default"
_OPTIONS = (("grpc.max_receive_message_length", 64 << 20),)


class Round(NamedTuple):
    """One number of watchers, measured on the service and on the broadcast."""

    told: float
    """Deliveries per second of the service."""
    broadcast: float
    messages: float
    """Messages that each watcher received."""
    told_us: float
    """The server's processor time per delivery, in microseconds, without that of the updates."""
    broadcast_us: float

    @property
    def ratio(self) -> float:
        """The service's rate as a share of the broadcast's."""
        return self.told / self.broadcast


@lru_cache(maxsize=1024)
def _changes_in(message: bytes) -> int:
    """Returns the number of changes in a message; all watchers receive the same messages."""
    return sum(service_pb2.WatchEvent.FromString(event).HasField("change") for event in events_of(message))


class _Watchers:
    """The given number of watches of the namespace."""

    def __init__(self, channel: grpc.aio.Channel, count: int) -> None:
        request = service_pb2.WatchPoliciesRequest(namespaces=[_NAMESPACE], mode=service_pb2.WATCH_MODE_EVERY)
        request.bookmark_interval.CopyFrom(Duration(seconds=3_600))
        watch: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(WATCH_POLICIES)
        self._calls = [watch(request.SerializeToString()) for _ in range(count)]
        self.sizes: list[list[int]] = [[] for _ in range(count)]
        """For each watcher, the sizes of the messages that have changes."""

    async def synced(self) -> None:
        """Returns when each watcher has received its SYNCED bookmark."""
        await asyncio.gather(*map(self._synced, self._calls))

    async def _synced(self, call: grpc.aio.UnaryStreamCall[bytes, bytes]) -> None:
        async for message in call:
            for event in service_pb2.WatchPoliciesResponse.FromString(message).events:
                if event.bookmark.synced:
                    return

    async def told(self, changes: int) -> None:
        """Returns when each watcher has received this many changes."""
        await asyncio.gather(*(self._told(call, sizes, changes) for call, sizes in zip(self._calls, self.sizes, strict=True)))

    async def _told(self, call: grpc.aio.UnaryStreamCall[bytes, bytes], sizes: list[int], changes: int) -> None:
        async for message in call:
            changes -= _changes_in(message)
            sizes.append(len(message))
            if changes <= 0:
                return

    def cancel(self) -> None:
        """Cancels all watches."""
        for call in self._calls:
            call.cancel()


async def _tell(channel: grpc.aio.Channel, watchers: _Watchers, messages: deque[bytes], changes: int) -> float:
    """Makes the changes. Returns the seconds until all watchers have received all of them."""
    begin = time.perf_counter()
    telling = asyncio.create_task(watchers.told(changes))
    await send(channel, BATCH, messages, _BATCH)
    await telling
    return time.perf_counter() - begin


async def _broadcast(channel: grpc.aio.Channel, sizes: list[list[int]]) -> float:
    """Reads messages of the same sizes, as one server writes them. Returns the seconds."""
    watch: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(METHOD)
    first: list[float] = []

    async def one(mine: list[int]) -> None:
        parts = [f"{sum(1 for _ in group)} {size}" for size, group in itertools.groupby(mine)]
        async for _ in watch(" ".join([str(len(sizes)), *parts]).encode()):
            if not first:
                first.append(time.perf_counter())

    await asyncio.gather(*map(one, sizes))
    return time.perf_counter() - first[0]


async def measure(
    service: Program, broadcast: Program, rounds: int, numbers: Mapping[int, int] = MappingProxyType(CHANGES)
) -> dict[int, list[Round]]:
    """Measures all numbers of watchers on both servers, round by round; ``numbers`` has the number of changes for each."""
    source = batches(_NAMESPACE, TOPICS, _BATCH)
    found: defaultdict[int, list[Round]] = defaultdict(list)
    async with (
        grpc.aio.insecure_channel(service.address, _OPTIONS) as here,
        grpc.aio.insecure_channel(broadcast.address, _OPTIONS) as there,
    ):
        await send(here, BATCH, deque(itertools.islice(source, 50)), _BATCH)
        for _ in range(rounds):
            for count, changes in numbers.items():
                used = [service.processor_seconds]
                await send(here, BATCH, deque(itertools.islice(source, changes // _BATCH)), _BATCH)
                used.append(service.processor_seconds)
                watchers = _Watchers(here, count)
                try:
                    await watchers.synced()
                    used.append(service.processor_seconds)
                    seconds = await _tell(here, watchers, deque(itertools.islice(source, changes // _BATCH)), changes)
                    used.append(service.processor_seconds)
                finally:
                    watchers.cancel()
                begun = broadcast.processor_seconds
                raw = await _broadcast(there, watchers.sizes)
                deliveries, messages = count * changes, statistics.mean(map(len, watchers.sizes))
                told_us = (used[3] - used[2] - (used[1] - used[0])) / deliveries * 1e6
                raw_us = (broadcast.processor_seconds - begun) / deliveries * 1e6
                found[count].append(Round(deliveries / seconds, deliveries / raw, messages, told_us, raw_us))
    return found


def show(found: dict[int, list[Round]], console: Console) -> None:
    """Prints a table."""
    table = Table(title="Deliveries a second, median over the rounds")
    for column in ("watchers", "changes", "messages to each", "told /s", "broadcast /s", "of the broadcast", "told us", "broadcast us"):
        table.add_column(column, justify="right")
    for count, rounds in found.items():
        figures = [statistics.median(figure) for figure in zip(*rounds, strict=True)]
        ratio = statistics.median(each.ratio for each in rounds)
        counts = (f"{each:,.0f}" for each in (count, CHANGES[count], figures[2], figures[0], figures[1]))
        table.add_row(*counts, f"{ratio:.2f}", f"{figures[3]:.1f}" if count > 1 else "", f"{figures[4]:.1f}")
    console.print(table)


def main() -> int:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="rounds (default: %(default)s)")
    options = parser.parse_args()
    with (
        running("-m", "bench.broadcast", "PORT") as broadcast,
        sqlite() as target,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        assert isinstance(target.program, Program), "started for this run"
        found = runner.run(measure(target.program, broadcast, options.rounds))
    show(found, Console())
    return 0


if __name__ == "__main__":
    sys.exit(main())
