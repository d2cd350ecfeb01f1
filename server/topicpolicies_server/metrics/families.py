"""Makes the metric families of Prometheus' client: each with its name, its help text and its values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from ..histograms import Histogram

PREFIX = "topicpolicies_"
_Labels = TypeVar("_Labels", bound=tuple[str, ...])


def counter(name: str, what: str, count: float) -> CounterMetricFamily:
    """Returns a counter, whose value only grows."""
    return CounterMetricFamily(PREFIX + name, what, value=count)


def counters(name: str, what: str, label: str, counts: Mapping[str, float]) -> CounterMetricFamily:
    """Returns a counter with one label. Label values that were not counted yet are not shown."""
    return several(name, what, (label,), {(value,): count for value, count in dict(counts).items()})


def several(name: str, what: str, labels: Sequence[str], counts: Mapping[_Labels, float]) -> CounterMetricFamily:
    """Returns a counter with several labels."""
    family = CounterMetricFamily(PREFIX + name, what, labels=labels)
    for values, count in dict(counts).items():
        family.add_metric(values, count)
    return family


def gauge(name: str, what: str, value: float) -> GaugeMetricFamily:
    """Returns a gauge, whose value is the present one."""
    return GaugeMetricFamily(PREFIX + name, what, value=value)


def gauges(name: str, what: str, label: str, values: Mapping[str, float]) -> GaugeMetricFamily:
    """Returns a gauge with one label."""
    family = GaugeMetricFamily(PREFIX + name, what, labels=[label])
    for each, value in dict(values).items():
        family.add_metric([each], value)
    return family


def durations(name: str, what: str, label: str, histograms: Mapping[str, Histogram]) -> HistogramMetricFamily:
    """Returns histograms with one label."""
    family = HistogramMetricFamily(PREFIX + name, what, labels=[label])
    for value, histogram in dict(histograms).items():
        family.add_metric([value], histogram.cumulated(), histogram.seconds)
    return family
