"""The state machine of a namespace, by its table; and a namespace survives any failure of its log or of its own code."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from collections.abc import Awaitable, Callable
from typing import Any, cast, get_args

import pytest

from tests.memory_log import MemoryNamespaceLog
from tests.simulation.loop import SimulatedLoop
from topicpolicies_server.core.errors import Kind, PolicyError
from topicpolicies_server.core.reading.watch import Mode, Selection, WatchHub
from topicpolicies_server.core.reasons import LogState, Reason
from topicpolicies_server.logs.change_log import LogError
from topicpolicies_server.namespaces import life as life_module
from topicpolicies_server.namespaces.follower import Follower
from topicpolicies_server.namespaces.life import (
    Asked,
    Began,
    Closed,
    CutOff,
    Ended,
    Failed,
    Happening,
    Impossible,
    Life,
    Loading,
    Lost,
    Missed,
    Opened,
    Phase,
    Served,
    Serving,
    State,
    after,
)

from .bench import KEY, NAMESPACE, Bench, error_of, simulate

LOST = LogError(LogState.LOST, "The log was lost.")
GONE = LogError(Reason.NAMESPACE_NOT_FOUND, "The namespace does not exist.", kind=Kind.NOT_FOUND)
CLOSED = PolicyError(Kind.UNAVAILABLE, Reason.LOG_UNAVAILABLE, "It is closed.")


class _Opening:
    """A fake of a follower."""

    def __init__(self, *, continues: bool = False) -> None:
        self.continues = continues
        self.forgotten = self.gone = False

    def forget(self) -> None:
        self.forgotten = True

    def let_go(self) -> None:
        self.gone = True


def _opening(*, continues: bool = False) -> Follower:
    return cast("Follower", _Opening(continues=continues))


HUB = cast("WatchHub", object())


def _run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await scenario()

    loop = SimulatedLoop(random.Random(1))
    loop.run(main())
    assert loop.failures == []


def _written() -> dict[tuple[str, str], str]:
    """Reads the table of the module's docstring: the next state by state and event. The rows of ``Closed`` and ``Ended`` stand for all."""
    rows = [line.split(None, 3) for line in (life_module.__doc__ or "").splitlines() if "  " in line.strip()]
    return {(state, event.strip("`")): then for state, event, then, *_ in rows if then in _STATES}


_STATES = {state.__name__ for state in (Loading, Serving, Failed, Closed)}


def test_the_table_of_the_docstring_is_the_one_of_the_code() -> None:
    async def scenario() -> None:
        mine, fresh = asyncio.Future[None](), asyncio.Future[None]()
        one, two = _opening(), _opening()
        states: list[State] = [Loading(mine), Serving(one, HUB), Failed(LOST), Failed(LOST, mine)]
        happenings: list[Happening] = [
            Opened(two), Served(two, HUB), Missed(GONE), Lost(GONE, fresh), Asked(fresh), Began(fresh, stays_failed=True),
            CutOff(GONE, fresh),
        ]  # fmt: skip
        assert {type(happening) for happening in happenings} | {Ended} == set(get_args(life_module.Happening))
        holds: dict[tuple[str, str], str] = {("Closed", "all"): "Closed", ("the", "Ended"): "Closed"}
        for state, happening in itertools.product(states, happenings):
            with contextlib.suppress(Impossible):
                holds[type(state).__name__, type(happening).__name__] = type(after(state, happening)).__name__
        assert _written() == holds

    _run(scenario)


