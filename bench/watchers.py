"""Large numbers of watchers: their memory in one process, how long a change takes to reach all, and the cost of watchers that never read.

    python3 dev.py bench watchers

For each number of watchers a new server is started, once with watchers that all read, and once with some that read nothing, not even their
snapshot. First, enough changes are made to fill what transports buffer of a stream; then single changes follow, one after the other, each
when all readers have received the one before. The delay is from the request to the reader, and includes that of the readers, which share
one process. The memory is the server's resident memory; per watcher it is the growth while the watchers connected.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import statistics
import sys
import tempfile
import time
from collections import deque
from pathlib import Path
from typing import NamedTuple

import grpc
import uvloop
from google.protobuf.duration_pb2 import Duration
from rich.console import Console
from rich.table import Table

from bench.batching import BATCH, TOPICS, batches, send
from bench.harness.watching import METHOD as WATCH_POLICIES
from bench.targets import Program, running
from topicpolicies.v1 import service_pb2
from topicpolicies.v1.policies_pb2 import TopicPolicies

COUNTS = (100, 1_000, 10_000)
SILENT = 100
"""Watchers that never read, in every second run."""
_NAMESPACE = "public/default"
_UPDATE_POLICY = "/topicpolicies.v1.TopicPoliciesService/UpdatePolicy"
_FILLING = 768
"""Changes that are made first, in batches: some 200 KB for each watcher."""
_BATCH = 64
_SINGLE = 20
"""Changes whose delay is measured."""
_CHANNELS = 8
_AT_ONCE = 250
"""Watchers that connect at the same time."""
_PATIENCE_SECONDS = 300.0
_SERVE = ("-m", "topicpolicies_server", "serve", "--listen", "ADDRESS", "--log-level", "warning", "--no-history")
_LIMITS = ("--max-watches", "1000000", "--max-concurrent-calls", "1000000")


class Row(NamedTuple):
    """The figures of one number of watchers."""

    watchers: int
    silent: int
    bytes_each: float
    """The server's memory per watcher, while they connected."""
    grown_bytes: float
    """By how much the server's memory has grown in all since then, after the changes."""
    median_ms: float
    """The time from the request until a watcher received the change; the median of all watchers and changes."""
    last_ms: float
    """The time until the last watcher received the change; the median of the changes."""
    server_us: float
    """The server's processor time per delivery of a single change, in microseconds."""


class _Watcher:
    """One watcher that reads."""

    def __init__(self, call: grpc.aio.UnaryStreamCall[bytes, bytes]) -> None:
        self._call = call
        self.told_at = 0.0
        """When the last change arrived."""

    async def synced(self) -> None:
        """Returns when the SYNCED bookmark has arrived."""
        async for message in self._call:
            if any(event.bookmark.synced for event in service_pb2.WatchPoliciesResponse.FromString(message).events):
                return

    async def told(self, last: bytes) -> None:
        """Returns when the change with this request id has arrived."""
        async for message in self._call:
            if last in message:
                self.told_at = time.perf_counter()
                return

    def cancel(self) -> None:
        """Cancels the watch."""
        self._call.cancel()


