"""Metrics of the process itself, and its versions."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata
from platform import python_version

import grpc
from prometheus_client import PlatformCollector, ProcessCollector
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from .families import PREFIX

_PROCESS = (ProcessCollector(registry=None), PlatformCollector(registry=None))


def of_process() -> Iterator[Metric]:
    """Yields the metrics of the process, and its versions."""
    version = metadata.version("topicpolicies")
    build = GaugeMetricFamily(f"{PREFIX}build_info", "What runs; always 1.", labels=["version", "python", "grpc"])
    build.add_metric([version, python_version(), grpc.__version__], 1)
    yield build
    for collector in _PROCESS:
        yield from collector.collect()
