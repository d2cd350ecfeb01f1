"""Metrics of a server's files: the history and the checkpoints."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.metrics_core import Metric

from ..checkpoints import Checkpoints
from ..history import History
from ..history.entries import GapReason
from .families import counter, counters, gauge

_NO_GAPS = dict.fromkeys((reason.name for reason in GapReason), 0.0)
"""All reasons are shown from the start, as in ``calls``, because an alert is on the first increase."""


def of_history(history: History) -> Iterator[Metric]:
    """Yields the metrics of a history."""
    figures = history.figures()
    yield gauge("history_waiting_events", "Entries that wait to be written to the history.", figures.waiting)
    yield gauge("history_waiting_bytes", "The same in bytes, by estimate.", figures.waiting_bytes)
    yield gauge("history_waiting_seconds", "For how long the first of them has waited.", figures.waiting_seconds)
    yield gauge("history_failing", "Whether the history's file can't be written now.", int(figures.failing))
    yield counters("history_gaps", "Periods in which the history may lack events, by reason.", "reason", {**_NO_GAPS, **figures.gaps})


def of_checkpoints(checkpoints: Checkpoints) -> Iterator[Metric]:
    """Yields the metrics of checkpoints."""
    yield counter("checkpoints_written", "Checkpoints that were written.", checkpoints.written)
    yield counter("checkpoint_failures", "Checkpoints that could not be written.", checkpoints.failed)
