"""The time as of which watched namespaces are confirmed: their logs are asked for their ends in turn, at a shared rate."""

from __future__ import annotations

import asyncio
import functools
import random
from collections import Counter
from typing import cast

import pytest

from tests.simulation.loop import SimulatedLoop
from topicpolicies_server.core.policies.events import Position
from topicpolicies_server.logs.change_log import NamespaceLog
from topicpolicies_server.namespaces.freshness import Freshness
from topicpolicies_server.namespaces.rate import Turns

SECONDS = 5.0


class Log:
    """A log that other processes write too, and whose end does not move."""

    partitions = 1

    def __init__(self, loop: SimulatedLoop, asked: list[tuple[float, int]], number: int) -> None:
        self._loop, self._asked, self._number = loop, asked, number

    async def end(self, _: int) -> Position:
        self._asked.append((self._loop.time(), self._number))
        return ""


@pytest.mark.parametrize(("logs", "per_second", "between"), [(50, 50.0, SECONDS), (1_000, 50.0, 20.0), (20, 1.0, 20.0)])
def test_the_logs_of_watched_namespaces_are_asked_in_turn_at_a_bounded_rate(logs: int, per_second: float, between: float) -> None:
    loop = SimulatedLoop(random.Random(1))
    asked: list[tuple[float, int]] = []
    turns = Turns(per_second)

    async def watch() -> None:
        watched = []
        for number in range(logs):
            fresh = Freshness(loop.milliseconds, SECONDS, turns, False, lambda: True)
            fresh.serve(cast("NamespaceLog", Log(loop, asked, number)), [""], 0)
            watched.append(fresh)
        await asyncio.sleep(10 * between)
        oldest = min(fresh.confirmed_ms for fresh in watched)
        assert loop.milliseconds() - oldest <= 1_000 * (between + SECONDS + 1)
        for fresh in watched:
            fresh.stop()

    loop.run(watch())
    assert max(Counter(int(at) for at, _ in asked).values()) <= 2 * per_second + 1, "at most a burst of one second and the rate"
    times = Counter(number for _, number in asked)
    assert len(times) == logs
    assert max(times.values()) - min(times.values()) <= 1, "the logs are asked in turn"
    assert min(times.values()) >= 10 * between / (between + SECONDS) - 1


def _is_before(loop: SimulatedLoop, until: float) -> bool:
    return loop.time() < until


@pytest.mark.parametrize("closed", [False, True])
def test_namespaces_that_are_not_watched_any_more_do_not_delay_the_others(closed: bool) -> None:
    """One namespace is watched all the time, and a thousand others for a second each, again and again."""
    loop = SimulatedLoop(random.Random(1))
    asked: list[tuple[float, int]] = []
    turns = Turns(50.0)

    async def watch() -> None:
        stays = Freshness(loop.milliseconds, SECONDS, turns, False, lambda: True)
        stays.serve(cast("NamespaceLog", Log(loop, asked, -1)), [""], 0)
        for begin in range(0, 10_000, 1_000):
            goes = functools.partial(_is_before, loop, loop.time() + 1.0)
            passing = [Freshness(loop.milliseconds, SECONDS, turns, False, goes) for _ in range(1_000)]
            for number, fresh in enumerate(passing, begin):
                fresh.serve(cast("NamespaceLog", Log(loop, asked, number)), [""], 0)
            await asyncio.sleep(1.5)
            for fresh in passing if closed else ():
                fresh.stop()
            await asyncio.sleep(8.5)
            assert loop.milliseconds() - stays.confirmed_ms <= 1_000 * (SECONDS + 2), begin
        stays.stop()

    loop.run(watch())
    assert sum(number >= 0 for _, number in asked) <= 10 * 102, "logs that are not watched are not asked"


class Growing(Log):
    """A log that is written all the time."""

    async def end(self, _: int) -> Position:
        return f"{self._loop.milliseconds():020}"


def test_a_view_that_is_always_behind_is_confirmed_as_of_when_the_log_ended_at_its_place() -> None:
    loop = SimulatedLoop(random.Random(1))

    async def watch() -> None:
        fresh = Freshness(loop.milliseconds, SECONDS, Turns(50.0), False, lambda: True)
        fresh.serve(cast("NamespaceLog", Growing(loop, [], 0)), [""], 0)
        behind = 2 * SECONDS + 1.0
        for _ in range(600):
            await asyncio.sleep(0.1)
            fresh.moved([f"{loop.milliseconds() - int(1_000 * behind):020}"])
        late = loop.milliseconds() - fresh.confirmed_ms
        assert 1_000 * behind <= late <= 1_000 * (2 * behind + SECONDS)
        fresh.stop()

    loop.run(watch())


def test_if_a_later_answer_names_an_earlier_end_the_view_is_confirmed_there() -> None:
    loop = SimulatedLoop(random.Random(1))

    class Shrinking(Log):
        partitions = 2

        async def end(self, partition: int) -> Position:
            return "ba"[partition] if loop.time() < SECONDS else "ab"[partition]

    async def watch() -> None:
        fresh = Freshness(loop.milliseconds, SECONDS, Turns(50.0), False, lambda: True)
        fresh.serve(cast("NamespaceLog", Shrinking(loop, [], 0)), ["a", "a"], 0)
        await asyncio.sleep(SECONDS / 2)
        assert fresh.confirmed_ms == 0
        await asyncio.sleep(SECONDS)
        fresh.moved(["a", "b"])
        assert loop.milliseconds() - fresh.confirmed_ms <= 1_000 * SECONDS
        fresh.stop()

    loop.run(watch())
