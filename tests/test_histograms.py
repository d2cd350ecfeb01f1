"""Histograms of durations."""

from __future__ import annotations

from topicpolicies_server.namespaces.activity import BOUNDS, Histogram


def test_each_bucket_counts_the_durations_up_to_its_bound() -> None:
    histogram = Histogram((0.1, 1.0))
    for seconds in (0.05, 0.1, 0.5, 2.0):
        histogram.count(seconds)
    assert histogram.cumulated() == [("0.1", 2.0), ("1.0", 3.0), ("+Inf", 4.0)]
    assert abs(histogram.seconds - 2.65) < 1e-9


def test_the_bounds_ascend() -> None:
    assert list(BOUNDS) == sorted(set(BOUNDS))
