"""As of when watched namespaces are confirmed: each is asked about in turn, and all together not more often than is allowed."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import cast

import pytest

from tests.simulation.loop import SimulatedLoop
from topicpolicies_server.core.policies.events import Position
from topicpolicies_server.logs.change_log import NamespaceLog
from topicpolicies_server.namespaces.freshness import Freshness
from topicpolicies_server.namespaces.rate import Rate

SECONDS = 5.0


class Log:
    """One that others write too, and that ends where it did."""

    partitions = 1

    def __init__(self, loop: SimulatedLoop, asked: list[tuple[float, int]], number: int) -> None:
        self._loop, self._asked, self._number = loop, asked, number

    async def end(self, _: int) -> Position:
        self._asked.append((self._loop.time(), self._number))
        return ""


@pytest.mark.parametrize(("logs", "per_second", "between"), [(50, 50.0, SECONDS), (1_000, 50.0, 20.0), (20, 1.0, 20.0)])
def test_however_many_are_watched_brokers_are_asked_so_often_and_about_each_in_turn(logs: int, per_second: float, between: float) -> None:
    loop = SimulatedLoop(random.Random(1))
    asked: list[tuple[float, int]] = []
    rate = Rate(per_second)

    async def watch() -> None:
        watched = []
        for number in range(logs):
            fresh = Freshness(loop.milliseconds, SECONDS, rate, lambda: True, lambda: True)
            fresh.serve(cast("NamespaceLog", Log(loop, asked, number)), [""], 0)
            watched.append(fresh)
        await asyncio.sleep(10 * between)
        oldest = min(fresh.confirmed_ms for fresh in watched)
        assert loop.milliseconds() - oldest <= 1_000 * (between + SECONDS + 1)
        for fresh in watched:
            fresh.stop()

    loop.run(watch())
    assert max(Counter(int(at) for at, _ in asked).values()) <= 2 * per_second + 1, "a second's worth at once, and so many a second"
    times = Counter(number for _, number in asked)
    assert len(times) == logs
    assert max(times.values()) - min(times.values()) <= 1, "in turn"
    assert min(times.values()) >= 10 * between / (between + SECONDS) - 1


class GrowingLog:
    """One that others write all the time; a test says where it ends."""

    partitions = 1

    def __init__(self) -> None:
        self.ends: list[Position] = []
        """Those that were told."""
        self.next = 0

    async def end(self, _: int) -> Position:
        self.next += 1
        self.ends.append(f"{self.next:04}")
        return self.ends[-1]


@pytest.mark.parametrize("behind", [1, 3])
def test_a_view_that_is_always_behind_a_growing_log_is_confirmed_as_of_when_it_ended_there(behind: int) -> None:
    loop = SimulatedLoop(random.Random(1))

    async def watch() -> None:
        log = GrowingLog()
        fresh = Freshness(loop.milliseconds, SECONDS, Rate(50.0), lambda: True, lambda: True)
        fresh.serve(cast("NamespaceLog", log), [""], 0)
        for _ in range(20):
            await asyncio.sleep(SECONDS)
            if len(log.ends) > behind:
                fresh.moved([log.ends[-1 - behind]])
        age = loop.milliseconds() - fresh.confirmed_ms
        assert 1_000 * SECONDS * behind <= age <= 1_000 * SECONDS * (2 * behind + 2)
        fresh.stop()

    loop.run(watch())


def test_an_end_that_the_view_never_comes_to_does_not_keep_a_later_answer_from_confirming() -> None:
    loop = SimulatedLoop(random.Random(1))

    async def watch() -> None:
        log = GrowingLog()
        fresh = Freshness(loop.milliseconds, SECONDS, Rate(50.0), lambda: True, lambda: True)
        log.next = 100
        fresh.serve(cast("NamespaceLog", log), [""], 0)
        await asyncio.sleep(1)
        assert log.ends == ["0101"] and fresh.confirmed_ms == 0
        log.next = 4  # the log has found out that there is nothing behind the fifth entry
        fresh.moved(["0005"])
        await asyncio.sleep(SECONDS)
        assert loop.milliseconds() - fresh.confirmed_ms <= 1_000 * SECONDS
        fresh.stop()

    loop.run(watch())
