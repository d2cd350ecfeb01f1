"""Background tasks with an owner that handles their failures."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable

import pytest

from tests.simulation.loop import SimulatedLoop
from topicpolicies_server.core.reasons import LogState
from topicpolicies_server.logs.change_log import LogError
from topicpolicies_server.tasks import RestartedTask, TaskSet


def simulate(scenario: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await scenario()

    loop = SimulatedLoop(random.Random(1))
    loop.run(main())
    assert loop.failures == []


def _now() -> float:
    return asyncio.get_running_loop().time()


@pytest.mark.parametrize("error", [ValueError("not JSON"), LogError(LogState.LOST, "It is away."), asyncio.CancelledError()])
def test_a_task_that_fails_is_restarted_after_a_pause(error: BaseException) -> None:
    began: list[float] = []

    async def run() -> None:
        began.append(_now())
        raise error

    async def scenario() -> None:
        kept = RestartedTask("looking", run, pause_seconds=3)
        kept.start()
        await asyncio.sleep(10)
        assert began == [0, 3, 6, 9]
        await kept.stop()
        await asyncio.sleep(100)
        assert len(began) == 4

    simulate(scenario)


def test_a_failure_is_logged_and_calls_failed(caplog: pytest.LogCaptureFixture) -> None:
    began, seen = list[float](), list[BaseException]()

    async def run() -> None:
        began.append(_now())
        if not seen:
            raise KeyError("partitions")
        await asyncio.sleep(1_000)

    async def scenario() -> None:
        kept = RestartedTask("looking for logs", run, failed=seen.append)
        kept.start()
        await asyncio.sleep(1.5)
        assert began == [0, 1]
        await kept.stop()

    simulate(scenario)
    assert [type(error) for error in seen] == [KeyError]
    first = caplog.records[0]
    assert first.levelno == logging.ERROR and first.exc_info
    assert first.getMessage() == "looking for logs failed (KeyError: 'partitions'); it continues in 1 s"


def test_a_task_that_returns_has_ended_and_may_be_started_again() -> None:
    runs = 0

    async def run() -> None:
        nonlocal runs
        runs += 1

    async def scenario() -> None:
        kept = RestartedTask("once", run)
        for times in (1, 2):
            kept.start()
            kept.start()
            await asyncio.sleep(1)
            assert runs == times

    simulate(scenario)


def test_failed_tasks_of_a_set_are_logged_and_removed_and_the_others_end_with_the_set(caplog: pytest.LogCaptureFixture) -> None:
    ended: list[str] = []

    async def fail() -> None:
        raise ZeroDivisionError

    async def wait() -> None:
        try:
            await asyncio.sleep(1_000)
        finally:
            ended.append("waiting")

    async def scenario() -> None:
        owned = TaskSet("acme/orders")
        owned.begin(fail(), "closing")
        owned.begin(wait(), "asking")
        await asyncio.sleep(1)
        assert len(owned) == 1
        await owned.close()
        assert len(owned) == 0 and ended == ["waiting"]

    simulate(scenario)
    assert [record.getMessage() for record in caplog.records] == ["acme/orders: closing failed (ZeroDivisionError)"]


def test_a_set_that_is_closed_without_cancelling_waits_for_its_tasks() -> None:
    async def scenario() -> None:
        owned = TaskSet("acme/orders")
        owned.begin(asyncio.sleep(5), "closing")
        await owned.close(cancel=False)
        assert _now() == pytest.approx(5.0) and len(owned) == 0

    simulate(scenario)
