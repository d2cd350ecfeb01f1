"""Under load requests are let in together, in their order; with few of them none waits, and none waits for ever."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from tests.simulation.loop import SimulatedLoop
from topicpolicies_server.namespaces.gathering import AT_ONCE, CHANCES, MANY, PATIENCE_SECONDS, PAUSE_SECONDS, WORTHWHILE, Gathering, State

SERVED_SECONDS = 0.01
SLOW_SECONDS = 0.0033


class Door:
    """Sends requests through a ``Gathering``, and records when each was let in."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.loop = loop
        self.gathering = Gathering(loop)
        self.entered: list[tuple[int, float]] = []

    async def request(self, number: int, seconds: float = SERVED_SECONDS) -> None:
        if (turn := self.gathering.come()) is not None:
            await self.gathering.wait(turn)
        try:
            self.entered.append((number, self.loop.time()))
            await asyncio.sleep(seconds)
        finally:
            self.gathering.leave()

    async def requests_one_after_the_other(self, at_once: int, count: int, seconds: float) -> None:
        """Sends so many requests at once, each followed by the next as soon as it has its answer."""

        async def one(first: int) -> None:
            for number in range(count):
                await self.request(first + number * at_once, seconds)

        await asyncio.gather(*(one(first) for first in range(at_once)))

    def requests(self, count: int, first: int = 0, seconds: float = SERVED_SECONDS) -> list[asyncio.Task[None]]:
        return [self.loop.create_task(self.request(first + number, seconds)) for number in range(count)]


def simulate(scenario: Callable[[Door], Awaitable[None]]) -> None:
    async def main() -> None:
        await scenario(Door())

    loop = SimulatedLoop(random.Random(1))
    loop.run(main())
    assert loop.failures == []


def test_a_request_that_is_alone_is_let_in_at_once() -> None:
    async def scenario(door: Door) -> None:
        for number in range(20):
            await door.request(number)
        assert [at for _, at in door.entered] == pytest.approx([number * SERVED_SECONDS for number in range(20)])
        assert door.gathering.groups == 0

    simulate(scenario)


@pytest.mark.parametrize("at_once", [2, 8, MANY])
def test_a_few_concurrent_requests_never_wait_for_each_other(at_once: int) -> None:
    async def scenario(door: Door) -> None:
        await door.requests_one_after_the_other(at_once, 50, SLOW_SECONDS)
        assert door.loop.time() == pytest.approx(50 * SLOW_SECONDS)
        assert door.gathering.groups == 0 and door.gathering.state is State.CALM

    simulate(scenario)


def test_under_load_requests_to_a_slow_log_are_let_in_in_groups() -> None:
    async def scenario(door: Door) -> None:
        await door.requests_one_after_the_other(64, 50, SLOW_SECONDS)
        assert door.gathering.groups > 20
        assert door.gathering.state is State.CALM, "all requests have ended"

    simulate(scenario)


def test_many_requests_are_let_in_together_in_their_order() -> None:
    async def scenario(door: Door) -> None:
        await asyncio.gather(*door.requests(MANY + 30))
        assert [number for number, _ in door.entered] == list(range(MANY + 30))
        assert {at for _, at in door.entered[:MANY]} == {0.0}
        assert {at for _, at in door.entered[MANY:]} == {PATIENCE_SECONDS}
        assert door.gathering.groups == 1

    simulate(scenario)


def test_requests_beyond_the_size_of_a_group_follow_without_further_waiting() -> None:
    async def scenario(door: Door) -> None:
        await asyncio.gather(*door.requests(MANY + 2 * AT_ONCE + 5))
        assert [number for number, _ in door.entered] == list(range(MANY + 2 * AT_ONCE + 5))
        assert door.gathering.groups == 3 and door.entered[-1][1] == pytest.approx(PATIENCE_SECONDS, abs=1e-4)

    simulate(scenario)


def test_after_groups_that_were_too_small_requests_are_let_in_at_once_for_a_pause() -> None:
    async def scenario(door: Door) -> None:
        busy = door.requests(MANY, seconds=10.0)
        await asyncio.sleep(0)
        for chance in range(CHANCES):
            assert door.gathering.state is State.BUSY
            await asyncio.gather(*door.requests(WORTHWHILE - 1, first=100 * chance))
        since = door.loop.time()
        assert [door.gathering.state] == [State.SKIPPING]
        await asyncio.gather(*door.requests(3, first=1000))
        assert {at for _, at in door.entered[-3:]} == {since}, "they are let in at once"
        await asyncio.sleep(PAUSE_SECONDS)
        since = door.loop.time()
        await asyncio.gather(*door.requests(WORTHWHILE, first=2000))
        assert {at for _, at in door.entered[-WORTHWHILE:]} == {since + PATIENCE_SECONDS}
        for chance in range(CHANCES):
            before = door.gathering.groups
            await asyncio.gather(*door.requests(2, first=3000 + 2 * chance))
            assert door.gathering.groups == before + 1, "a small group among large ones changes nothing"
        before = door.gathering.groups
        await asyncio.gather(*door.requests(2, first=90))
        assert door.gathering.groups == before
        for task in busy:
            task.cancel()
        await asyncio.gather(*busy, return_exceptions=True)

    simulate(scenario)


@pytest.mark.parametrize("turn_given", [False, True])
def test_a_request_that_is_cancelled_while_it_waits_leaves_no_trace(turn_given: bool) -> None:
    async def scenario(door: Door) -> None:
        inside = door.requests(MANY, first=100)
        first, *others = door.requests(4)
        await asyncio.sleep(0)
        if turn_given:  # cancelled in the same turn of the loop in which it is let in
            door.loop.call_later(PATIENCE_SECONDS, others[1].cancel)
        else:
            door.loop.call_later(PATIENCE_SECONDS / 2, others[1].cancel)
        await asyncio.gather(first, *others, *inside, return_exceptions=True)
        assert others[1].cancelled() and [number for number, _ in door.entered[MANY:]] == [0, 1, 3]
        await asyncio.sleep(1)
        since = door.loop.time()
        await asyncio.gather(*door.requests(MANY, first=9))
        assert door.entered[-1] == (8 + MANY, since), "no request counts as inside any more"

    simulate(scenario)
