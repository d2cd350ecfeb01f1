"""The check itself: it must find what it is there for."""

from __future__ import annotations

from .links import Link, chain

GOOD = [Link("a", "0", "1"), Link("c", "2", "3"), Link("b", "1", "2")]


def test_a_whole_history_is_found_in_any_order() -> None:
    found = chain(GOOD)
    assert [link.request_id for link in found.links] == ["a", "b", "c"]
    assert not found.broken


def test_an_answer_that_is_given_again_is_no_second_update() -> None:
    assert not chain([*GOOD, GOOD[0]]).broken


def test_a_lost_update_is_a_fork() -> None:
    assert chain([*GOOD, Link("d", "1", "2x")]).forks


def test_an_update_whose_previous_version_was_forgotten_closes_a_gap() -> None:
    found = chain([GOOD[0], Link("b", "", "2"), GOOD[1]])
    assert [link.request_id for link in found.links] == ["a", "b", "c"]
    assert not found.broken
    assert chain([*GOOD, Link("b2", "", "2")]).loose == [Link("b2", "", "2")]


def test_an_update_of_which_only_the_request_is_known_closes_one_gap() -> None:
    found = chain([GOOD[0], Link("b", "", ""), GOOD[1]])
    assert [link.request_id for link in found.links] == ["a", "c"]
    assert not found.broken
    assert not chain([*GOOD, Link("e", "", "")]).broken, "its gap may be one that a forgotten previous version closes"
    assert chain([GOOD[0], Link("b", "", ""), GOOD[1], Link("e", "4", "5")]).loose == [Link("e", "4", "5")]
    assert chain([*GOOD[:2], Link("a", "", "")]).loose == [GOOD[1]], "it was told before where that one is"


def test_a_missing_link_is_found() -> None:
    assert chain(GOOD[:2]).loose == [GOOD[1]]


def test_a_request_that_is_applied_twice_is_found() -> None:
    assert chain([*GOOD, Link("a", "3", "4")]).twice == ["a"]
