"""The chain of acknowledged updates: it orders a complete history, and detects lost and doubled updates."""

from __future__ import annotations

from .links import Link, chain

GOOD = [Link("a", "0", "1"), Link("c", "2", "3"), Link("b", "1", "2")]


def test_a_complete_history_is_ordered_from_links_in_any_order() -> None:
    found = chain(GOOD)
    assert [link.request_id for link in found.links] == ["a", "b", "c"]
    assert not found.broken


def test_a_repeated_answer_does_not_count_as_a_second_update() -> None:
    assert not chain([*GOOD, GOOD[0]]).broken


def test_a_lost_update_is_a_fork() -> None:
    assert chain([*GOOD, Link("d", "1", "2x")]).forks


def test_an_update_whose_previous_version_is_not_known_closes_a_gap() -> None:
    found = chain([GOOD[0], Link("b", "", "2"), GOOD[1]])
    assert [link.request_id for link in found.links] == ["a", "b", "c"]
    assert not found.broken
    assert chain([*GOOD, Link("b2", "", "2")]).loose == [Link("b2", "", "2")]


def test_an_update_of_which_only_the_request_id_is_known_closes_one_gap() -> None:
    found = chain([GOOD[0], Link("b", "", ""), GOOD[1]])
    assert [link.request_id for link in found.links] == ["a", "c"]
    assert not found.broken
    assert not chain([*GOOD, Link("e", "", "")]).broken, "an update without a known previous version may have closed its gap"
    assert chain([GOOD[0], Link("b", "", ""), GOOD[1], Link("e", "4", "5")]).loose == [Link("e", "4", "5")]
    assert chain([*GOOD[:2], Link("a", "", "")]).loose == [GOOD[1]], "the version of that request is known"


def test_an_update_after_a_missing_link_is_loose() -> None:
    assert chain(GOOD[:2]).loose == [GOOD[1]]


def test_a_request_with_two_versions_was_applied_twice() -> None:
    assert chain([*GOOD, Link("a", "3", "4")]).twice == ["a"]
