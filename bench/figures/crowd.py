"""Memory and delay with very many watchers, some of which never read.

Two servers have the same number of watchers that read. One of them also has silent watchers: before the crowd came, more was sent to them
than a connection holds, and they read none of it. In each round both servers get single changes, in turn; the delay of a change is the time
from its request until a watcher has received it.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import statistics
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable
from functools import lru_cache
from typing import Literal, NamedTuple

import grpc
import uvloop
from google.protobuf.duration_pb2 import Duration

from bench.batching import BATCH, batches, send
from bench.harness.watching import METHOD
from bench.load import update_calls
from bench.targets import Program, sqlite
from topicpolicies.v1 import service_pb2

from .figure import Figure, Measured, Want
from .scale import Say, Scale

FIGURES = (
    Figure("crowd-delay", "delay of 10,000 watchers, 100 more never reading, p50", "the same without those", "ms", Want(at_most=1.1)),
    Figure("crowd-tail", "delay of 10,000 watchers, 100 more never reading, p99", "the same without those", "ms", Want(at_most=1.1)),
    Figure("crowd-memory", "memory with 10,000 watchers, 100 more never reading", "the same without those", "MB"),
    Figure("crowd-watcher", "memory a watcher, of 10,000", "", "B"),
)
_NAMESPACE = "public/default"
_CHANNELS = 8
_CHANGES = 3
"""Single changes per round."""
_BEHIND = 4_096
"""Changes that are sent to the silent watchers before the crowd comes: about a megabyte each."""
_OPTIONS = (("grpc.max_receive_message_length", 64 << 20), ("grpc.use_local_subchannel_pool", 1))


async def _next(call: grpc.aio.UnaryStreamCall[bytes, bytes]) -> bytes:
    """Returns the next message.

    Raises:
        RuntimeError: the watch was ended.
    """
    message = await call.read()
    if not isinstance(message, bytes):
        raise RuntimeError(f"a watch was ended: {await call.code()}")
    return message


@lru_cache(maxsize=1024)
def _has(message: bytes, what: Literal["synced", "change"]) -> bool:
    """Returns whether a message has the SYNCED bookmark, or a change; most watchers receive the same bytes."""
    events = service_pb2.WatchPoliciesResponse.FromString(message).events
    if what == "change":
        return any(event.HasField("change") for event in events)
    return any(event.bookmark.synced for event in events)


class _Crowd:
    """The watchers of one server, which take the time at which a change arrives."""

    def __init__(self, channels: list[grpc.aio.Channel], count: int) -> None:
        self._calls = _watches(channels, count)

    async def synced(self) -> None:
        """Returns when each watcher has its SYNCED bookmark."""
        await asyncio.gather(*map(self._synced, self._calls))

    async def _synced(self, call: grpc.aio.UnaryStreamCall[bytes, bytes]) -> None:
        while not _has(await _next(call), "synced"):
            pass

    async def delays(self, change: Awaitable[object]) -> list[float]:
        """Makes a change. Returns the milliseconds until each watcher received it."""
        begin = time.perf_counter()

        async def told(call: grpc.aio.UnaryStreamCall[bytes, bytes]) -> float:
            while not _has(await _next(call), "change"):
                pass
            return (time.perf_counter() - begin) * 1000

        telling = [asyncio.ensure_future(told(call)) for call in self._calls]
        await change
        return list(await asyncio.gather(*telling))


class _Side(NamedTuple):
    """One of the two servers."""

    program: Program
    channel: grpc.aio.Channel
    crowd: _Crowd
    watcher_bytes: float
    silent: list[grpc.aio.UnaryStreamCall[bytes, bytes]]
    """The silent watches, kept so that they stay open."""


def _watches(
    channels: list[grpc.aio.Channel], count: int, mode: service_pb2.WatchMode.ValueType = service_pb2.WATCH_MODE_LATEST
) -> list[grpc.aio.UnaryStreamCall[bytes, bytes]]:
    request = service_pb2.WatchPoliciesRequest(namespaces=[_NAMESPACE], mode=mode)
    request.bookmark_interval.CopyFrom(Duration(seconds=3_600))
    prepared = request.SerializeToString()
    watch: list[grpc.aio.UnaryStreamMultiCallable[bytes, bytes]] = [channel.unary_stream(METHOD) for channel in channels]
    return [each(prepared) for each in itertools.islice(itertools.cycle(watch), count)]


def measure(scale: Scale, say: Say) -> dict[str, Measured]:
    """Measures both servers, in turn."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_measure(scale, say))


async def _measure(scale: Scale, say: Say) -> dict[str, Measured]:
    async with contextlib.AsyncExitStack() as stack:
        sides = []
        for silent in (scale.silent, 0):
            say(f"{scale.crowd:,} watchers come, beside {silent} that never read")
            sides.append(await stack.enter_async_context(_side(scale.crowd, silent)))
        delays: tuple[list[list[float]], list[list[float]]] = ([], [])
        memory: tuple[list[float], list[float]] = ([], [])
        updates = [update_calls(side.channel, _NAMESPACE, 1) for side in sides]
        for number in range(scale.few_rounds):
            say(f"round {number + 1} of {scale.few_rounds}")
            for which in (0, 1) if number % 2 else (1, 0):
                taken = [await sides[which].crowd.delays(updates[which].call()) for _ in range(_CHANGES)]
                delays[which].append(list(itertools.chain(*taken)))
                memory[which].append(sides[which].program.resident_bytes / 1e6)
        each = [side.watcher_bytes for side in sides]
    p50 = [[statistics.median(times) for times in side] for side in delays]
    p99 = [[statistics.quantiles(times, n=100)[98] for times in side] for side in delays]
    return {
        "crowd-delay": Measured(p50[0], p50[1]),
        "crowd-tail": Measured(p99[0], p99[1]),
        "crowd-memory": Measured(memory[0], memory[1]),
        "crowd-watcher": Measured(each),
    }


@contextlib.asynccontextmanager
async def _side(count: int, silent: int) -> AsyncIterator[_Side]:
    """Runs a server with a crowd; the silent watchers came first, and are behind."""
    limits = ("--max-watches", str(2 * (count + silent)), "--max-concurrent-calls", str(4 * (count + silent) + 1_000))
    with sqlite(options=limits) as target:
        program = target.program
        assert isinstance(program, Program), "started for this run"
        async with contextlib.AsyncExitStack() as stack:
            channels = [await stack.enter_async_context(grpc.aio.insecure_channel(program.address, _OPTIONS)) for _ in range(_CHANNELS)]
            apart = [await stack.enter_async_context(grpc.aio.insecure_channel(program.address, _OPTIONS)) for _ in range(_CHANNELS)]
            mute = _watches(apart, silent, service_pb2.WATCH_MODE_EVERY)
            for call in mute:
                await _next(call)  # the watch has begun; it is never read again
            source = batches(_NAMESPACE, 1, 64)
            await send(channels[0], BATCH, deque(itertools.islice(source, _BEHIND // 64)), 64)
            before = program.resident_bytes
            crowd = _Crowd(channels, count)
            await crowd.synced()
            yield _Side(program, channels[0], crowd, (program.resident_bytes - before) / count, mute)
