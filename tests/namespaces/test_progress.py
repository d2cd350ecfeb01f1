"""How far a view has come: callers wait for positions, and logs of watched namespaces are asked for their ends at a shared rate."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.simulation.loop import SimulatedLoop
from topicpolicies_server.config import Limits
from topicpolicies_server.core.fold.fold import FoldContext
from topicpolicies_server.core.policies.events import Position
from topicpolicies_server.logs.change_log import NamespaceLog
from topicpolicies_server.namespaces.progress import Progress

SECONDS = 5.0
"""The time between two questions."""


class Log:
    """A log that other processes write too, and whose end does not move."""

    partitions = 1

    def __init__(self, asked: list[tuple[float, int]] | None = None, number: int = 0) -> None:
        self._asked, self._number = asked, number

    async def end(self, _: int) -> Position:
        if self._asked is not None:
            self._asked.append((asyncio.get_running_loop().time(), self._number))
        return ""


def progress(loop: SimulatedLoop, asking: asyncio.Lock) -> Progress:
    common = SimpleNamespace(
        limits=Limits(bookmark_interval_seconds=2 * SECONDS), now=loop.milliseconds, context=FoldContext(), asking=asking
    )
    return Progress("acme/orders", cast("Any", common), lambda *_: None)


def watched(loop: SimulatedLoop, log: object, here: list[Position], asking: asyncio.Lock | None = None) -> Progress:
    made = progress(loop, asking or asyncio.Lock())
    made.serve(cast("NamespaceLog", log), here, 0)
    made.watched()
    return made


@pytest.mark.parametrize(("logs", "per_second", "between"), [(50, 50.0, SECONDS), (1_000, 50.0, 20.0), (20, 1.0, 20.0)])
def test_the_logs_of_watched_namespaces_are_asked_in_turn_at_a_bounded_rate(
    logs: int, per_second: float, between: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("topicpolicies_server.namespaces.progress.CONFIRMATIONS_PER_SECOND", per_second)
    loop = SimulatedLoop(random.Random(1))
    asked: list[tuple[float, int]] = []

    async def watch() -> None:
        asking = asyncio.Lock()
        all_of_them = [watched(loop, Log(asked, number), [""], asking) for number in range(logs)]
        await asyncio.sleep(10 * between)
        oldest = min(each.complete_as_of_ms for each in all_of_them)
        assert loop.milliseconds() - oldest <= 1_000 * (between + SECONDS + 1)
        for each in all_of_them:
            each.stop()

    loop.run(watch())
    assert max(Counter(int(at) for at, _ in asked).values()) <= per_second + 1
    times = Counter(number for _, number in asked)
    assert len(times) == logs
    assert max(times.values()) - min(times.values()) <= 1, "the logs are asked in turn"
    assert min(times.values()) >= 10 * between / (between + SECONDS) - 1


def test_a_namespace_that_is_not_watched_any_more_is_not_asked() -> None:
    loop = SimulatedLoop(random.Random(1))
    asked: list[tuple[float, int]] = []

    async def watch() -> None:
        made = watched(loop, Log(asked), [""])
        await asyncio.sleep(3 * SECONDS)
        before = len(asked)
        made.unwatched()
        await asyncio.sleep(10 * SECONDS)
        assert before >= 3 and len(asked) <= before + 1
        made.watched()
        await asyncio.sleep(SECONDS)
        assert len(asked) > before
        made.stop()

    loop.run(watch())


def test_a_view_that_is_always_behind_is_confirmed_as_of_when_the_log_ended_at_its_place() -> None:
    loop = SimulatedLoop(random.Random(1))

    class Growing(Log):
        async def end(self, _: int) -> Position:
            return f"{loop.milliseconds():020}"

    async def watch() -> None:
        made = watched(loop, Growing(), [""])
        behind = 2 * SECONDS + 1.0
        for _ in range(600):
            await asyncio.sleep(0.1)
            made.moved([f"{loop.milliseconds() - int(1_000 * behind):020}"])
        late = loop.milliseconds() - made.complete_as_of_ms
        assert 1_000 * behind <= late <= 1_000 * (2 * behind + SECONDS)
        made.stop()

    loop.run(watch())


def test_a_failed_question_confirms_nothing_and_is_repeated() -> None:
    loop = SimulatedLoop(random.Random(1))

    class Failing(Log):
        async def end(self, _: int) -> Position:
            if loop.time() < 3 * SECONDS:
                raise RuntimeError("planted")
            return ""

    async def watch() -> None:
        made = watched(loop, Failing(), [""])
        await asyncio.sleep(2 * SECONDS)
        assert made.complete_as_of_ms == 0
        await asyncio.sleep(4 * SECONDS)
        assert made.complete_as_of_ms > 0
        made.stop()

    loop.run(watch())
