"""Loading of a namespace: once for all callers, bounded and retried; it is closed when idle, and never answers too early."""

from __future__ import annotations

import asyncio
import functools
import itertools
import logging
from typing import Any

import pytest

from topicpolicies_server.core.errors import Kind, PolicyError
from topicpolicies_server.core.fold.keystate import REMEMBERED_REQUESTS
from topicpolicies_server.core.reading.tokens import Mode, Selection
from topicpolicies_server.core.reasons import LogState, Reason
from topicpolicies_server.logs.change_log import LogError
from topicpolicies_server.namespaces.namespace import ASKED_SECONDS, Phase

from .bench import KEY, NAMESPACE, Bench, error_of, simulate

UNREACHABLE = LogError(LogState.UNREACHABLE, "The change log can't be reached.")


def test_a_namespace_is_loaded_once_for_all_callers() -> None:
    async def scenario(bench: Bench) -> None:
        bench.log.opening_seconds = 0.1
        answers = await asyncio.gather(*(bench.namespace.get(KEY) for _ in range(50)), *(bench.set(value) for value in range(1, 20)))
        assert len(answers) == 69 and len(bench.log.openings) == 1

    simulate(scenario)


def test_the_number_of_concurrent_loads_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("topicpolicies_server.namespaces.registry._LOADS", 2)

    async def scenario(bench: Bench) -> None:
        bench.log.opening_seconds = 0.1
        names = [f"acme/{letter}" for letter in "abcdef"]
        await asyncio.gather(*(bench.registry.get(name).ready() for name in names))
        assert bench.log.most_at_once == 2
        assert [at for at, _ in bench.log.openings] == pytest.approx([0.0, 0.0, 0.1, 0.1, 0.2, 0.2])

    simulate(scenario)


def test_nothing_is_answered_before_the_log_is_read() -> None:
    async def scenario(bench: Bench) -> None:
        bench.elsewhere(7)
        bench.faults.read_seconds = 0.5
        reading = bench.loop.create_task(bench.value())
        writing = bench.setting(8)
        await asyncio.sleep(0.4)
        assert not reading.done() and not writing.done() and bench.namespace.phase is Phase.LOADING
        assert await reading == 7
        assert (await writing).previous == "11"

    simulate(scenario)


def test_updates_of_an_unloadable_namespace_get_the_error_of_the_next_attempt_soon() -> None:
    async def scenario(bench: Bench) -> None:
        bench.log.refusals = [UNREACHABLE] * 2
        namespace = bench.namespace
        first = await error_of(namespace.update(bench.request(1)))
        second = await error_of(namespace.update(bench.request(2)))
        assert first is second is UNREACHABLE
        assert len(bench.log.openings) == 2 and bench.loop.time() <= ASKED_SECONDS
        await asyncio.sleep(0.1)
        assert (await bench.set(3)).version == "11"

    simulate(scenario)


def test_an_unloadable_namespace_without_waiting_callers_is_dropped() -> None:
    async def scenario(bench: Bench) -> None:
        bench.log.refusals = [UNREACHABLE] * 100
        assert await error_of(bench.namespace.get(KEY)) is UNREACHABLE
        await asyncio.sleep(5)
        assert len(bench.registry) == 0 and len(bench.log.openings) < 5

    simulate(scenario)


def test_an_unreadable_entry_is_skipped() -> None:
    async def scenario(bench: Bench) -> None:
        bench.elsewhere(1)
        bench.storage.write_unreadable(NAMESPACE)
        bench.elsewhere(2)
        assert await bench.value() == 2
        bench.storage.write_unreadable(NAMESPACE)
        assert (await bench.set(3)).previous == "13"

    simulate(scenario, sole_writer=False)


# Superseded loads


def test_a_load_may_take_any_time_while_entries_arrive_and_fails_once_none_does() -> None:
    async def scenario(bench: Bench) -> None:
        for value in range(1, 6):
            bench.elsewhere(value)
        seconds = itertools.chain((4, 8, 12, 16, 100), (4, 8, 12, 16, 20))  # a load without entries fails after 5 s
        bench.faults.read_delay = lambda *_: next(seconds)  # type: ignore[method-assign]
        waiting = bench.loop.create_task(error_of(bench.namespace.get(KEY)))
        await asyncio.sleep(20.9)
        assert not waiting.done() and len(bench.log.openings) == 1
        await asyncio.sleep(2)
        assert (await waiting).reason == "LOG_UNAVAILABLE"
        assert await bench.value() == 5

    simulate(scenario)


def test_if_the_reader_contradicts_an_event_taken_by_proof_the_log_is_read_again() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.set(1)
        bench.opened.reads[0].hold()
        await bench.set(2)  # taken by proof, not read
        entries = bench.storage.namespace(NAMESPACE).entries[0]
        assert entries[1].event is not None and entries[1].event.stamp is not None
        other = entries[1].event._replace(stamp=entries[1].event.stamp._replace(event_id="another"))
        follower = bench.namespace.served
        assert follower is not None
        follower.read([entries[0], entries[1]._replace(event=other)])
        assert await bench.value() == 2, "nothing is answered from the view that was contradicted"
        assert len(bench.log.openings) == 2 and bench.namespace.served is not follower

    simulate(scenario)


