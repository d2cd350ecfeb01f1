"""One worker: one process, one event loop, one connection, its clients and its watchers.

All workers begin together and end together (``barrier``), so that the measurement is of the load of all workers, and the final reads come
after all updates have ended.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from itertools import islice

import grpc

from .calls import Caller, WorkerContext
from .records import Record
from .scenarios import Plan
from .watching import AUDITOR, Watcher

_PATIENCE_SECONDS = 120.0
"""How long the watches may take for their first snapshots, and at the end to come to rest."""
_FINAL_READERS = 16
_OPTIONS = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", 64 << 20)]
Call = Callable[[Sequence[int], float | None], Awaitable[None]]
"""Makes the operations with these numbers in one call, which should begin at a time; None: at once."""
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
            operations = range(worker, plan.scenario.operations, plan.workers)
            await make(operations, [caller.call for caller in callers], plan.scenario.batch, plan.rate)
            await together()
            await _final_reads(context, callers)
            for watcher in watchers:
                watcher.drain()
            await asyncio.wait_for(asyncio.gather(*watching), _PATIENCE_SECONDS)
        await together()
        return context.records


async def make(operations: Iterable[int], calls: Sequence[Call], batch: int = 1, rate: float = 0.0) -> None:
    """Makes operations by all clients together, each of which makes one call after the other.

    Args:
        operations: their numbers.
        calls: the clients.
        batch: how many operations each call has.
        rate: number ``n`` should begin ``n / rate`` seconds from now. If all clients are waiting for answers then, it begins late, but its
            latency counts from the time at which it should have begun. 0: each client's call begins when its call before has ended.
    """
    numbers, began = iter(operations), time.time()

    async def client(call: Call) -> None:
        while mine := list(islice(numbers, batch)):
            intended = began + mine[0] / rate if rate else None
            if intended is not None:
                await asyncio.sleep(intended - time.time())
            await call(mine, intended)

    await asyncio.gather(*map(client, calls))


def _watchers(context: WorkerContext) -> Iterator[Watcher]:
    plan = context.plan
    if context.worker == 0:
        yield Watcher(context, AUDITOR)
    for number in range(context.worker, plan.scenario.watchers, plan.workers):
        yield Watcher(context, f"watcher {number}", restless=number % 2 == 0)


async def _final_reads(context: WorkerContext, callers: list[Caller]) -> None:
    """Reads every topic when everything has come to rest; of very many topics a sample."""
    plan = context.plan
    topics = range(context.worker, plan.scenario.topics, plan.workers)
    numbers = iter(topics[:: max(1, len(topics) // 1_000)])

    async def reader(caller: Caller) -> None:
        for number in numbers:
            await caller.read(plan.topic(number), "final", final=True)

    await asyncio.gather(*map(reader, callers[:_FINAL_READERS]))