def resident(program: Program) -> int:
    """Returns the resident memory of a program in bytes."""
    return int(Path(f"/proc/{program.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def _open(channels: list[grpc.aio.Channel], count: int) -> list[_Watcher]:
    request = service_pb2.WatchPoliciesRequest(namespaces=[_NAMESPACE], mode=service_pb2.WATCH_MODE_LATEST)
    request.bookmark_interval.CopyFrom(Duration(seconds=3_600))
    watches: list[grpc.aio.UnaryStreamMultiCallable[bytes, bytes]] = [channel.unary_stream(WATCH_POLICIES) for channel in channels]
    every = itertools.cycle(watches)
    watchers: list[_Watcher] = []
    while len(watchers) < count:
        some = [_Watcher(next(every)(request.SerializeToString())) for _ in range(min(_AT_ONCE, count - len(watchers)))]
        await asyncio.gather(*(watcher.synced() for watcher in some))
        watchers += some
    return watchers


async def _silent(channel: grpc.aio.Channel, count: int) -> list[grpc.aio.UnaryStreamCall[bytes, bytes]]:
    request = service_pb2.WatchPoliciesRequest(namespaces=[_NAMESPACE], mode=service_pb2.WATCH_MODE_EVERY)
    watch: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(WATCH_POLICIES)
    calls = [watch(request.SerializeToString()) for _ in range(count)]
    for call in calls:
        await call.initial_metadata()
    return calls


async def _change(channel: grpc.aio.Channel, watchers: list[_Watcher], number: int) -> list[float]:
    """Makes one change. Returns the seconds until each watcher received it."""
    update: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(_UPDATE_POLICY)
    request_id = f"{number:032x}"
    request = service_pb2.UpdatePolicyRequest(
        topic=f"persistent://{_NAMESPACE}/watched", policies=TopicPolicies(max_producer_per_topic=number), request_id=request_id
    )
    request.update_mask.paths.append("max_producer_per_topic")
    begin = time.perf_counter()
    telling = asyncio.gather(*(watcher.told(request_id.encode()) for watcher in watchers))
    await update(request.SerializeToString())
    await telling
    return [watcher.told_at - begin for watcher in watchers]


async def measure(program: Program, count: int, silent: int) -> Row:
    """Measures one number of watchers on a new server."""
    options = (("grpc.max_receive_message_length", 64 << 20),)
    channels = [grpc.aio.insecure_channel(program.address, (*options, ("one", number))) for number in range(_CHANNELS + 2)]
    *reading, quiet, writing = channels
    watchers: list[_Watcher] = []
    try:
        source = batches(_NAMESPACE, TOPICS, _BATCH)
        await send(writing, BATCH, deque(itertools.islice(source, 4)), _BATCH)
        before = resident(program)
        unread = await _silent(quiet, silent)
        watchers = await _open(reading, count - silent)
        opened = resident(program)
        await send(writing, BATCH, deque(itertools.islice(source, _FILLING // _BATCH)), _BATCH)
        await _change(writing, watchers, 1)
        used = program.processor_seconds
        delays = [await _change(writing, watchers, 2 + number) for number in range(_SINGLE)]
        used = program.processor_seconds - used
        grown = resident(program) - opened
        assert not any(call.done() for call in unread), "they are still open"
    finally:
        for watcher in watchers:
            watcher.cancel()
        for channel in channels:
            await channel.close()
    median = statistics.median(itertools.chain.from_iterable(delays))
    last = statistics.median(max(each) for each in delays)
    return Row(count, silent, (opened - before) / count, grown, median * 1e3, last * 1e3, used / _SINGLE / len(watchers) * 1e6)


def show(rows: list[Row], console: Console) -> None:
    """Prints a table."""
    table = Table(title="Watchers of one namespace in one process")
    for column in ("watchers", "never reading", "KiB each", "grown by MiB", "median ms", "the last ms", "server us a delivery"):
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(
            f"{row.watchers:,}",
            str(row.silent),
            f"{row.bytes_each / 1024:.1f}",
            f"{row.grown_bytes / 2**20:.1f}",
            f"{row.median_ms:,.1f}",
            f"{row.last_ms:,.1f}",
            f"{row.server_us:.0f}",
        )
    console.print(table)


def main() -> int:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--watchers", type=int, nargs="+", default=COUNTS, help="how many (default: %(default)s)")
    parser.add_argument("--silent", type=int, default=SILENT, help="of them never read, in every other run (default: %(default)s)")
    options = parser.parse_args()
    rows: list[Row] = []
    for count, silent in itertools.product(options.watchers, (0, options.silent)):
        if silent >= count:
            continue
        with (
            tempfile.TemporaryDirectory() as directory,
            running(*_SERVE, "--data", str(Path(directory) / "policies.db"), *_LIMITS) as program,
            asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
        ):
            rows.append(runner.run(asyncio.wait_for(measure(program, count, silent), _PATIENCE_SECONDS)))
    show(rows, Console())
    return 0


if __name__ == "__main__":
    sys.exit(main())
