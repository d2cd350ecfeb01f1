"""Delay and memory with very many watchers, some of which never read.

Two servers have the same number of watchers that read. One of them also has silent watchers: before the crowd came, more was sent to them
than a connection holds, and they read none of it. In each round both servers get single changes, in turn; the delay of a change is the time
from its request until a watcher has received it.
"""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import time
from collections.abc import AsyncIterator, Awaitable
from typing import NamedTuple

import grpc

from bench.limits import OPTIONS
from bench.load import BATCH, IN_FLIGHT, batch_calls, closed_loop, update_calls
from bench.targets import Program, embedded
from topicpolicies.v1 import service_pb2

from .figure import Figure, Measured, Scale, in_turn
from .watching import NAMESPACE, Watch, next_message, parsed, synced, watches

_WHAT, _BESIDE = "{crowd:,} watchers, {silent:,} more never reading", "the same without those"
FIGURES = (
    Figure("crowd-delay", f"delay of {_WHAT}, p50", _BESIDE, "ms", at_most=1.1),
    Figure("crowd-tail", f"delay of {_WHAT}, p99", _BESIDE, "ms", at_most=1.1),
    Figure("crowd-memory", f"memory with {_WHAT}", _BESIDE, "MB"),
)
_CHANNELS = 8
_CHANGES = 3
"""Single changes per round."""
_BEHIND = 4_096
"""Changes that are sent to the silent watchers before the crowd comes: about a megabyte each."""


class _Side(NamedTuple):
    """One of the two servers."""

    program: Program
    channel: grpc.aio.Channel
    crowd: list[Watch]
    silent: list[Watch]
    """Kept so that they stay open."""


def measure(scale: Scale) -> dict[str, Measured]:
    """Measures both servers, in turn."""
    return asyncio.run(_measure(scale))


async def _measure(scale: Scale) -> dict[str, Measured]:
    delays: tuple[list[list[float]], list[list[float]]] = ([], [])
    memory: tuple[list[float], list[float]] = ([], [])
    async with contextlib.AsyncExitStack() as stack:
        sides = [await stack.enter_async_context(_side(scale.crowd, silent)) for silent in (scale.silent, 0)]
        updates = [update_calls(side.channel, NAMESPACE, 1) for side in sides]
        for which in in_turn(scale.rounds, (0, 1)):
            taken = [await _delays(sides[which].crowd, updates[which].call()) for _ in range(_CHANGES)]
            delays[which].append([each for times in taken for each in times])
            memory[which].append(sides[which].program.resident_bytes / 1e6)

    def delay(percent: int) -> Measured:
        ours, limit = ([statistics.quantiles(times, n=100)[percent - 1] for times in side] for side in delays)
        return Measured(ours, limit)

    return {"crowd-delay": delay(50), "crowd-tail": delay(99), "crowd-memory": Measured(*memory)}


async def _delays(crowd: list[Watch], change: Awaitable[object]) -> list[float]:
    """Makes a change. Returns the milliseconds until each watcher received it."""
    begin = time.perf_counter()

    async def told(watch: Watch) -> float:
        while not parsed(await next_message(watch))[0]:
            pass
        return (time.perf_counter() - begin) * 1000

    telling = [asyncio.ensure_future(told(watch)) for watch in crowd]
    await change
    return list(await asyncio.gather(*telling))


@contextlib.asynccontextmanager
async def _side(count: int, silent: int) -> AsyncIterator[_Side]:
    """Runs a server with a crowd; the silent watchers came first, and are behind."""
    limits = ("--max-watches", str(2 * (count + silent)), "--max-concurrent-calls", str(4 * (count + silent) + 1_000))
    with embedded(*limits) as program:
        async with contextlib.AsyncExitStack() as stack:
            opened = [grpc.aio.insecure_channel(program.address, OPTIONS) for _ in range(2 * _CHANNELS)]
            channels = [await stack.enter_async_context(channel) for channel in opened]
            mute = watches(channels[_CHANNELS:], silent, service_pb2.WATCH_MODE_EVERY)
            for watch in mute:
                await next_message(watch)  # the watch has begun; it is never read again
            await closed_loop(batch_calls(channels[0], NAMESPACE, 1), IN_FLIGHT, count=_BEHIND // BATCH)
            crowd = watches(channels[:_CHANNELS], count, service_pb2.WATCH_MODE_LATEST)
            await asyncio.gather(*map(synced, crowd))
            yield _Side(program, channels[0], crowd, mute)
