"""One worker: one process, one event loop, one connection, its clients and its watchers.

All workers begin together and end together (``barrier``), so that the measurement is of the load of all workers, and the final reads come
after all updates have ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator

import grpc

from .calls import Caller, WorkerContext
from .records import Record
from .scenarios import Plan
from .watching import AUDITOR, Watcher

_PATIENCE_SECONDS = 120.0
"""How long the watches may take for their first snapshots, and at the end to come to rest."""
_FINAL_READERS = 16
_OPTIONS = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", 64 << 20)]
Together = Callable[[], Awaitable[object]]


async def work(plan: Plan, worker: int, together: Together) -> list[Record]:
    """Does a worker's share.

    Args:
        plan: what all workers do.
        worker: this worker's number.
        together: returns when every worker has called it.
    """
    async with grpc.aio.insecure_channel(plan.address, options=_OPTIONS) as channel:
        context = WorkerContext(plan, worker, channel)
        await asyncio.wait_for(channel.channel_ready(), 60)
        callers, watchers = [Caller(context, number) for number in range(plan.scenario.clients)], list(_watchers(context))
        async with asyncio.TaskGroup() as group:
            watching = [group.create_task(watcher.run()) for watcher in watchers]
            await asyncio.wait_for(asyncio.gather(*(watcher.synced.wait() for watcher in watchers)), _PATIENCE_SECONDS)
            await together()
            await _share(range(worker, plan.scenario.operations, plan.workers), [caller.call for caller in callers])
            await together()
            await _final_reads(context, callers)
            for watcher in watchers:
                watcher.drain()
            await asyncio.wait_for(asyncio.gather(*watching), _PATIENCE_SECONDS)
        await together()
        return context.records


def _watchers(context: WorkerContext) -> Iterator[Watcher]:
    plan = context.plan
    if context.worker == 0:
        yield Watcher(context, AUDITOR)
    for number in range(context.worker, plan.scenario.watchers, plan.workers):
        yield Watcher(context, f"watcher {number}", restless=number % 2 == 0)


async def _share(numbers: Iterable[int], calls: Iterable[Callable[[int], Awaitable[None]]]) -> None:
    """Calls with each number once: each of ``calls`` takes the next one when its call before has ended."""
    left = iter(numbers)

    async def one(call: Callable[[int], Awaitable[None]]) -> None:
        for number in left:
            await call(number)

    await asyncio.gather(*map(one, calls))


async def _final_reads(context: WorkerContext, callers: list[Caller]) -> None:
    """Reads every topic when everything has come to rest; of very many topics a sample."""
    plan = context.plan
    topics = range(context.worker, plan.scenario.topics, plan.workers)

    def reading(caller: Caller) -> Callable[[int], Awaitable[None]]:
        return lambda number: caller.read(plan.topic(number), "final", final=True)

    await _share(topics[:: max(1, len(topics) // 1_000)], map(reading, callers[:_FINAL_READERS]))
