"""Rates of changes by a given clock: what they count, how they decay, and that the number of names is bounded."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topicpolicies_server.cli.showing.rates import MEAN_SECONDS, Last, Rates

LAST = Last(datetime(2026, 3, 1, 12, tzinfo=UTC), "somebody", "too fast")


def counted(*times: float, most: int = 10) -> Rates:
    rates = Rates(most)
    for time in times:
        rates.count("a", time, LAST)
    return rates


@pytest.mark.parametrize("per_second", [0.1, 1.0, 50.0])
@pytest.mark.parametrize("seconds", [10.0, 30.0, 600.0])
def test_a_steady_rate_is_measured_correctly_over_any_time(per_second: float, seconds: float) -> None:
    count = int(per_second * seconds)
    (row,) = counted(*((number + 0.5) / per_second for number in range(count))).rows(seconds, 0.0, 5)
    assert row.rate == pytest.approx(per_second, rel=0.05)
    assert (row.name, row.changes, row.last) == ("a", count, LAST)


def test_without_further_changes_a_rate_decays_and_its_count_does_not() -> None:
    rates = counted(*range(1_000))
    before, after = (rates.rows(now, 0.0, 1)[0] for now in (1_000.0, 1_000.0 + MEAN_SECONDS))
    assert after.rate == pytest.approx(before.rate / 2.718281828)
    assert after.changes == 1_000


def test_rows_are_sorted_by_the_current_rate_and_then_by_name() -> None:
    rates = Rates(10)
    for number in range(100):
        rates.count("was", float(number), LAST)
    for number in range(20):
        rates.count("is", 200.0 + number, LAST)
    rates.count("b", 220.0, LAST)
    rates.count("a", 220.0, LAST)
    assert [row.name for row in rates.rows(220.0, 0.0, 10)] == ["is", "a", "b", "was"]
    assert [row.name for row in rates.rows(220.0, 0.0, 1)] == ["is"]


def test_there_are_no_rows_before_any_time_has_passed() -> None:
    assert counted(5.0).rows(5.0, 5.0, 10) == []


def test_beyond_the_maximum_the_names_with_the_lowest_rates_are_dropped() -> None:
    rates = Rates(20)
    for number in range(10):
        rates.count("fast", float(number), LAST)
    for number in range(1_000):
        rates.count(f"slow-{number}", 10.0 + number / 100, LAST)
        assert len(rates) <= 20
    assert rates.rows(20.0, 0.0, 1)[0].name == "fast"
    assert rates.let_go == 1_001 - len(rates)
    assert {row.name for row in rates.rows(20.0, 0.0, 20)} >= {"slow-999", "slow-990"}, "of similar rates, the oldest are dropped"


@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.floats(0.0, 30.0)), max_size=100), st.integers(1, 10))
def test_for_any_sequence_of_changes_rows_are_sorted_and_rates_are_bounded(changes: list[tuple[str, float]], most: int) -> None:
    rates, now = Rates(most), 0.0
    for name, later in changes:
        now += later
        rates.count(name, now, LAST)
    rows = rates.rows(now + 1.0, 0.0, 100)
    assert [row.rate for row in rows] == sorted((row.rate for row in rows), reverse=True)
    assert all(0 <= row.rate < len(changes) + 1 for row in rows)
    assert len(rows) == len(rates) <= most
