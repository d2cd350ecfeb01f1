"""While the log is known to be unreachable no caller waits for it, and reads are answered from the view."""

from __future__ import annotations

import asyncio

from topicpolicies_server.core.reasons import LogState
from topicpolicies_server.logs.change_log import LogError
from topicpolicies_server.namespaces.namespace import Phase
from topicpolicies_server.readiness import Readiness

from .bench import NAMESPACE, Bench, error_of, simulate

GONE = LogError(LogState.UNREACHABLE, "No broker can be reached.")


def lose(readiness: Readiness) -> None:
    """Marks the log as unreachable, after the patience is over."""
    readiness.failed(GONE, 0.0, 4.0)


def test_while_the_log_is_unreachable_updates_are_refused_at_once_and_reads_answered() -> None:
    async def scenario(bench: Bench) -> None:
        readiness = bench.readiness
        await bench.set(1)
        lose(readiness)
        began = bench.loop.time()
        for attempt in (bench.set(2), bench.set(3, version="0"), bench.set(4, validate_only=True)):
            assert (await error_of(attempt)).state is LogState.UNREACHABLE
        assert bench.loop.time() == began
        assert await bench.value() == 1
        readiness.answered(9.0)
        await bench.set(5)
        assert await bench.value() == 5

    simulate(scenario)


def test_while_the_log_is_unreachable_a_first_load_is_refused_at_once_and_continues() -> None:
    async def scenario(bench: Bench) -> None:
        readiness = bench.readiness
        lose(readiness)
        bench.log.opening_seconds = 0.5
        error = await error_of(bench.namespace.get(bench.request(1).key))
        assert (error.state, bench.loop.time()) == (LogState.UNREACHABLE, 0.0)
        await asyncio.sleep(2.0)
        assert bench.namespace.phase is Phase.READY, "the attempt was not given up"

    simulate(scenario)


def test_waiting_callers_get_the_error_when_the_log_becomes_unreachable() -> None:
    async def scenario(bench: Bench) -> None:
        readiness = bench.readiness
        bench.log.opening_seconds = 4.0
        waiting = [asyncio.ensure_future(error_of(bench.value())), asyncio.ensure_future(error_of(bench.set(1)))]
        await asyncio.sleep(0.5)
        lose(readiness)
        assert [error.state for error in await asyncio.gather(*waiting)] == [LogState.UNREACHABLE] * 2
        assert bench.loop.time() == 0.5
        assert bench.registry.find(NAMESPACE) is bench.namespace

    simulate(scenario)


def test_an_unreachable_admin_api_does_not_prevent_updates_of_a_log_that_serves() -> None:
    async def scenario(bench: Bench) -> None:
        readiness = bench.readiness
        await bench.set(1)
        readiness.failed(LogError(LogState.ADMIN_UNREACHABLE, "The admin API gives no answer."), 0.0, 4.0)
        await bench.set(2)
        assert await bench.value() == 2
        other = bench.registry.get("acme/other")
        assert (await error_of(other.get(bench.request(1).key))).state is LogState.ADMIN_UNREACHABLE

    simulate(scenario)
