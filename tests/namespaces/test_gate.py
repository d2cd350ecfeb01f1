"""The gate of repairs: it bounds their rate, holds them while it is shut, and spends no rate on those that publish nothing."""

from __future__ import annotations

import asyncio
import random
import time

import pytest

from tests.simulation.loop import SimulatedLoop
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.namespaces.gate import Gate


def key(number: int) -> PolicyKey:
    return PolicyKey(f"persistent://a/b/{number}", Scope.LOCAL)


class Passing:
    """Records which keys pass, and when."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, publishes: bool = True) -> None:
        self._loop = loop
        self._publishes = publishes
        self.passed: list[tuple[float, str]] = []

    def proceed(self, key: PolicyKey) -> bool:
        self.passed.append((self._loop.time(), key.topic.rpartition("/")[2]))
        return self._publishes


def gate_run(per_second: float, *, publishes: bool = True, paused: bool = False) -> tuple[SimulatedLoop, Gate, Passing]:
    loop = SimulatedLoop(random.Random(1))
    return loop, Gate(loop, per_second, paused=paused), Passing(loop, publishes=publishes)


def test_a_burst_of_one_second_passes_at_once_and_the_others_at_the_rate() -> None:
    loop, gate, visitor = gate_run(10)

    async def scenario() -> None:
        for number in range(15):
            gate.enter(visitor, key(number))
        assert len(visitor.passed) == 10 and gate.waiting == 5
        await asyncio.sleep(2)

    loop.run(scenario())
    assert [at for at, _ in visitor.passed[10:]] == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5])
    assert [name for _, name in visitor.passed] == [str(number) for number in range(15)]


def test_a_rate_below_one_per_second_is_kept() -> None:
    loop, gate, visitor = gate_run(0.5)

    async def scenario() -> None:
        for number in range(3):
            gate.enter(visitor, key(number))
        await asyncio.sleep(10)

    loop.run(scenario())
    assert [at for at, _ in visitor.passed] == pytest.approx([0, 2, 4])


def test_repairs_that_publish_nothing_do_not_use_up_the_rate() -> None:
    loop, gate, visitor = gate_run(1, publishes=False)

    async def scenario() -> None:
        for number in range(100):
            gate.enter(visitor, key(number))

    loop.run(scenario())
    assert len(visitor.passed) == 100


def test_repairs_that_leave_the_gate_do_not_use_up_the_rate() -> None:
    loop, gate, visitor = gate_run(1)

    async def scenario() -> None:
        for number in range(4):
            gate.enter(visitor, key(number))
        gate.leave(visitor, key(1))
        gate.leave(visitor, key(2))
        await asyncio.sleep(10)

    loop.run(scenario())
    assert [name for _, name in visitor.passed] == ["0", "3"]
    assert visitor.passed[1][0] == pytest.approx(1)


def test_no_repair_passes_while_the_gate_is_shut_and_none_is_lost() -> None:
    loop, gate, visitor = gate_run(2, paused=True)

    async def scenario() -> None:
        for number in range(6):
            gate.enter(visitor, key(number))
        await asyncio.sleep(5)
        assert gate.paused and visitor.passed == [] and gate.waiting == 6
        gate.resume()
        await asyncio.sleep(0.6)
        assert len(visitor.passed) == 3  # a burst of two, and one after half a second
        gate.pause()
        await asyncio.sleep(5)
        assert len(visitor.passed) == 3
        gate.resume()
        await asyncio.sleep(5)

    loop.run(scenario())
    assert len(visitor.passed) == 6 and gate.waiting == 0


def test_the_time_for_each_repair_does_not_grow_with_the_number_that_wait() -> None:
    def seconds_for(many: int) -> float:
        loop, gate, visitor = gate_run(10, publishes=False, paused=True)

        async def scenario() -> float:
            for number in range(many):
                gate.enter(visitor, key(number))
            began = time.process_time()
            gate.resume()
            return time.process_time() - began

        took = loop.run(scenario())
        assert len(visitor.passed) == many
        return took

    assert seconds_for(60_000) < 40 * seconds_for(6_000)
