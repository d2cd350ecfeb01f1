"""The queue of repairs: it bounds their rate, holds them while it is paused, and spends no rate on those that publish nothing."""

from __future__ import annotations

import asyncio
import random

import pytest

from tests.simulation.loop import SimulatedLoop
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.namespaces.repairs import RepairQueue, Repairs


def key(number: int) -> PolicyKey:
    return PolicyKey(f"persistent://a/b/{number}", Scope.LOCAL)


class Passing(Repairs):
    """Records which keys are published, and when."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, publishes: bool = True) -> None:
        self._loop = loop
        self._publishes = publishes
        self.wanted: set[PolicyKey] = set()
        self.passed: list[tuple[float, str]] = []

    def counts(self, key: PolicyKey) -> bool:
        return key in self.wanted

    def publish(self, key: PolicyKey) -> bool:
        if not self.counts(key):
            return False
        self.wanted.discard(key)
        self.passed.append((self._loop.time(), key.topic.rpartition("/")[2]))
        return self._publishes


def queued(
    per_second: float, count: int, *, publishes: bool = True, paused: bool = False
) -> tuple[asyncio.AbstractEventLoop, RepairQueue, Passing]:
    """Returns a queue with so many repairs that may be published at once."""
    loop = asyncio.get_running_loop()
    queue, repairs = RepairQueue(loop, per_second, paused=paused), Passing(loop, publishes=publishes)
    for number in range(count):
        repairs.wanted.add(key(number))
        queue.add(repairs, key(number))
    return loop, queue, repairs


def test_a_burst_of_one_second_passes_at_once_and_the_others_at_the_rate() -> None:
    async def scenario() -> None:
        loop, queue, owner = queued(10, 15)
        began = loop.time()
        await asyncio.sleep(0)
        await asyncio.sleep(0.01)
        assert len(owner.passed) == 10 and queue.waiting == 5
        await asyncio.sleep(2)
        assert [at - began for at, _ in owner.passed[10:]] == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5], abs=0.01)
        assert [name for _, name in owner.passed] == [str(number) for number in range(15)]

    SimulatedLoop(random.Random(1)).run(scenario())


def test_a_rate_below_one_per_second_is_kept() -> None:
    async def scenario() -> None:
        loop, _, owner = queued(0.5, 3)
        began = loop.time()
        await asyncio.sleep(10)
        assert [at - began for at, _ in owner.passed] == pytest.approx([0, 2, 4])

    SimulatedLoop(random.Random(1)).run(scenario())


def test_repairs_that_publish_nothing_do_not_use_up_the_rate() -> None:
    async def scenario() -> None:
        _, _, owner = queued(1, 100, publishes=False)
        await asyncio.sleep(0.01)
        assert len(owner.passed) == 100

    SimulatedLoop(random.Random(1)).run(scenario())


def test_repairs_that_are_not_needed_any_more_do_not_use_up_the_rate() -> None:
    async def scenario() -> None:
        loop, queue, owner = queued(1, 4)
        began = loop.time()
        owner.wanted -= {key(1), key(2)}
        assert queue.waiting == 2
        await asyncio.sleep(10)
        assert [name for _, name in owner.passed] == ["0", "3"]
        assert owner.passed[1][0] - began == pytest.approx(1)

    SimulatedLoop(random.Random(1)).run(scenario())


def test_nothing_is_published_while_repairs_are_paused_and_none_is_lost() -> None:
    async def scenario() -> None:
        _, queue, owner = queued(2, 6, paused=True)
        await asyncio.sleep(5)
        assert queue.paused and owner.passed == [] and queue.waiting == 6
        queue.resume()
        await asyncio.sleep(0.6)
        assert len(owner.passed) == 3  # a burst of two, and one after half a second
        queue.pause()
        await asyncio.sleep(5)
        assert len(owner.passed) == 3
        queue.resume()
        await asyncio.sleep(5)
        assert len(owner.passed) == 6 and queue.waiting == 0

    SimulatedLoop(random.Random(1)).run(scenario())
