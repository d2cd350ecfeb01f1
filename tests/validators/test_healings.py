"""The lines of guards are read: each setting that was healed, and a healing that takes an earlier one back."""

from __future__ import annotations

from tests.promises.guard.healings import Healing, healings, taken_back

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
