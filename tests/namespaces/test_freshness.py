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
