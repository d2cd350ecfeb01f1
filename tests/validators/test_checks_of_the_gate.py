"""What the gate computes of logs and runs: healings of guards, events outside of their writer's term, wrong times of restarts."""

from __future__ import annotations

import json

import pytest

from tests.promises.exclusive.raw_log import Intruder, intruders
from tests.promises.guard.healings import Healing, healings, taken_back
from tests.promises.shared.interrupted import Outcome, show, wrong_after
from tests.promises.shared.raw_log import Wrong

TOPIC = "persistent://acme/orders/one"
CAUSE = "because of an UPDATE of standalone-0-23 at 0007, published 2026-01-01 10:00:00.123"


def line(difference: str) -> str:
    """Returns the line that a guard logs of a healing."""
    return f"2026-01-01 10:00:00,200 INFO    guard: healed {TOPIC} (LOCAL): {difference}; {CAUSE}"


def test_every_setting_of_a_healing_is_read() -> None:
    lines = ["another line", line("max_consumer_per_topic: unset -> 19; max_producer_per_topic: 3 -> 4")]
    assert healings(lines) == [Healing(TOPIC, "max_consumer_per_topic", 0, 19), Healing(TOPIC, "max_producer_per_topic", 3, 4)]
    assert taken_back(healings(lines)) == []


def test_a_healing_of_the_version_alone_changes_no_setting() -> None:
    assert healings([line("no setting, but the log's newest event does not name version 0007 with all its requests")]) == []


def test_a_healing_to_less_than_an_earlier_one_takes_it_back() -> None:
    lines = [line("max_consumer_per_topic: unset -> 19"), line("max_consumer_per_topic: 19 -> unset")]
    assert [str(each) for each in taken_back(healings(lines))] == [f"{TOPIC} max_consumer_per_topic: 19 -> unset"]


def test_events_of_leaders_in_their_own_terms_are_no_intruders() -> None:
    assert intruders([("p", ["a", "a", "b", "b"]), ("q", ["b"])]) == []


def test_an_event_of_a_fenced_leader_behind_its_successors_is_an_intruder() -> None:
    assert intruders([("p", ["a", "b", "a", "b"])]) == [Intruder("p", 2, "a", "b")]


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
