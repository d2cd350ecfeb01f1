"""The results of runs with restarts: wrong times of each restart, and what makes a run fail."""

from __future__ import annotations

import json

import pytest

from tests.promises.shared.interrupted import Outcome, show, wrong_after
from tests.promises.shared.raw_log import Wrong


def test_a_wrong_time_is_divided_among_the_restarts_that_it_follows() -> None:
    wrongs = [Wrong("before", 0, 90), Wrong("across", 150, 350), Wrong("last", 380, 390)]
    assert wrong_after(wrongs, [100, 200, 300, 360], 400) == [50, 100, 50, 10]
    assert wrong_after([], [100], 400) == [0]
    assert wrong_after(wrongs, [], 400) == []


@pytest.mark.parametrize(
    "broken", [{"lost": {"the broker": ["one"]}}, {"undone": ["one"]}, {"unrepaired": 1}], ids=lambda each: next(iter(each))
)
def test_a_broken_promise_is_reported_and_sets_the_exit_status(broken: dict[str, object], capsys: pytest.CaptureFixture[str]) -> None:
    outcome = Outcome("planted", 1.0, lost={"the broker": []}, wrong_after_ms=[3, 1, 2])
    assert show(outcome, "table") == 0
    assert "2 ms (median), 3 ms (most)" in capsys.readouterr().out
    for name, value in broken.items():
        setattr(outcome, name, value)
    assert show(outcome, "json") == 1
    report = json.loads(capsys.readouterr().out)
    assert report["broken"] and {name: report[name] for name in broken} == broken
