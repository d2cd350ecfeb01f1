"""Callers that wait for a position of a log."""

from __future__ import annotations

import asyncio
import random

import pytest

from tests.simulation.loop import SimulatedLoop
from topicpolicies_server.namespaces.waiting import Waiting


def _run(scenario: object) -> None:
    loop = SimulatedLoop(random.Random(1))
    loop.run(scenario())  # type: ignore[operator]
    assert loop.failures == []


@pytest.mark.parametrize("how", ["went away", "waited in vain"])
def test_callers_that_gave_up_are_forgotten_although_an_earlier_one_still_waits(how: str) -> None:
    async def scenario() -> None:
        waiting = Waiting()
        patient = asyncio.ensure_future(waiting.until(0, "5", 1_000))
        for _ in range(10):
            others = [asyncio.ensure_future(waiting.until(0, "9", 1)) for _ in range(100)]
            await asyncio.sleep(0.5)
            if how == "went away":
                for each in others:
                    each.cancel()
            await asyncio.gather(*others, return_exceptions=True)
        assert len(waiting) <= 3
        waiting.wake(["5"])
        await patient
        assert len(waiting) == 0

    _run(scenario)


def test_each_caller_is_woken_at_its_position_whichever_others_gave_up() -> None:
    async def scenario() -> None:
        chance = random.Random(3)
        waiting = Waiting()
        waits = {number: asyncio.ensure_future(waiting.until(number % 3, f"{number:04}", 50)) for number in range(600)}
        await asyncio.sleep(1)
        gone = set(chance.sample(sorted(waits), 400))
        for number in sorted(gone, key=lambda _: chance.random()):
            waits[number].cancel()
        await asyncio.sleep(1)
        for here in range(0, 601, 50):
            waiting.wake([f"{here:04}"] * 3)
            await asyncio.sleep(0.1)
            assert {number for number, wait in waits.items() if wait.done() and not wait.cancelled()} == {
                number for number in waits if number <= here and number not in gone
            }
        assert len(waiting) == 0

    _run(scenario)


def test_only_callers_for_partitions_that_no_longer_exist_time_out() -> None:
    async def scenario() -> None:
        waiting = Waiting()
        gone, there = asyncio.ensure_future(waiting.until(2, "1", 5)), asyncio.ensure_future(waiting.until(0, "1", 5))
        await asyncio.sleep(1)
        waiting.wake(["1"])
        await there
        with pytest.raises(TimeoutError):
            await gone
        assert len(waiting) == 0

    _run(scenario)


def test_a_caller_that_is_woken_and_cancelled_at_once_is_counted_once() -> None:
    async def scenario() -> None:
        waiting = Waiting()
        woken = [asyncio.ensure_future(waiting.until(0, "1", 5)) for _ in range(4)]
        left = [asyncio.ensure_future(waiting.until(0, "9", 5)) for _ in range(3)]
        await asyncio.sleep(1)
        waiting.wake(["1"])
        for each in woken:
            each.cancel()
        await asyncio.gather(*woken, return_exceptions=True)
        assert len(waiting) == 3 and not any(each.done() for each in left)
        waiting.wake(["9"])
        await asyncio.gather(*left)

    _run(scenario)
