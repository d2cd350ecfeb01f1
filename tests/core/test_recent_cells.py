"""What time it is, by events whose times may be wrong."""

from __future__ import annotations

import random

import pytest

from topicpolicies_server.core.reading.recent_cells import WINDOWS, EventClock

W = 1_000
DAY = 86_400_000


def times(*events: tuple[str, int]) -> list[int]:
    time = EventClock(W)
    return [time.after(at, producer) for producer, at in events]


def test_time_is_that_of_the_events_as_long_as_they_follow_each_other() -> None:
    assert times(("a", 5), ("b", 900), ("a", 1_900), ("b", 1_200)) == [5, 900, 1_900, 1_200]


def test_after_a_pause_the_time_is_what_two_clocks_agree_about() -> None:
    assert times(("a", 0), ("a", DAY), ("a", DAY + 10), ("b", DAY + 300)) == [0, 0, 0, DAY + 10]


def test_two_clocks_that_are_wrong_in_different_ways_agree_about_nothing() -> None:
    assert times(("a", 0), ("b", DAY), ("c", 2 * DAY), ("b", DAY + 1), ("a", 20)) == [0, 0, 0, 0, 20]


def test_after_a_pause_a_producer_that_is_alone_is_believed_when_what_was_before_is_idle_by_its_own_clock() -> None:
    span = WINDOWS * W
    assert times(("a", 0), ("a", DAY), ("a", DAY + span), ("a", DAY + span + 1)) == [0, 0, 0, DAY + span + 1]
    assert times(("a", 0), ("a", DAY), ("a", 2 * DAY), ("a", 3 * DAY)) == [0, 0, 2 * DAY, 2 * DAY]


def test_a_claim_that_is_followed_by_an_earlier_one_counts_for_nothing() -> None:
    assert times(("a", 0), ("b", DAY), ("a", 9_000), ("b", DAY + 1), ("c", 9_100)) == [0, 0, 0, 0, 9_000]


def test_whoever_is_behind_takes_time_back_and_nobody_ahead_takes_it_along() -> None:
    assert times(("a", DAY), ("b", 5), ("b", 6), ("a", DAY + 1), ("b", 7)) == [DAY, 5, 6, 6, 7]


def test_two_events_of_one_clock_do_not_agree_with_each_other_though_another_spoke_between_them() -> None:
    assert times(("a", 0), ("c", DAY), ("a", 2_000), ("c", DAY + 1), ("c", DAY + 2)) == [0] * 5


def test_a_clock_that_is_ahead_is_believed_no_sooner_because_others_were_quiet_before() -> None:
    assert times(("a", 0), ("c", DAY), ("a", 5_500), ("c", DAY + 5_600), ("c", DAY + 5_700)) == [0] * 5


def test_a_clock_that_was_ahead_before_a_pause_is_not_believed_for_having_been_so_long() -> None:
    assert times(("a", 0), ("c", DAY), ("a", 3 * DAY), ("c", 4 * DAY), ("c", 4 * DAY + 1)) == [0] * 5
    assert times(("a", 0), ("c", DAY), ("a", 3 * DAY), ("c", 4 * DAY), ("c", 5 * DAY)) == [0] * 4 + [5 * DAY], "it is the only one by now"


def test_claims_are_bounded() -> None:
    time = EventClock(W)
    time.after(0, "a")
    for number in range(1, 1_000):
        assert time.after(number * DAY, f"b{number}") == 0
    assert time.after(DAY + 1, "c") == DAY, "the nearest are kept"


@pytest.mark.parametrize("seed", range(100))
def test_with_one_wrong_clock_nothing_is_idle_that_had_an_event_lately_and_all_becomes_idle(seed: int) -> None:
    """The other clocks differ by half of W from what is right."""
    chance = random.Random(seed)
    off = {name: chance.randrange(-W // 2, W // 2 + 1) for name in "abc"}
    off["wrong"] = chance.choice((-1, 1)) * chance.choice((3 * W, 5 * W, DAY, chance.randrange(3 * W, 10 * DAY)))
    time, real = EventClock(W), 20 * DAY
    touched: list[tuple[int, int]] = []
    for _ in range(400):
        real += chance.choice((1_500, 4_000, 60_000, 3 * DAY)) if chance.random() < 0.1 else chance.randrange(200)
        producer = chance.choice(["a", "b", "c", "wrong", "wrong"])
        now = time.after(real + off[producer], producer)
        idle = [at for at, told in touched if told < now - WINDOWS * W]
        assert all(real - at >= 2 * W for at in idle)
        if producer != "wrong":
            touched.append((real, real + off[producer]))
    now = 0
    for _ in range(200):
        real += 100
        now = time.after(real + off["a"], "a")
    assert all(told < now - WINDOWS * W for _, told in touched)
