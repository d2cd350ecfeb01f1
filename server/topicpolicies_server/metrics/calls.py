"""Metrics of calls: how many are in progress, how they end, and how long they take.

Labels are bounded: methods are those of the server, codes are gRPC's, reasons those of ``core/reasons``. No topic or principal is a label.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from time import perf_counter
from typing import Protocol

from prometheus_client.metrics_core import Metric

from topicpolicies.v1 import service_pb2

from ..core.errors import Kind, PolicyError
from ..core.reasons import Reason
from ..histograms import Histogram
from .families import durations, gauge, gauges, several

_METHODS = tuple(method.name for method in service_pb2.DESCRIPTOR.services_by_name["TopicPoliciesService"].methods)
_FAULT = Reason.INTERNAL
"""The reason of INTERNAL. Its counters are shown from the start: Prometheus sees no increase in a counter that is 1 when it first appears,
so an alert on the increase would miss the first fault."""


class Counted(Protocol):
    """What is counted of a call (``rpc.call.Call``)."""

    method: str
    error: PolicyError | None
    code: str
    given_up: bool
    started: float
    """When the call came, by ``time.perf_counter``."""


class CallCounts:
    """An observer that counts calls (``rpc.calls.Observer``). It is used on the event loop; other threads may call ``families``.

    Args:
        watches: returns for each open watch how many records wait to be taken.
        unread_seconds: returns the longest time for which a peer has not taken what was written to it.
        in_progress: returns the methods of the calls in progress.
    """

    def __init__(
        self,
        watches: Callable[[], Sequence[int]] = tuple,
        unread_seconds: Callable[[], float] = float,
        in_progress: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        self._in_progress = in_progress
        self._ended: Counter[tuple[str, str, str]] = Counter()
        for method in _METHODS:
            self._ended[method, Kind.INTERNAL.value, _FAULT] = 0
        self._durations: dict[str, Histogram] = {}
        self._watches = watches
        self._unread_seconds = unread_seconds

    def ended(self, call: Counted) -> None:
        """Counts a call that has ended."""
        method, error = call.method, call.error
        if error is not None:
            self._ended[method, error.kind.value, error.reason] += 1
        else:
            self._ended[method, call.code or ("CANCELLED" if call.given_up else "OK"), ""] += 1
        histogram = self._durations.get(method)
        if histogram is None:
            histogram = self._durations[method] = Histogram()
        taken = perf_counter() - call.started
        histogram.counts[bisect_left(histogram.bounds, taken)] += 1  # inlined ``Histogram.count``, which saves a function call
        histogram.seconds += taken

    def families(self) -> Iterator[Metric]:
        """Yields the metrics."""
        in_progress = {**dict.fromkeys(list(self._durations), 0), **Counter(self._in_progress())}
        yield several(
            "calls", "Calls that ended, by method, gRPC's code and the reason of the error.", ("method", "code", "reason"), self._ended
        )
        yield gauges("calls_in_progress", "Calls in progress, by method.", "method", in_progress)
        yield durations(
            "call_seconds", "How long calls took, by method; for streams and watches: how long they were open.", "method", self._durations
        )
        waiting = self._watches()
        yield gauge("watches", "Open watches.", len(waiting))
        yield gauge("watch_records_waiting", "Records that wait until the readers of watches take more.", sum(waiting))
        unread = "The longest time for which the peer of a stream or watch has not taken what was written to it."
        yield gauge("unread_seconds", unread, self._unread_seconds())
