"""Each request expires in its time, and answered requests are not kept in memory."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from tests.simulation.loop import SimulatedLoop
from topicpolicies_server.core.chains.request import Request
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.namespaces.updates import Deadlines

SECONDS = 30.0
LATE = 0.1 * SECONDS


class Expiring:
    """Deadlines, and the requests that have expired."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.deadlines = Deadlines(self.loop, SECONDS, self._expire)
        self.expired: list[tuple[str, float]] = []

    def _expire(self, request: Request) -> None:
        request.answered = True
        self.expired.append((request.request_id, self.loop.time()))

    def add(self, *names: str) -> list[Request]:
        requests = [Request(PolicyKey("persistent://a/b/c", Scope.LOCAL), None, name, "") for name in names]
        for request in requests:
            self.deadlines.add(request)
        return requests


def simulate(scenario: Callable[[Expiring], Awaitable[None]]) -> None:
    async def main() -> None:
        await scenario(Expiring())

    loop = SimulatedLoop(random.Random(1))
    loop.run(main())
    assert loop.failures == []


def names(requests: list[Request]) -> list[str]:
    return [request.request_id for request in requests]


@pytest.mark.parametrize("together", [1, 64])
def test_answered_requests_are_dropped_when_others_are_added(together: int) -> None:
    async def scenario(world: Expiring) -> None:
        for number in range(1_000):
            for request in reversed(world.add(*(f"{number}-{each}" for each in range(together)))):
                request.answered = True
        last = world.add("last")
        assert [request for _, request in world.deadlines._open] == last
        assert names(world.deadlines.close()) == names(last)

    simulate(scenario)


def test_waiting_requests_expire_in_their_time_whatever_happens_to_others() -> None:
    async def scenario(world: Expiring) -> None:
        first, second = world.add("first", "second")
        second.answered = True
        await asyncio.sleep(1.0)
        (third,) = world.add("third")
        assert names(world.deadlines.close()) == ["first", "third"]
        world.add("fourth", "fifth")[0].answered = True
        for number in range(10):
            world.add(str(number))[0].answered = True
        assert not first.answered and not third.answered
        began = world.loop.time()
        await asyncio.sleep(SECONDS + 2 * LATE)
        assert [name for name, _ in world.expired] == ["fifth"]
        assert began + SECONDS <= world.expired[0][1] <= began + SECONDS + LATE
        assert world.deadlines.close() == []

    simulate(scenario)
