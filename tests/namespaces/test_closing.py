"""Callers that wait for a namespace while it is closed, loads slowly, reads nothing, or gets fewer partitions."""

from __future__ import annotations

import asyncio

import pytest

from topicpolicies_server.core.errors import Kind
from topicpolicies_server.core.reasons import LogState
from topicpolicies_server.logs.change_log import LogError
from topicpolicies_server.namespaces.namespace import Phase

from .bench import KEY, Bench, error_of, simulate

UNREACHABLE = LogError(LogState.UNREACHABLE, "The change log can't be reached.")


@pytest.mark.parametrize("expiring", [True, False])
def test_calls_to_a_closed_namespace_are_refused_at_once(expiring: bool) -> None:
    async def scenario(bench: Bench) -> None:
        namespace = bench.namespace
        await bench.set(1)
        if not expiring:
            await asyncio.sleep(10)  # until no timer runs any more
        await namespace.close()
        assert namespace.phase is Phase.CLOSED
        for asked in (namespace.update(bench.request(2)), namespace.get(KEY), namespace.ready()):
            async with asyncio.timeout(0.5):
                error = await error_of(asked)
            assert (error.kind, error.reason) == (Kind.UNAVAILABLE, "LOG_UNAVAILABLE")

    simulate(scenario)


def test_at_a_close_sent_updates_have_an_unknown_outcome_and_unsent_ones_are_certainly_not_applied() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.set(1)
        bench.opened.answers[0].hold()
        bench.opened.reads[0].hold()
        sent = [bench.setting(value) for value in (2, 3)]
        repeat = bench.setting(2, request_id="request-2")
        waiting = bench.setting(4)
        await asyncio.sleep(0.1)
        assert len(bench.ids()) == 3, "precondition: they are in the log"
        namespace = bench.namespace
        closing = asyncio.ensure_future(namespace.close())
        await asyncio.sleep(0.1)
        late = await error_of(namespace.update(bench.request(5)))
        assert (late.kind, late.reason) == (Kind.UNAVAILABLE, "LOG_UNAVAILABLE"), "an update during the close is refused at once"
        await closing
        for task in (*sent, repeat):
            error = await error_of(task)
            assert (error.kind, error.reason) == (Kind.DEADLINE_EXCEEDED, "OUTCOME_UNKNOWN")
            assert error.metadata["request_id"].startswith("request-")
        error = await error_of(waiting)
        assert (error.kind, error.reason) == (Kind.UNAVAILABLE, "LOG_UNAVAILABLE")
        again = Bench(storage=bench.storage)
        assert await again.value() == 3
        repeated = await again.namespace.update(again.request(2, request_id="request-2"))
        assert repeated.replayed and repeated.previous == "11"
        await again.registry.close()

    simulate(scenario, update_timeout_seconds=60.0, max_in_flight_per_key=2)


def test_updates_in_flight_when_the_log_was_lost_have_an_unknown_outcome_at_a_close() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.set(1)
        bench.opened.appends[0].hold()
        under_way = bench.setting(2)
        await asyncio.sleep(0.1)
        bench.log.refusals = [UNREACHABLE] * 1_000
        bench.opened.lose(UNREACHABLE)
        await asyncio.sleep(1)
        bench.log.opening_seconds = 30.0
        late = bench.setting(3)
        await asyncio.sleep(0.1)
        namespace = bench.namespace
        await namespace.close()
        assert (await error_of(under_way)).reason == "OUTCOME_UNKNOWN"
        assert (await error_of(late)).reason == "LOG_UNAVAILABLE"

    simulate(scenario, update_timeout_seconds=60.0, load_retry_seconds=600.0)


@pytest.mark.parametrize("moment", ["while it closes", "when it is closed"])
@pytest.mark.parametrize("demanded", ["", "11", "99"])
def test_an_update_of_a_namespace_that_closes_always_returns(demanded: str, moment: str) -> None:
    async def scenario(bench: Bench) -> None:
        await bench.set(1)
        namespace = bench.namespace
        bench.opened.answers[0].hold()
        bench.opened.reads[0].hold()
        bench.setting(2)
        await asyncio.sleep(0.01)
        closing = asyncio.ensure_future(namespace.close())
        await asyncio.sleep(0.01)
        if moment == "when it is closed":
            await closing
        async with asyncio.timeout(0.5):
            error = await error_of(namespace.update(bench.request(3, version=demanded)))
        assert (error.kind, error.reason) == (Kind.UNAVAILABLE, "LOG_UNAVAILABLE")
        assert (not namespace._watching and not namespace.busy) or moment == "while it closes"
        await closing

    simulate(scenario, sole_writer=False, update_timeout_seconds=60.0)


def test_at_a_stop_of_the_server_all_unsent_requests_get_an_error_that_says_so() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.set(1)
        bench.opened.answers[0].hold()
        bench.opened.reads[0].hold()
        sent, waiting = bench.setting(2), bench.setting(3)
        bench.log.opening_seconds = 30.0
        loading = asyncio.ensure_future(error_of(bench.registry.get("acme/other").get(KEY)))
        await asyncio.sleep(0.1)
        namespace = bench.namespace
        await bench.registry.close()
        assert (await error_of(sent)).reason == "OUTCOME_UNKNOWN"
        errors = [await error_of(waiting), await loading, await error_of(namespace.update(bench.request(4)))]
        assert {(error.kind, error.reason) for error in errors} == {(Kind.UNAVAILABLE, "SHUTTING_DOWN")}

    simulate(scenario, update_timeout_seconds=60.0, max_in_flight_per_key=1)
