"""Healings are read from the lines of guards, and one that takes an earlier one back is noticed."""

from __future__ import annotations

import logging

import pytest

from tests.namespaces.bench import KEY, document
from topicpolicies_server.core.policies.events import Action, Event, Placed
from topicpolicies_server.guard.healing import tell_of_healing
from topicpolicies_server.namespaces.activity import Repair

from .healings import Healing, healings, taken_back


def lines_of(caplog: pytest.LogCaptureFixture, *numbers: tuple[dict[str, int], dict[str, int]]) -> list[str]:
    """Returns the lines that a guard logs of healings, each given as the document before and after."""
    cause = Placed(0, "0007", Event(KEY, Action.UPDATE, document(max_producer_per_topic=3)), 1_700_000_000_123, "standalone-0-23")
    with caplog.at_level(logging.INFO):
        for before, after in numbers:
            tell_of_healing(Repair("acme/orders", KEY, "0007", document(**before), document(**after), cause), True)
    return [f"2026-01-01 INFO    guard: {record.getMessage()}" for record in caplog.records]


def test_every_setting_of_a_healing_is_read_from_its_line(caplog: pytest.LogCaptureFixture) -> None:
    lines = lines_of(caplog, ({"max_producer_per_topic": 3}, {"max_producer_per_topic": 4, "max_consumer_per_topic": 19}))
    assert healings(["another line", *lines]) == [
        Healing(KEY.topic, "max_consumer_per_topic", 0, 19),
        Healing(KEY.topic, "max_producer_per_topic", 3, 4),
    ]
    assert taken_back(healings(lines)) == []


def test_a_healing_of_the_version_alone_changes_no_setting(caplog: pytest.LogCaptureFixture) -> None:
    assert healings(lines_of(caplog, ({"max_producer_per_topic": 3}, {"max_producer_per_topic": 3}))) == []


def test_a_healing_to_less_than_an_earlier_one_takes_it_back(caplog: pytest.LogCaptureFixture) -> None:
    healed = ({"max_producer_per_topic": 3}, {"max_producer_per_topic": 3, "max_consumer_per_topic": 19})
    found = taken_back(healings(lines_of(caplog, healed, healed[::-1])))
    assert [str(each) for each in found] == [f"{KEY.topic} max_consumer_per_topic: 19 -> unset"]
