"""The check itself: it must find what it is there for."""

from __future__ import annotations

from .raw_log import Intruder, Message, intruders

FIRST = [Message("a", True), Message("a", False), Message("b", True), Message("b", False)]


def test_terms_that_follow_each_other_are_in_order() -> None:
    assert intruders([("p", FIRST)]) == []


def test_what_a_fenced_leader_writes_behind_its_successor_is_found() -> None:
    assert intruders([("p", [*FIRST, Message("a", False)])]) == [Intruder("p", 4, "a", "b")]


def test_what_is_written_before_anybody_leads_is_found() -> None:
    assert intruders([("p", [Message("broker", False), *FIRST])]) == [Intruder("p", 0, "broker", "")]
