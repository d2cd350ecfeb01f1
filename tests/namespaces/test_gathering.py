"""Under load requests go in together, in the order in which they came; a few never wait for long, and nobody waits for ever."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from tests.simulation.loop import SimulatedLoop
from topicpolicies_server.namespaces.gathering import AT_ONCE, CHANCES, PATIENCE_SECONDS, PAUSE_SECONDS, WORTHWHILE, Gathering

SERVED_SECONDS = 0.01


class Door:
    """Requests that go through, and when each was let in."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.loop = loop
        self.gathering = Gathering(loop)
        self.entered: list[tuple[int, float]] = []

    async def request(self, number: int, seconds: float = SERVED_SECONDS) -> None:
        async with self.gathering:
            self.entered.append((number, self.loop.time()))
            await asyncio.sleep(seconds)

    def requests(self, count: int, first: int = 0, seconds: float = SERVED_SECONDS) -> list[asyncio.Task[None]]:
        return [self.loop.create_task(self.request(first + number, seconds)) for number in range(count)]


def simulate(scenario: Callable[[Door], Awaitable[None]]) -> None:
    async def main() -> None:
        await scenario(Door())

    loop = SimulatedLoop(random.Random(1))
    loop.run(main())
    assert loop.failures == []


def test_whoever_finds_nobody_inside_goes_straight_in() -> None:
    async def scenario(door: Door) -> None:
        for number in range(20):
            await door.request(number)
        assert [at for _, at in door.entered] == pytest.approx([number * SERVED_SECONDS for number in range(20)])
        assert door.gathering.groups == 0

    simulate(scenario)


def test_many_go_in_together_in_the_order_in_which_they_came() -> None:
    async def scenario(door: Door) -> None:
        await asyncio.gather(*door.requests(30))
        assert [number for number, _ in door.entered] == list(range(30))
        assert door.entered[0][1] == 0.0
        assert {at for _, at in door.entered[1:]} == {PATIENCE_SECONDS}
        assert door.gathering.groups == 1

    simulate(scenario)


def test_more_than_fit_in_at_once_follow_at_once() -> None:
    async def scenario(door: Door) -> None:
        await asyncio.gather(*door.requests(1 + 2 * AT_ONCE + 5))
        assert [number for number, _ in door.entered] == list(range(1 + 2 * AT_ONCE + 5))
        assert door.gathering.groups == 3 and door.entered[-1][1] == pytest.approx(PATIENCE_SECONDS, abs=1e-4)

    simulate(scenario)


def test_where_gathering_is_not_worth_it_requests_go_straight_in_until_it_is_tried_again() -> None:
    async def scenario(door: Door) -> None:
        busy = door.requests(1, seconds=10.0)
        await asyncio.sleep(0)
        await asyncio.gather(*door.requests(WORTHWHILE - 1, first=1))
        since = door.loop.time()
        await asyncio.gather(*door.requests(3, first=10))
        assert {at for _, at in door.entered[-3:]} == {since}, "straight in"
        await asyncio.sleep(PAUSE_SECONDS)
        since = door.loop.time()
        await asyncio.gather(*door.requests(WORTHWHILE, first=20))
        assert {at for _, at in door.entered[-WORTHWHILE:]} == {since + PATIENCE_SECONDS}
        for chance in range(CHANCES):
            before = door.gathering.groups
            await asyncio.gather(*door.requests(2, first=30 + 2 * chance))
            assert door.gathering.groups == before + 1, "a small group among large ones changes nothing"
        before = door.gathering.groups
        await asyncio.gather(*door.requests(2, first=90))
        assert door.gathering.groups == before
        for task in busy:
            task.cancel()
        await asyncio.gather(*busy, return_exceptions=True)

    simulate(scenario)


@pytest.mark.parametrize("turn_given", [False, True])
def test_whoever_gives_up_waiting_leaves_no_trace(turn_given: bool) -> None:
    async def scenario(door: Door) -> None:
        first, *others = door.requests(4)
        await asyncio.sleep(0)
        if turn_given:  # cancelled in the very turn of the loop in which it was let in
            door.loop.call_later(PATIENCE_SECONDS, others[1].cancel)
        else:
            door.loop.call_later(PATIENCE_SECONDS / 2, others[1].cancel)
        await asyncio.gather(first, *others, return_exceptions=True)
        assert others[1].cancelled() and [number for number, _ in door.entered] == [0, 1, 3]
        await asyncio.sleep(1)
        since = door.loop.time()
        await door.request(9)
        assert door.entered[-1] == (9, since), "nobody is thought to be inside"

    simulate(scenario)
