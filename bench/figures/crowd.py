"""Delay and memory with very many watchers, some of which never read.

Two servers have the same number of watchers that read. One of them also has silent watchers: before the crowd came, more was sent to them
than a connection holds, and they read none of it. In each round both servers get single changes, in turn; the delay of a change is the time
from its request until a watcher has received it.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from functools import partial
from statistics import quantiles

import grpc

from bench.limits import OPTIONS
from bench.load import BATCH, IN_FLIGHT, Calls, batch_calls, closed_loop, update_calls
from bench.targets import Program, embedded
from topicpolicies.v1 import service_pb2

from .figure import Figure, Scale, in_rounds
from .watching import NAMESPACE, Watch, next_message, parsed, synced, watches

_CHANNELS = 8
_CHANGES = 3
"""Single changes per round."""
_BEHIND = 4_096
"""Changes that are sent to the silent watchers before the crowd comes: about a megabyte each."""


def measure(scale: Scale) -> list[Figure]:
    """Measures both servers, in turn."""
    return asyncio.run(_measure(scale))


async def _measure(scale: Scale) -> list[Figure]:
    async with contextlib.AsyncExitStack() as stack:
        sides = {silent: await stack.enter_async_context(_side(scale.crowd, silent)) for silent in (scale.silent, 0)}
        found = await in_rounds(scale.rounds, {silent: partial(_round, *side) for silent, side in sides.items()})
    what, beside = f"{scale.crowd:,} watchers, {scale.silent:,} more never reading", "the same without those"

    def delays(percent: int) -> Figure:
        ours, limit = [[quantiles(times, n=100)[percent - 1] for times, _ in found[silent]] for silent in sides]
        return Figure(f"delay of {what}, p{percent}", beside, "ms", ours, limit, at_most=1.1)

    ours, limit = [[used for _, used in found[silent]] for silent in sides]
    return [delays(50), delays(99), Figure(f"memory with {what}", beside, "MB", ours, limit)]


async def _round(program: Program, updates: Calls, crowd: list[Watch]) -> tuple[list[float], float]:
    """Makes changes. Returns the milliseconds until each watcher received each, and the server's memory in megabytes."""
    delays: list[float] = []

    async def told(watch: Watch, begin: float) -> None:
        while not parsed(await next_message(watch))[0]:
            pass
        delays.append((time.perf_counter() - begin) * 1000)

    for _ in range(_CHANGES):
        begin = time.perf_counter()
        telling = [asyncio.ensure_future(told(watch, begin)) for watch in crowd]
        await updates.call()
        await asyncio.gather(*telling)
    return delays, program.resident_bytes / 1e6


@contextlib.asynccontextmanager
async def _side(count: int, silent: int) -> AsyncIterator[tuple[Program, Calls, list[Watch]]]:
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
            yield program, update_calls(channels[0], NAMESPACE, 1), crowd