# Idle, full, and closed


def test_an_idle_namespace_is_closed_and_loaded_again_when_it_is_used() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.set(5)
        await asyncio.sleep(3)
        assert len(bench.registry) == 0
        assert await bench.value() == 5 and len(bench.log.openings) == 2

    simulate(scenario, namespace_idle_seconds=2.0)


def test_a_namespace_with_watches_or_updates_in_flight_is_not_closed() -> None:
    async def scenario(bench: Bench) -> None:
        watcher = await bench.namespace.watch(Selection(None), Mode.LATEST, None, lambda: None)
        await asyncio.sleep(10)
        assert len(bench.registry) == 1
        bench.opened.appends[0].hold()
        under_way = bench.setting(1)
        await asyncio.sleep(0.1)
        bench.namespace.unwatch(watcher)
        await asyncio.sleep(10)
        assert len(bench.registry) == 1
        bench.opened.appends[0].release()
        assert (await under_way).version == "11"
        await asyncio.sleep(10)
        assert len(bench.registry) == 0

    simulate(scenario, namespace_idle_seconds=2.0, update_timeout_seconds=60.0)


def test_closing_finishes_accepted_updates_and_refuses_later_ones() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.set(1)
        bench.opened.answers[0].hold()
        accepted, waiting = bench.setting(2), bench.setting(3)
        bench.loop.call_later(0.5, bench.opened.answers[0].release)
        await asyncio.sleep(0.01)
        await bench.registry.close()
        assert ((await accepted).version, (await waiting).version) == ("12", "13")
        with pytest.raises(PolicyError, match="stopping"):
            bench.registry.get(NAMESPACE)

    simulate(scenario, max_in_flight_per_key=1)


# With other writers


def test_after_a_compaction_a_load_waits_for_possible_repairs_for_a_bounded_time() -> None:
    async def scenario(bench: Bench) -> None:
        bench.elsewhere(1)
        bench.elsewhere(2)
        bench.storage.compact(NAMESPACE)
        assert await bench.value() == 2
        assert bench.loop.time() == pytest.approx(bench.limits.join_patience_seconds, abs=0.01)

    simulate(scenario, sole_writer=False, join_patience_seconds=3.0)
    simulate(scenario, sole_writer=False, join_patience_seconds=7.0)


def test_a_load_ends_as_soon_as_no_head_is_provisional() -> None:
    async def scenario(bench: Bench) -> None:
        bench.elsewhere(1)
        bench.elsewhere(2)
        bench.storage.compact(NAMESPACE)
        await asyncio.sleep(1.5)
        assert await bench.value() == 2
        assert bench.loop.time() == pytest.approx(2.0, abs=0.01)

    simulate(scenario, sole_writer=False, window_ms=2_000, join_patience_seconds=100.0)


def test_a_retry_of_a_request_in_the_log_is_replayed_after_a_restart() -> None:
    async def scenario(bench: Bench) -> None:
        first = await bench.set(1, request_id="interrupted")
        for value in range(2, 2 + 3 * REMEMBERED_REQUESTS):
            await bench.set(value)
        await bench.registry.close()
        again = Bench(storage=bench.storage)
        repeated = await again.namespace.update(again.request(1, request_id="interrupted"))
        assert (repeated.replayed, repeated.version, repeated.previous) == (True, first.version, first.previous)
        assert await again.value() == 1 + 3 * REMEMBERED_REQUESTS, "the retry was not applied again"
        await again.registry.close()

    simulate(scenario)


@pytest.mark.parametrize("watched", [True, False])
def test_every_caller_of_a_damaged_log_gets_the_error_and_it_is_logged_once(watched: bool, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(bench: Bench) -> None:
        bench.elsewhere(7)
        real = bench.log.open
        bench.faults.read_seconds = 0.1

        async def open_damaged(namespace: str, sink: Any, start: Any = None) -> Any:
            log = await real(namespace, sink)
            bench.loop.call_later(0.01, functools.partial(bench.storage.lose, namespace, why=Reason.LOG_FILE_UNUSABLE))
            return log

        bench.log.open = open_damaged  # type: ignore[method-assign]
        if watched:
            bench.namespace.hold(bench)
        for asked in range(1, 6):
            error = await error_of(bench.namespace.get(KEY))
            assert (error.kind, error.reason) == (Kind.UNAVAILABLE, "LOG_FILE_UNUSABLE")
            assert error.message == f"The change log of {NAMESPACE} can't be followed any more. Open it again."
            assert len(bench.log.openings) == asked, "a damaged log is not read again at once"
            await asyncio.sleep(2 * ASKED_SECONDS)
        bench.log.open = real  # type: ignore[method-assign]
        assert await bench.value() == 7

    with caplog.at_level(logging.WARNING):
        simulate(scenario, load_retry_seconds=1000)
    (line,) = [record.getMessage() for record in caplog.records if NAMESPACE in record.getMessage()]
    assert line == f"{NAMESPACE} can't be loaded: The change log of {NAMESPACE} can't be followed any more. Open it again."
