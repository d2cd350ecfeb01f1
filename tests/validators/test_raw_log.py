"""The check of terms finds events that were written outside their writer's term."""

from __future__ import annotations

from tests.promises.exclusive.raw_log import Intruder, intruders


def test_events_of_leaders_in_their_own_terms_are_no_intruders() -> None:
    assert intruders([("p", ["a", "a", "b", "b"]), ("q", ["b"])]) == []


def test_an_event_of_a_fenced_leader_behind_its_successors_is_an_intruder() -> None:
    assert intruders([("p", ["a", "b", "a", "b"])]) == [Intruder("p", 2, "a", "b")]
