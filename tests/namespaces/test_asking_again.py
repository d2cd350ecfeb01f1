"""A namespace that could not be loaded is tried again when it is used: soon, once for all callers, and not too often."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence

import pytest

from topicpolicies_server.core.errors import Kind
from topicpolicies_server.core.names import Scope
from topicpolicies_server.core.reading.tokens import Mode, Selection
from topicpolicies_server.core.reasons import LogState, Reason
from topicpolicies_server.logs.change_log import LogError
from topicpolicies_server.namespaces.namespace import ASKED_SECONDS, Phase

from .bench import KEY, OTHER, Bench, error_of, simulate

GONE = LogError(Reason.NAMESPACE_NOT_FOUND, "The namespace does not exist.", kind=Kind.NOT_FOUND)
SLOW = {"load_retry_seconds": 600.0, "namespace_idle_seconds": 10_000.0}
"""Without callers a failed namespace is hardly tried again: the pauses are from three seconds to ten minutes."""


async def _deleted_under_a_watch(bench: Bench, tries: int) -> None:
    """Deletes a watched namespace, and waits until attempts to load it are minutes apart; the next ``tries`` attempts fail too."""
    await bench.namespace.watch(Selection(None), Mode.LATEST, None, lambda: None)
    bench.log.refusals = [GONE] * 1_000
    bench.opened.lose(GONE)
    await asyncio.sleep(5_000)
    del bench.log.refusals[tries:]
    assert bench.namespace.phase is Phase.FAILED and len(bench.log.openings) > 10


def _gaps(bench: Bench, since: int) -> Sequence[float]:
    at = [at for at, _ in bench.log.openings[since:]]
    return [later - earlier for earlier, later in itertools.pairwise(at)]


async def _updated(bench: Bench) -> None:
    assert (await bench.set(7)).previous == "0"


async def _read(bench: Bench) -> None:
    assert await bench.value() is None


async def _listed(bench: Bench) -> None:
    assert (await bench.namespace.page(frozenset(Scope), None, 10))[0] == []


async def _watched(bench: Bench) -> None:
    await bench.namespace.watch(Selection(None), Mode.LATEST, None, lambda: None)


@pytest.mark.parametrize("ask", [_updated, _read, _listed, _watched])
def test_a_caller_of_a_namespace_that_exists_again_gets_it_and_not_the_old_error(ask: Callable[[Bench], Awaitable[None]]) -> None:
    async def scenario(bench: Bench) -> None:
        await _deleted_under_a_watch(bench, tries=0)
        began = bench.loop.time()
        await ask(bench)
        assert bench.loop.time() - began <= ASKED_SECONDS and bench.namespace.phase is Phase.READY

    simulate(scenario, **SLOW)


def test_each_caller_of_a_namespace_that_is_still_missing_gets_the_error_of_a_new_attempt() -> None:
    async def scenario(bench: Bench) -> None:
        await _deleted_under_a_watch(bench, tries=2)
        tries = len(bench.log.openings)
        assert await error_of(bench.set(1)) is GONE
        assert await error_of(bench.value()) is GONE
        assert len(bench.log.openings) == tries + 2
        assert await bench.value() is None

    simulate(scenario, **SLOW)


def test_concurrent_callers_share_one_new_attempt() -> None:
    async def scenario(bench: Bench) -> None:
        await _deleted_under_a_watch(bench, tries=1)
        bench.log.opening_seconds = 0.1
        tries = len(bench.log.openings)
        reads = [bench.loop.create_task(error_of(bench.namespace.get(key))) for key in (KEY, OTHER) * 50]
        writes = [bench.loop.create_task(error_of(bench.set(value))) for value in range(1, 100)]
        assert set(await asyncio.gather(*reads, *writes)) == {GONE}
        assert len(bench.log.openings) == tries + 1

    simulate(scenario, **SLOW)


def test_requests_that_cause_a_new_attempt_are_applied_in_their_order() -> None:
    async def scenario(bench: Bench) -> None:
        await _deleted_under_a_watch(bench, tries=0)
        bench.log.opening_seconds = 0.1
        tasks = [bench.setting(value) for value in range(1, 20)]
        versions = [(await task).version for task in tasks]
        assert versions == sorted(versions) and await bench.value() == 19

    simulate(scenario, **SLOW)


@pytest.mark.parametrize("watched", [True, False])
def test_a_flood_of_requests_for_a_missing_namespace_causes_few_attempts_a_second(watched: bool) -> None:
    async def scenario(bench: Bench) -> None:
        if watched:
            await _deleted_under_a_watch(bench, tries=0)
        bench.log.refusals = [GONE] * 10_000
        since, until, answered = len(bench.log.openings), bench.loop.time() + 30, 0

        async def client() -> None:
            nonlocal answered
            while bench.loop.time() < until:
                assert await error_of(bench.value()) is GONE
                answered += 1
                await asyncio.sleep(0.001)

        async def impatient(seconds: float) -> None:
            """Gives up before it is answered, repeatedly."""
            while bench.loop.time() < until:
                try:
                    async with asyncio.timeout(seconds):
                        await error_of(bench.value())
                except TimeoutError:
                    pass
                await asyncio.sleep(seconds)

        await asyncio.gather(*(client() for _ in range(20)), *(impatient(seconds) for seconds in (0.001, 0.01, 0.1)))
        gaps = _gaps(bench, since)
        assert answered > 1_000 and len(gaps) > 60, "precondition: a flood"
        assert min(gaps) >= ASKED_SECONDS and len(gaps) <= 30 / ASKED_SECONDS + 1

    simulate(scenario, **SLOW)


def test_a_namespace_without_callers_is_retried_at_growing_pauses() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.namespace.watch(Selection(None), Mode.LATEST, None, lambda: None)
        bench.log.refusals = [GONE] * 10_000
        since = len(bench.log.openings)
        bench.opened.lose(GONE)
        await asyncio.sleep(3_000)
        gaps = _gaps(bench, since)
        assert gaps[0] > 2 and gaps[-1] > 250 and len(gaps) < 20

    simulate(scenario, **SLOW)


def test_a_request_waits_for_a_new_attempt_no_longer_than_its_own_time() -> None:
    async def scenario(bench: Bench) -> None:
        await _deleted_under_a_watch(bench, tries=0)
        bench.log.opening_seconds = 3.0
        began = bench.loop.time()
        late = await error_of(bench.set(1))
        assert (late.kind, late.reason) == (Kind.UNAVAILABLE, "NOT_APPENDED")
        assert bench.loop.time() - began == pytest.approx(1.0, abs=0.11)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await bench.value()
        assert await bench.value() is None, "the request that timed out was not applied"

    simulate(scenario, update_timeout_seconds=1.0, **SLOW)


def test_updates_in_flight_when_the_namespace_is_deleted_are_refused_and_not_written_later() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.set(1)
        bench.opened.appends[0].hold()
        under_way, waiting = bench.setting(2), bench.setting(3)
        await asyncio.sleep(0.1)
        began, bench.log.refusals = bench.loop.time(), [GONE]
        bench.opened.lose(GONE)
        assert await error_of(under_way) is await error_of(waiting) is GONE
        assert bench.loop.time() - began < 0.1
        assert await bench.value() == 1, "the storage of the test keeps the former entries"
        assert len(bench.ids()) == 1 and (await bench.set(4)).previous == "11"

    simulate(scenario, update_timeout_seconds=30.0, max_in_flight_per_key=1, **SLOW)


def test_updates_in_flight_when_the_log_becomes_unreachable_are_settled_once_it_is_back() -> None:
    async def scenario(bench: Bench) -> None:
        unreachable = LogError(LogState.UNREACHABLE, "The change log can't be reached.")
        await bench.set(1)
        bench.opened.appends[0].hold()
        under_way = bench.setting(2)
        await asyncio.sleep(0.1)
        bench.log.refusals = [unreachable]
        bench.opened.lose(unreachable)
        await asyncio.sleep(0.1)
        assert bench.namespace.phase is Phase.FAILED and not under_way.done()
        assert (await under_way).previous == "11"

    simulate(scenario, update_timeout_seconds=30.0)


def test_callers_that_wait_for_a_new_attempt_get_an_error_when_the_server_closes() -> None:
    async def scenario(bench: Bench) -> None:
        await _deleted_under_a_watch(bench, tries=0)
        bench.log.opening_seconds = 3.0
        reading, writing = bench.loop.create_task(error_of(bench.value())), bench.setting(1)
        await asyncio.sleep(0.5)
        namespace = bench.namespace
        await bench.registry.close()
        assert (await reading).reason == (await error_of(writing)).reason == "SHUTTING_DOWN"
        assert (await error_of(namespace.get(KEY))).reason == "SHUTTING_DOWN", "no attempt is made any more"

    simulate(scenario, **SLOW)