def test_every_event_in_every_state_has_the_next_state_of_the_table() -> None:
    async def scenario() -> None:
        mine, fresh = asyncio.Future[None](), asyncio.Future[None]()
        one, two = _opening(), _opening()
        loading, serving, failed, closed = Loading(mine), Serving(one, HUB), Failed(LOST), Closed(CLOSED)
        waited = Failed(LOST, mine)
        events: list[Happening] = [
            Opened(two),
            Served(two, HUB),
            Missed(GONE),
            Lost(GONE, fresh),
            Asked(fresh),
            Began(fresh, stays_failed=True),
            CutOff(GONE, fresh),
            Ended(CLOSED),
        ]
        table: dict[tuple[State, type], State] = {
            (loading, Opened): Loading(mine, follower=two),
            (loading, Served): Serving(two, HUB),
            (loading, Missed): Failed(GONE),
            (loading, Lost): Loading(mine, GONE),
            (serving, Lost): Loading(fresh, GONE),
            (failed, Asked): Failed(LOST, fresh),
            (waited, Asked): waited,
            (failed, Began): Loading(fresh, LOST, stays_failed=True),
            (waited, Began): Loading(mine, LOST, stays_failed=True),
            (loading, CutOff): Loading(fresh),
            (serving, CutOff): serving,
            (failed, CutOff): failed,
            (waited, CutOff): failed,
        }
        states: list[State] = [loading, serving, failed, waited, closed]
        for state, event in itertools.product(states, events):
            if state is closed:
                assert after(state, event) is closed
            elif isinstance(event, Ended):
                assert after(state, event) == Closed(CLOSED)
            elif (state, type(event)) in table:
                assert after(state, event) == table.pop((state, type(event)))
            else:
                with pytest.raises(Impossible):
                    after(state, event)
        assert not table

    _run(scenario)


def test_callers_that_wait_for_an_unreachable_log_get_the_error_and_the_attempt_goes_on() -> None:
    async def scenario() -> None:
        life = Life(lambda: None)
        first, opening = life.admit(), _opening()
        assert first is not None
        life.opened(opening)
        life.cut_off(GONE)
        assert first.exception() is GONE and life.reading is opening
        second = life.admit()
        assert second is not None and second is not first and not second.done()
        life.serve(opening, HUB)
        assert second.done() and second.exception() is None

    _run(scenario)


def test_waiting_callers_are_let_in_or_get_an_error_on_every_path_of_the_states() -> None:
    async def scenario() -> None:
        asked = 0

        def ask() -> None:
            nonlocal asked
            asked += 1

        life = Life(ask)
        first, opening = life.admit(), _opening()
        assert first is not None and life.admit() is first
        life.opened(opening)
        life.missed(GONE)
        assert first.exception() is GONE and life.phase.value == "failed" and asked == 0
        second = life.admit()
        assert second is not None and life.admit() is second and asked == 1
        life.began(stays_failed=True)
        assert life.admit() is second and life.phase.value == "failed", "the phase stays failed during a retry, for watchers"
        serving = _opening()
        life.opened(serving)
        life.serve(serving, HUB)
        assert second.done() and second.exception() is None and life.admit() is None and life.served is serving
        life.lost(LOST)
        third = life.admit()
        assert third is not None and (life.phase.value, life.cause) == ("loading", "LOG_UNAVAILABLE")
        life.end(CLOSED)
        assert third.exception() is CLOSED
        life.lost(LOST)
        life.serve(_opening(), HUB)
        life.missed(GONE)
        with pytest.raises(PolicyError) as refusal:
            life.admit()
        assert refusal.value is CLOSED
        assert life.served is serving

    _run(scenario)


def test_an_abandoned_opening_is_forgotten_unless_it_continues_the_view_that_served() -> None:
    async def scenario() -> None:
        life = Life(lambda: None)
        left, serving, further, anew = _opening(), _opening(), _opening(continues=True), _opening()
        life.opened(left)
        life.lost(LOST)
        life.opened(serving)
        life.serve(serving, HUB)
        life.lost(LOST)
        life.opened(further)
        life.lost(LOST)
        assert life.served is further
        life.opened(anew)
        life.serve(anew, HUB)
        openings = [cast("_Opening", each) for each in (left, serving, further, anew)]
        assert [each.forgotten for each in openings] == [True, False, False, False]
        assert [each.gone for each in openings] == [False, True, True, False]  # an opening that was let go is forgotten too

    _run(scenario)


# Failures


