"""``EventClock``: the time, according to events whose own times may be wrong."""

from __future__ import annotations

import random

import pytest

from topicpolicies_server.core.reading.recent_cells import WINDOWS, EventClock

W = 1_000
DAY = 86_400_000


def times(*events: tuple[str, int]) -> list[int]:
    time = EventClock(W)
    return [time.after(at, producer) for producer, at in events]


def test_the_time_is_that_of_the_last_event_while_events_are_close_together() -> None:
    assert times(("a", 5), ("b", 900), ("a", 1_900), ("b", 1_200)) == [5, 900, 1_900, 1_200]


def test_after_a_pause_the_time_is_the_one_that_two_clocks_agree_on() -> None:
    assert times(("a", 0), ("a", DAY), ("a", DAY + 10), ("b", DAY + 300)) == [0, 0, 0, DAY + 10]


def test_two_wrong_clocks_that_disagree_do_not_move_the_time() -> None:
    assert times(("a", 0), ("b", DAY), ("c", 2 * DAY), ("b", DAY + 1), ("a", 20)) == [0, 0, 0, 0, 20]


def test_after_a_pause_a_sole_producer_is_believed_once_its_claim_spans_the_idle_time() -> None:
    span = WINDOWS * W
    assert times(("a", 0), ("a", DAY), ("a", DAY + span), ("a", DAY + span + 1)) == [0, 0, 0, DAY + span + 1]
    assert times(("a", 0), ("a", DAY), ("a", 2 * DAY), ("a", 3 * DAY)) == [0, 0, 2 * DAY, 2 * DAY]


def test_two_clocks_that_agree_on_an_earlier_time_win_over_a_later_claim() -> None:
    assert times(("a", 0), ("b", DAY), ("a", 9_000), ("b", DAY + 1), ("c", 9_100)) == [0, 0, 0, 0, 9_000]


def test_an_event_behind_the_time_sets_it_back_and_a_claim_ahead_does_not_advance_it() -> None:
    assert times(("a", DAY), ("b", 5), ("b", 6), ("a", DAY + 1), ("b", 7)) == [DAY, 5, 6, 6, 7]


def test_two_events_of_one_producer_never_agree_even_with_another_producers_event_between_them() -> None:
    assert times(("a", 0), ("c", DAY), ("a", 2_000), ("c", DAY + 1), ("c", DAY + 2)) == [0] * 5


def test_a_clock_that_is_ahead_is_not_believed_sooner_after_a_pause_of_the_others() -> None:
    assert times(("a", 0), ("c", DAY), ("a", 5_500), ("c", DAY + 5_600), ("c", DAY + 5_700)) == [0] * 5


def test_a_claim_from_before_a_pause_does_not_count_after_it() -> None:
    assert times(("a", 0), ("c", DAY), ("a", 3 * DAY), ("c", 4 * DAY), ("c", 4 * DAY + 1)) == [0] * 5
    assert times(("a", 0), ("c", DAY), ("a", 3 * DAY), ("c", 4 * DAY), ("c", 5 * DAY)) == [0] * 4 + [5 * DAY], (
        "its new claim spans enough time"
    )


def test_the_number_of_claims_is_bounded() -> None:
    time = EventClock(W)
    time.after(0, "a")
    for number in range(1, 1_000):
        assert time.after(number * DAY, f"b{number}") == 0
    assert time.after(DAY + 1, "c") == DAY, "the earliest claims are kept"


@pytest.mark.parametrize("seed", range(100))
def test_with_one_wrong_clock_no_recent_cell_becomes_idle_and_every_other_one_does(seed: int) -> None:
    """The other clocks are wrong by at most half of W."""
    chance = random.Random(seed)
    off = {name: chance.randrange(-W // 2, W // 2 + 1) for name in "abc"}
    off["wrong"] = chance.choice((-1, 1)) * chance.choice((3 * W, 5 * W, DAY, chance.randrange(3 * W, 10 * DAY)))
    time, real = EventClock(W), 20 * DAY
    touched: list[tuple[int, int]] = []
    for _ in range(400):
        real += chance.choice((1_500, 4_000, 60_000, 3 * DAY)) if chance.random() < 0.1 else chance.randrange(200)
        producer = chance.choice(["a", "b", "c", "wrong", "wrong"])
        now = time.after(real + off[producer], producer)
        idle = [at for at, claimed in touched if claimed < now - WINDOWS * W]
        assert all(real - at >= 2 * W for at in idle)
        if producer != "wrong":
            touched.append((real, real + off[producer]))
    now = 0
    for _ in range(200):
        real += 100
        now = time.after(real + off["a"], "a")
    assert all(claimed < now - WINDOWS * W for _, claimed in touched)
