"""The check of terms finds events that were written outside their writer's term."""

from __future__ import annotations

from .raw_log import Intruder, Message, intruders

FIRST = [Message("a", True), Message("a", False), Message("b", True), Message("b", False)]


def test_events_that_leaders_wrote_in_their_own_terms_are_no_intruders() -> None:
    assert intruders([("p", FIRST)]) == []


def test_an_event_of_a_fenced_leader_after_its_successors_announcement_is_an_intruder() -> None:
    assert intruders([("p", [*FIRST, Message("a", False)])]) == [Intruder("p", 4, "a", "b")]


def test_an_event_before_the_first_announcement_is_an_intruder() -> None:
    assert intruders([("p", [Message("broker", False), *FIRST])]) == [Intruder("p", 0, "broker", "")]
