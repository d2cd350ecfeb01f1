"""The delay of a polite caller: the times of its calls, and the result of several observations."""

from __future__ import annotations

import random

import pytest

from bench import rations
from bench.figures import rationing
from bench.figures.scale import QUICK


def test_the_polite_caller_calls_once_in_each_slot_at_a_random_time() -> None:
    times = rations.times(50, 4.0, random.Random(1).random)
    assert [int(at * 50) for at in times] == list(range(200))
    assert len({round(at * 50 % 1, 2) for at in times}) > 50
    assert rations.times(100, 0.05) == [0.0, 0.01, 0.02, 0.03, 0.04]


def test_several_observations_are_combined_into_one_result() -> None:
    first, second = rations.Observation([1.0] * 100, 0.5, 100.0), rations.Observation([3.0] * 99 + [50.0], 0.25, 120.0)
    assert rations.measured([first, second]) == rations.Measured(2.0, 3.0, 0.75, 110.0)


def test_a_round_observes_both_kinds_of_other_callers_equally_often(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[tuple[str, float]] = []

    def observe(_: object, how: str, seconds: float) -> rations.Observation:
        called.append((how, seconds))
        return rations.Observation([2.0 if how == "waits" else 1.0], 0.0, 0.0)

    class Server:
        def __enter__(self) -> None: ...
        def __exit__(self, *_: object) -> None: ...

    monkeypatch.setattr(rations, "server", lambda _: Server())
    monkeypatch.setattr(rations, "observe", observe)
    found = rationing.measure(QUICK, lambda _: None)
    assert {how: sum(each == how for each, _ in called) for how in ("waits", "modest", "")} == {"waits": 8, "modest": 8, "": 2}
    assert (found["rations-delay"].ours, found["rations-delay"].limit) == ([2.0, 2.0], [1.0, 1.0])
    assert [how for how, _ in called[:2]] != [how for how, _ in called[2:4]], "they take turns at being first"