@pytest.mark.parametrize("error", [ValueError("not JSON"), asyncio.CancelledError(), LogError(LogState.REFUSED, "No.")])
def test_a_log_that_can_not_be_closed_does_not_keep_callers_waiting(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    async def scenario(bench: Bench) -> None:
        namespace = bench.namespace
        await bench.set(1)
        bench.opened.answers[0].hold()
        bench.opened.reads[0].hold()
        under_way, close = bench.setting(2), MemoryNamespaceLog.close

        async def fail(self: MemoryNamespaceLog) -> None:
            await close(self)
            raise error

        monkeypatch.setattr(MemoryNamespaceLog, "close", fail)
        await asyncio.sleep(0.1)
        await bench.registry.close()
        async with asyncio.timeout(20):
            assert (await error_of(under_way)).reason == "OUTCOME_UNKNOWN"
            assert (await error_of(namespace.get(KEY))).reason == "SHUTTING_DOWN"

    simulate(scenario, update_timeout_seconds=60.0)


@pytest.mark.parametrize("error", [ValueError("not JSON"), asyncio.CancelledError()])
@pytest.mark.parametrize("where", ["opening", "failing", "pausing"])
def test_after_an_unexpected_error_in_an_attempt_the_namespace_is_loaded_again(where: str, error: BaseException) -> None:
    """Brokers may answer with status 200 and a body that is not JSON, for example; callers must not wait for ever then."""

    async def scenario(bench: Bench) -> None:
        namespace, broken = bench.namespace, [error] * 3

        def breaking(real: Callable[..., Any]) -> Callable[..., Any]:
            def call(*arguments: Any) -> Any:
                if broken:
                    raise broken.pop()
                return real(*arguments)

            return call

        if where == "opening":
            bench.log.open = breaking(bench.log.open)  # type: ignore[method-assign]
        elif where == "failing":
            bench.log.refusals = [LOST] * 20
            namespace._updates.turn_away = breaking(namespace._updates.turn_away)  # type: ignore[method-assign]
        else:
            bench.log.refusals = [GONE] * 3
            namespace._loader._pauses.least = breaking(namespace._loader._pauses.least)  # type: ignore[method-assign]
        namespace.hold(bench)
        await asyncio.sleep(60)
        assert not broken, "precondition"
        assert await bench.value() is None and (await bench.set(1)).version

    simulate(scenario, load_retry_seconds=1.0, update_timeout_seconds=60.0)


def test_a_watched_namespace_is_loaded_again_after_an_unexpected_error() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.namespace.watch(Selection(None), Mode.LATEST, None, lambda: None)
        opened, broken = bench.log.open, [KeyError("partitions")]

        async def open_badly(*arguments: Any) -> Any:
            if broken:
                raise broken.pop()
            return await opened(*arguments)

        bench.log.open = open_badly  # type: ignore[method-assign, assignment]
        bench.opened.lose(LOST)
        await asyncio.sleep(0.01)
        assert (bench.namespace.phase.value, bench.namespace.cause) == ("failed", "INTERNAL")
        await asyncio.sleep(10)
        assert bench.namespace.phase is Phase.READY

    simulate(scenario)


def test_a_log_that_is_lost_whenever_it_serves_is_opened_again_only_after_pauses() -> None:
    async def scenario(bench: Bench) -> None:
        real = bench.log.open

        async def open_and_lose(namespace: str, sink: Any) -> Any:
            log = await real(namespace, sink)
            bench.loop.call_later(0.01, bench.storage.lose, NAMESPACE)
            return log

        bench.log.open = open_and_lose  # type: ignore[method-assign,assignment]
        bench.namespace.hold(bench)
        await asyncio.sleep(60)
        assert 6 <= len(bench.log.openings) < 80, "five openings at once, then one after each pause"
        bench.log.open = real  # type: ignore[method-assign]
        assert (await bench.set(1)).version

    simulate(scenario, load_retry_seconds=1.0, update_timeout_seconds=60.0)


def test_a_log_is_opened_again_only_after_the_opening_before_was_closed() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.set(1)
        bench.opened.answers[0].hold()
        bench.opened.reads[0].hold()
        under_way = bench.setting(2)
        await asyncio.sleep(0.1)
        follower = bench.namespace._life.served
        assert follower is not None
        follower.lost(LogError(Reason.LOG_UNAVAILABLE, "It was found to be inconsistent."))  # the log itself is still open
        assert (await under_way).previous == "11"
        assert bench.registry.activity.loads == {"loaded": 2}, "no attempt found it open"

    simulate(scenario, update_timeout_seconds=60.0)
