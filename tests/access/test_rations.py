"""Limits of what each principal may use at a time, and of its changes per second."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topicpolicies_server.access.rations import Allowance, Beyond, Bucket, Ration, Rations, Use


@pytest.mark.parametrize(
    ("allowance", "use", "fits"),
    [
        (Allowance(calls=3), Use.READ, 3),
        (Allowance(calls=3, watches=2), Use.WATCH, 2),
        (Allowance(changes_per_second=5), Use.CHANGE, 5),
        (Allowance(in_flight_bytes=100), Use.READ, 4),
    ],
)
def test_calls_begin_up_to_the_limit_and_are_refused_beyond_it(allowance: Allowance, use: Use, fits: int) -> None:
    ration = Ration(allowance, 0)
    assert [ration.begin(use, 25, 0) for _ in range(fits)] == [None] * fits
    assert isinstance(ration.begin(use, 25, 0), Beyond)
    ration.end(use, 25)
    again = ration.begin(use, 25, 0)
    assert (again is None) is (use is not Use.CHANGE), "the end of a change gives no token back"


@pytest.mark.parametrize("use", list(Use))
def test_without_limits_no_call_is_refused(use: Use) -> None:
    ration = Ration(Allowance(), 0)
    assert not Allowance().limits and all(ration.begin(use, 1 << 40, 0) is None for _ in range(1_000))


def test_a_single_request_may_exceed_the_limit_of_bytes_in_flight() -> None:
    ration = Ration(Allowance(in_flight_bytes=100), 0)
    assert ration.begin(Use.READ, 1_000, 0) is None
    assert ration.begin(Use.READ, 1, 0) == Beyond("in_flight_bytes", 100, 1.0)
    assert ration.begin(Use.READ, 0, 0) is None


def test_reservations_that_are_given_back_cost_nothing() -> None:
    bucket = Bucket(10, 0)
    reserved = [bucket.reserve(9, 0)[0], *(bucket.reserve(9, 0)[0] for _ in range(50))]
    assert bucket.take(0) == 0.0 and bucket.take(0) == pytest.approx(0.1), "single changes do not wait for reservations of batches"
    for count in reserved[1:]:
        bucket.unused(count)
    assert bucket.take(0) == pytest.approx(0.1)
    assert bucket.reserve(9, 0)[1] == pytest.approx(0.2), "the next batch does not wait for them either"


@given(rate=st.floats(0.1, 10_000), asks=st.lists(st.tuples(st.floats(0, 3), st.integers(0, 50)), max_size=60))
def test_no_more_changes_begin_than_the_rate_and_its_burst_allow(rate: float, asks: list[tuple[float, int]]) -> None:
    bucket, now, begun = Bucket(rate, 0), 0.0, []
    waiting: list[tuple[float, int]] = []
    for pause, wanted in asks:
        now += pause
        for at, count in [each for each in waiting if each[0] <= now]:
            waiting.remove((at, count))
            bucket.used(count)
        if not wanted:
            if not (seconds := bucket.take(now)):
                begun.append((now, 1))
            else:
                assert seconds > 0
        else:
            count, seconds = bucket.reserve(wanted, now)
            assert 1 <= count <= wanted
            begun.append((now + seconds, count))
            if seconds:
                waiting.append((now + seconds, count))
    begun.sort()
    batches = sum(1 for _, wanted in asks if wanted)
    for index, (first, _) in enumerate(begun):
        for last in range(index, len(begun)):
            span = begun[last][0] - first
            together = sum(count for _, count in begun[index : last + 1])
            # Reservations of batches had their times before later single changes took the token that batches leave for them.
            singles = sum(1 for _, count in begun[index : last + 1] if count == 1)
            slack = max(1.0, rate * 0.1) + (singles if batches else 0) + 1
            assert together <= max(2.0, rate) + rate * span + slack


def test_a_change_beyond_the_rate_gets_the_seconds_until_there_is_a_token() -> None:
    bucket = Bucket(10, 0)
    assert [bucket.take(0) for _ in range(10)] == [0.0] * 10
    assert bucket.take(0) == pytest.approx(0.1)
    assert bucket.take(0.05) == pytest.approx(0.05)
    assert bucket.take(0.1) == 0.0


def test_queued_changes_get_consecutive_turns() -> None:
    bucket = Bucket(10, 0)
    for _ in range(10):
        bucket.take(0)
    turns = []
    for _ in range(5):
        turns.append(bucket.take(0))
        bucket.enqueue()
    assert turns == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5])
    assert bucket.take(0.5) == pytest.approx(0.1), "a later change comes after the queued ones"
    assert bucket.take(0.6) == 0.0


def test_a_turn_that_is_given_up_goes_to_the_next_change() -> None:
    bucket = Bucket(10, 0)
    for _ in range(10):
        bucket.take(0)
    for _ in range(3):
        bucket.take(0)
        bucket.enqueue()
    bucket.dequeue()
    assert bucket.take(0) == pytest.approx(0.3)


def test_retry_delays_of_refused_changes_are_spread_up_to_a_bound() -> None:
    bucket = Bucket(10, 0)
    for _ in range(10):
        bucket.take(0)
    delays = [bucket.retry_delay(bucket.take(0)) for _ in range(100)]
    assert delays[:5] == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5])
    assert max(delays) == pytest.approx(2.1)
    assert bucket.retry_delay(bucket.take(5)) == pytest.approx(0.0), "the delays of the refused changes have passed"


@given(rate=st.floats(1, 1_000), asks=st.lists(st.tuples(st.floats(0, 1), st.integers(1, 40)), max_size=40))
def test_queued_changes_begin_no_faster_than_the_rate_and_its_burst_allow(rate: float, asks: list[tuple[float, int]]) -> None:
    bucket, now, begun = Bucket(rate, 0), 0.0, []
    for pause, count in asks:
        now += pause
        for _ in range(count):
            if seconds := bucket.take(now):
                bucket.enqueue()
            begun.append(now + seconds)
    assert begun == sorted(begun), "no change overtakes another"
    for index, first in enumerate(begun):
        for last in range(index, len(begun)):
            assert last - index + 1 <= max(2.0, rate) + rate * (begun[last] - first) + 1 + 1e-3


def test_batches_leave_a_token_for_single_changes() -> None:
    bucket = Bucket(10, 0)
    count, seconds = bucket.reserve(1_000, 0)
    assert (count, seconds) == (9, 0.0)
    count, seconds = bucket.reserve(1_000, 0)
    assert count == 1 and seconds == pytest.approx(0.1)
    assert bucket.take(0) == 0.0
    bucket.used(count)


def test_waiting_batches_get_consecutive_turns() -> None:
    bucket = Bucket(10, 0)
    bucket.reserve(1_000, 0)
    waits = [bucket.reserve(1_000, 0) for _ in range(5)]
    assert [seconds for _, seconds in waits] == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5])


def test_a_batch_continues_at_its_rate() -> None:
    bucket, now, done = Bucket(1_000, 0), 0.0, 0
    while now < 10:
        count, seconds = bucket.reserve(256, now)
        now += seconds
        if seconds:
            bucket.used(count)
        done += count
    assert done == pytest.approx(11_000, rel=0.02)


def test_the_table_is_bounded_and_keeps_principals_with_calls_in_progress() -> None:
    rations = Rations(Allowance(calls=1), most=10)
    busy = rations.of("busy", 0)
    assert busy.begin(Use.READ, 0, 0) is None
    for number in range(1_000):
        rations.of(number, number)
    assert len(rations) == 10 and rations.of("busy", 0) is busy


def test_if_all_principals_have_calls_in_progress_new_ones_share_a_ration() -> None:
    rations = Rations(Allowance(calls=1), most=200)
    for number in range(200):
        assert rations.of(number, 0).begin(Use.READ, 0, 0) is None
    assert rations.of("one", 0) is rations.of("another", 0)
    rations.of(0, 0).end(Use.READ, 0)
    assert len(rations) == 200


@pytest.mark.slow
@given(st.randoms(use_true_random=False))
def test_calls_that_have_ended_use_nothing(chance: random.Random) -> None:
    ration = Ration(Allowance(calls=20, watches=5, in_flight_bytes=500), 0)
    held: list[tuple[Use, int]] = []
    for _ in range(200):
        if held and chance.random() < 0.5:
            ration.end(*held.pop(chance.randrange(len(held))))
        else:
            use, size = chance.choice(list(Use)), chance.randrange(200)
            if ration.begin(use, size, 0) is None:
                held.append((use, size))
    for use, size in held:
        ration.end(use, size)
    assert (ration.calls, ration.watches, ration.bytes) == (0, 0, 0)
