"""What is done about a reader that receives nothing, and when."""

from __future__ import annotations

from topicpolicies_server.logs.pulsar.reading.patience import Patience


def after(patience: Patience, *seconds: float) -> list[bool]:
    """Returns at which of these times the reader is due to be reopened; it is reopened each time."""
    due = []
    for now in seconds:
        due.append(patience.reader_is_due(now))
        if due[-1]:
            patience.reader_opened(now)
    return due


def test_the_broker_is_due_for_a_request_a_second_after_its_last_answer() -> None:
    patience = Patience(100.0, 30.0)
    assert not patience.broker_is_due(100.9) and patience.broker_is_due(101.0)
    patience.broker_answered(105.0)
    assert not patience.broker_is_due(105.9) and patience.broker_is_due(106.0)


def test_a_reader_is_reopened_at_growing_intervals() -> None:
    patience = Patience(100.0, 30.0)
    assert after(patience, 102.9, 103.0, 108.9, 109.0, 120.9, 121.0) == [False, True, False, True, False, True]
    patience.ended(122.0)
    assert after(patience, 124.9, 125.0) == [False, True]


def test_a_log_is_lost_if_no_reader_receives_anything_for_the_whole_patience() -> None:
    patience = Patience(100.0, 30.0)
    after(patience, 103.0, 109.0, 121.0)
    assert not patience.too_long(130.0) and patience.too_long(130.1)
    patience.ended(131.0)
    assert not patience.too_long(160.0)
