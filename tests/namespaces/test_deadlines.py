"""Each request expires in its time, and answered requests are not kept in memory."""

from __future__ import annotations

import asyncio

from topicpolicies_server.core.chains.request import Request, Result
from topicpolicies_server.core.errors import PolicyError

from .bench import KEY, NAMESPACE, OTHER, Bench, error_of, simulate

SECONDS = 30.0
LATE = 0.1 * SECONDS


def test_answered_requests_are_not_kept() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.set(0)
        bench.opened.answers[0].hold()
        bench.opened.reads[0].hold()
        waiting = bench.setting(1)
        await asyncio.sleep(0.1)
        for number in range(1_000):
            assert (await error_of(bench.set(number, key=OTHER, version="9"))).reason == "PRECONDITION_FAILED"
        assert len(bench.namespace.updates.open) == 1
        bench.opened.reads[0].release()
        await waiting
        assert not bench.namespace.updates.open

    simulate(scenario, update_timeout_seconds=SECONDS)


def test_waiting_requests_expire_in_their_time_whatever_happens_to_others() -> None:
    async def scenario(bench: Bench) -> None:
        bench.log.hanging.add(NAMESPACE)
        namespace, ended = bench.namespace, dict[Request, float]()

        def note(request: Request, answer: Result | PolicyError) -> None:
            assert isinstance(answer, PolicyError) and answer.reason == "NOT_APPENDED"
            assert "because its namespace has not been read yet" in answer.message
            ended[request] = bench.loop.time()

        began = bench.loop.time()
        first, second = bench.request(1), bench.request(2)
        namespace.submit(first, note)
        namespace.submit(second, note)
        namespace.updates.give_up(second)
        await asyncio.sleep(1.0)
        third = bench.request(3, key=KEY)
        namespace.submit(third, note)
        for number in range(10):
            another = bench.request(number, key=OTHER)
            namespace.submit(another, note)
            namespace.updates.give_up(another)
        await asyncio.sleep(SECONDS + 2 * LATE)
        assert list(ended) == [first, third]
        for request, submitted in ((first, began), (third, began + 1)):
            assert submitted + SECONDS <= ended[request] <= submitted + SECONDS + LATE
        bench.log.hanging.clear()

    simulate(scenario, update_timeout_seconds=SECONDS, load_timeout_seconds=3 * SECONDS)
