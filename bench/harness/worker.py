"""One worker: one process, one event loop, one connection, its clients and its watchers.

All workers begin together and end together (``barrier``), so that the measurement is of the load of all workers, and the final reads come
after all updates have ended.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Protocol

import grpc
import httpx

from .batches import make
from .calls import Caller, EchoCaller, RestCaller, Wish, WorkerContext
from .plan import Plan
from .progress import ProgressSender
from .records import Record
from .sidecar_history import record_history
from .traffic import Traffic
from .watching import AUDITOR, Watcher

WARM_UP = 0.1
"""The share of the operations that belong to the warm-up."""
_SYNC_SECONDS = 120.0
_FINAL_READERS = 16
_OPTIONS = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", 64 << 20)]


class _SequentialClient(Protocol):
    async def next_operation(self, phase: str) -> None:
        """The next operation."""


def work(plan: Plan, worker: int, barrier: Callable[[], object]) -> list[Record]:
    """Does a worker's share of a stage.

    Args:
        plan: the stage.
        worker: this worker's number.
        barrier: returns when every worker has called it.
    """
    return asyncio.run(_work(plan, worker, barrier))


async def _work(plan: Plan, worker: int, barrier: Callable[[], object]) -> list[Record]:
    context = WorkerContext(plan, worker, plan.clock.here().now)
    progress = ProgressSender(worker, plan.progress)

    async def together() -> None:
        await asyncio.to_thread(barrier)

    try:
        if plan.target == "rest":
            limits = httpx.Limits(max_connections=plan.scenario.clients)
            async with httpx.AsyncClient(base_url=plan.address, timeout=60, trust_env=False, limits=limits) as http:
                chances = (random.Random(f"{plan.seed} {worker} {n}") for n in itertools.count())
                rest = [RestCaller(context, http, f"{worker}.{n}", next(chances)) for n in range(plan.scenario.clients)]
                await together()
                await _traffic(plan, worker, rest, progress)
            return context.records
        async with grpc.aio.insecure_channel(plan.address, options=_OPTIONS) as channel:
            await asyncio.wait_for(channel.channel_ready(), 60)
            if plan.target == "echo":
                await together()
                await _traffic(
                    plan, worker, [EchoCaller(context, channel, f"{worker}.{n}") for n in range(plan.scenario.clients)], progress
                )
            else:
                await _sidecar(context, channel, together, progress)
        return context.records
    finally:
        progress.close()


async def _sidecar(
    context: WorkerContext, channel: grpc.aio.Channel, together: Callable[[], Awaitable[None]], progress: ProgressSender
) -> None:
    plan = context.plan
    watchers = [Watcher(context, channel, *each) for each in _watchers(plan, context.worker)]
    async with asyncio.TaskGroup() as group:
        for watcher in watchers:
            group.create_task(watcher.run())
        # In a cold start all clients call a namespace that is not loaded at once; otherwise all watchers are there when the load begins.
        if not plan.scenario.cold or plan.fill:
            await asyncio.wait_for(asyncio.gather(*(watcher.synced.wait() for watcher in watchers)), _SYNC_SECONDS)
        await together()
        callers = [_caller(context, channel, number) for number in range(plan.scenario.clients)]
        if plan.fill or plan.scenario.batched:
            await _batches(context, channel, progress)
        else:
            await _traffic(plan, context.worker, callers, progress)
        await asyncio.wait_for(asyncio.gather(*(watcher.synced.wait() for watcher in watchers)), _SYNC_SECONDS)
        await together()
        if not plan.fill:  # after filling, the run goes on
            await _final_reads(context, callers)
        for watcher in watchers:
            watcher.drain()
    if plan.audited and context.worker == 0 and watchers[0].was_reset:
        await record_history(context, channel, AUDITOR)
    await together()


def _watchers(plan: Plan, worker: int) -> Iterator[tuple[str, str, random.Random | None]]:
    """Yields the watchers of a worker: name, phase, and the generator of a restless one."""
    phase = plan.phase or "load"
    if plan.audited and worker == 0:
        yield AUDITOR, phase, None
    if not plan.fill:
        for number in range(worker, plan.scenario.watchers, plan.workers):
            restless = plan.scenario.restless > 0 and number % 2 == 0
            yield f"watcher {number}", phase, random.Random(f"{plan.seed} watcher {number}") if restless else None


def _caller(context: WorkerContext, channel: grpc.aio.Channel, number: int) -> Caller:
    plan = context.plan
    name = f"{context.worker}.{number}"
    chance = random.Random(f"{plan.seed} {plan.phase} {name}")
    every = plan.scenario.clients * plan.workers
    traffic = Traffic(chance, context.worker * plan.scenario.clients + number, every, plan.scenario.deletes)
    return Caller(context, channel, name, traffic, chance)


async def _traffic(plan: Plan, worker: int, clients: Sequence[_SequentialClient], progress: ProgressSender) -> None:
    """The worker's share, by all its clients together."""
    share = plan.share(worker)
    numbers = iter(range(share))

    async def client(each: _SequentialClient) -> None:
        for number in numbers:
            await each.next_operation(plan.phase or ("warm-up" if number < share * WARM_UP else "steady"))
            progress.advance()

    await asyncio.gather(*map(client, clients))


async def _batches(context: WorkerContext, channel: grpc.aio.Channel, progress: ProgressSender) -> None:
    """The worker's share in batches."""
    plan = context.plan
    chance = random.Random(f"{plan.seed} {plan.phase} batches {context.worker}")
    clients = plan.scenario.clients
    traffic = Traffic(chance, context.worker, plan.workers, 0.0)
    share = plan.share(context.worker)
    if plan.fill:
        topics = [plan.topic(number) for number in range(context.worker, plan.scenario.topics, plan.workers)]
    else:
        topics = [plan.topic(chance.randrange(plan.scenario.topics)) for _ in range(share)]
    wishes = [Wish(topic, traffic.one_setting()) for topic in topics]
    await asyncio.gather(
        *(
            make(context, channel, f"{context.worker}.{plan.phase}.{number}", wishes[number::clients], plan.phase or "steady", progress)
            for number in range(clients)
        )
    )


async def _final_reads(context: WorkerContext, callers: list[Caller]) -> None:
    """What everybody sees when everything has come to rest; of very many topics a sample."""
    plan = context.plan
    topics = range(context.worker, plan.scenario.topics, plan.workers)
    numbers = iter(topics[:: max(1, len(topics) // 1_000)])

    async def reader(caller: Caller) -> None:
        for number in numbers:
            await caller.read(plan.topic(number), "final", final=True)

    await asyncio.gather(*map(reader, callers[:_FINAL_READERS]))
