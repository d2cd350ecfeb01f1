"""Metrics, in the format of Prometheus: the counts and the present state of a server or guard, read when they are requested.

Counting costs only an addition. Labels are bounded: methods are those of the server, codes are gRPC's, reasons those of ``core/reasons``.
No topic or principal is a label, and at most ``MOST_NAMED`` namespaces are: those that lag most. docs/monitoring.md explains each metric.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from platform import python_version
from typing import TYPE_CHECKING, TypeVar

import grpc
from prometheus_client import PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from topicpolicies.v1 import service_pb2

from ..checkpoints import Checkpoints
from ..config import Limits
from ..core.errors import Kind
from ..core.reasons import Reason
from ..history import History
from ..history.entries import GapReason
from ..namespaces.activity import Figures, Histogram
from ..namespaces.registry import Registry
from ..readiness import Readiness, State

if TYPE_CHECKING:
    from ..access.issuers import Issuer
    from ..files import Reloader

MOST_NAMED = 20
LIMITS = ("max_concurrent_calls", "max_watches", "max_loaded_namespaces", "max_loaded_document_bytes")
"""The options whose values are shown: each bounds the value of another metric."""
_METHODS = tuple(method.name for method in service_pb2.DESCRIPTOR.services_by_name["TopicPoliciesService"].methods)
_NO_GAPS = dict.fromkeys((reason.name for reason in GapReason), 0.0)
"""Some counters are shown from the start: Prometheus sees no increase in a counter that is 1 when it first appears, so an alert on the
increase would miss the first one."""
_PREFIX = "topicpolicies_"
_PROCESS = (ProcessCollector(registry=None), PlatformCollector(registry=None))
_Labels = TypeVar("_Labels", bound=tuple[str, ...])


def _counter(name: str, what: str, count: float) -> Metric:
    return CounterMetricFamily(_PREFIX + name, what, value=count)


def _counters(name: str, what: str, label: str, counts: Mapping[str, float]) -> Metric:
    return _several(name, what, (label,), {(value,): count for value, count in dict(counts).items()})


def _several(name: str, what: str, labels: Sequence[str], counts: Mapping[_Labels, float]) -> Metric:
    family = CounterMetricFamily(_PREFIX + name, what, labels=labels)
    for values, count in dict(counts).items():
        family.add_metric(values, count)
    return family


def _gauge(name: str, what: str, value: float) -> Metric:
    return GaugeMetricFamily(_PREFIX + name, what, value=value)


def _gauges(name: str, what: str, label: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(_PREFIX + name, what, labels=[label])
    for each, value in dict(values).items():
        family.add_metric([each], value)
    return family


def _durations(name: str, what: str, label: str, histograms: Mapping[str, Histogram]) -> Metric:
    family = HistogramMetricFamily(_PREFIX + name, what, labels=[label])
    for value, histogram in dict(histograms).items():
        family.add_metric([value], histogram.cumulated(), histogram.seconds)
    return family


class CallCounts:
    """Counts calls (``rpc.calls``). It is used on the event loop; other threads may call ``families``."""

    def __init__(
        self,
        in_progress: Callable[[], Sequence[str]] = tuple,
        unread_seconds: Callable[[], float] = float,
        watches: Callable[[], Sequence[int]] = tuple,
    ) -> None:
        """Each argument returns a figure of the present, in any thread.

        ``in_progress``: the methods of the calls in progress; ``unread_seconds``: the longest time for which a peer has not taken what was
        written to it; ``watches``: for each open watch how many records wait to be taken.
        """
        self._in_progress = in_progress
        self._ended = Counter({(method, Kind.INTERNAL.value, str(Reason.INTERNAL)): 0 for method in _METHODS})
        self._durations = defaultdict[str, Histogram](Histogram)
        self._watches = watches
        self._unread_seconds = unread_seconds

    def ended(self, method: str, code: str, reason: str, seconds: float) -> None:
        """Counts a call that has ended."""
        self._ended[method, code, reason] += 1
        self._durations[method].count(seconds)

    def families(self) -> Iterator[Metric]:
        """Yields the metrics."""
        in_progress = {**dict.fromkeys(list(self._durations), 0), **Counter(self._in_progress())}
        labels = ("method", "code", "reason")
        yield _several("calls", "Calls that ended, by method, gRPC's code and the reason of the error.", labels, self._ended)
        yield _gauges("calls_in_progress", "Calls in progress, by method.", "method", in_progress)
        took = "How long calls took, by method; for streams and watches: how long they were open."
        yield _durations("call_seconds", took, "method", self._durations)
        waiting = self._watches()
        yield _gauge("watches", "Open watches.", len(waiting))
        yield _gauge("watch_records_waiting", "Records that wait until the readers of watches take more.", sum(waiting))
        unread = "The longest time for which the peer of a stream or watch has not taken what was written to it."
        yield _gauge("unread_seconds", unread, self._unread_seconds())


@dataclass(kw_only=True, slots=True)
class ServerSources:
    """The parts of a server beside its namespaces that metrics are about; any thread may read them. None: there is no such part."""

    reloader: Reloader
    limits: Limits
    issuers: Collection[Issuer] = ()
    unrecorded: Callable[[], int] | None = None
    drift: Callable[[], Mapping[str, float]] | None = None
    """Returns how many documents are not as declared, by namespace."""
    certificate_ends: Callable[[], float | None] = lambda: None
    """Returns when the server's certificate expires, in seconds since 1970."""

    def families(self) -> Iterator[Metric]:
        """Yields the metrics."""
        limits = {name: float(getattr(self.limits, name)) for name in LIMITS}
        yield _gauges("limit", "Limits of the server, by the option.", "option", limits)
        if self.issuers:
            unanswered = sum(bool(each.problem) for each in self.issuers)
            yield _gauge("issuers_unanswered", "Issuers of tokens that returned no keys to the latest request.", unanswered)
        unusable = "Files of the configuration that can't be used now; their former content is in force."
        yield _gauge("files_unusable", unusable, len(self.reloader.problems))
        if self.unrecorded is not None:
            yield _counter("access_log_lost", "Calls and changes that are missing in the access log.", self.unrecorded())
        if self.drift is not None:
            yield _gauges("drifted_documents", "Documents that are not as declared, by namespace.", "namespace", self.drift())
        if (ends := self.certificate_ends()) is not None:
            yield _gauge("certificate_end_seconds", "When the server's TLS certificate in force ends, in seconds since 1970.", ends)


class ServerCollector(Collector):
    """The metrics of one server or guard.

    ``collect`` is called in a thread of the endpoint, while the event loop goes on counting: it only reads, and copies what may grow.
    """

    def __init__(
        self,
        registry: Registry,
        calls: CallCounts | None = None,
        sources: ServerSources | None = None,
        guarded: Callable[[], int] | None = None,
    ) -> None:
        """Collects nothing yet. Of a process with only a guard there are no ``calls`` and no ``sources``.

        ``guarded`` returns how many namespaces a guard keeps loaded; None: there is no guard.
        """
        self._registry = registry
        self._guarded = guarded
        self._calls = calls
        self._sources = sources

    def describe(self) -> Iterator[Metric]:
        """Yields nothing, so that registering the collector reads no numbers."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Yields all metrics as they are now."""
        common = self._registry.common
        if self._calls is not None:
            yield from self._calls.families()
        yield from _of_readiness(common.readiness)
        if (connections := common.log.connections()) is not None:
            yield _gauge("logs_open", "Change logs that are open.", connections.open)
            yield _gauge("logs_connected", "Open change logs of which all readers are connected to their brokers.", connections.connected)
        named = {namespace.name: namespace.figures() for namespace in self._registry.namespaces()}
        yield from _in_flight(list(named.values()))
        yield from _lag(named, common.now())
        yield from self._activity()
        yield from self._namespaces()
        if self._guarded is not None:
            yield _gauge("guarded_namespaces", "Namespaces that the guard keeps loaded.", self._guarded())
        if common.history is not None:
            yield from of_history(common.history)
        if common.checkpoints is not None:
            yield from _of_checkpoints(common.checkpoints)
        if self._sources is not None:
            yield from self._sources.families()
        build = GaugeMetricFamily(f"{_PREFIX}build_info", "What runs; always 1.", labels=["version", "python", "grpc"])
        build.add_metric([metadata.version("topicpolicies"), python_version(), grpc.__version__], 1)
        yield build
        for collector in _PROCESS:
            yield from collector.collect()

    def _activity(self) -> Iterator[Metric]:
        activity = self._registry.common.activity
        yield _counters("log_losses", "Change logs that could not be followed any more, by reason.", "reason", activity.losses)
        yield _counters("load_failures", "Failed attempts to load a namespace, by reason.", "reason", activity.load_failures)
        yield _counters("append_failures", "Events that change logs did not acknowledge, by reason.", "reason", activity.append_failures)
        yield _durations("stage_seconds", "How long changes took, by stage: see the documentation.", "stage", activity.stages)
        yield _counters("updates", "Answered updates and deletes, by outcome or reason of the error.", "outcome", activity.updates)
        confirmations = "Updates with nothing to write, after the log's end was requested: held, overtaken (written after all), failed."
        yield _counters("confirmations", confirmations, "outcome", activity.confirmations)
        read = "Events that were read after loading, by writer and by what became of them."
        yield _several("events", read, ("writer", "status"), activity.events)
        yield _counters("conflicts", "Events that were computed from an old document, by writer.", "writer", activity.conflicts)
        yield _counter("ambiguous_events", "Events of brokers that can be explained in two ways.", activity.ambiguous)
        yield _counter("unexplained_events", "Events of brokers that no recent document explains.", activity.unexplained)
        yield _counter("unreadable_entries", "Entries of change logs that can't be read.", activity.unreadable)
        yield _counters(
            "repairs", "Repairs: published, cancelled, withheld (read-only) or refused by the log.", "outcome", activity.repairs
        )
        yield _counters("loads", "Loads of namespaces, by outcome.", "outcome", activity.loads)

    def _namespaces(self) -> Iterator[Metric]:
        namespaces, repairs, common = self._registry.namespaces(), self._registry.repairs, self._registry.common
        yield _gauge("namespaces", "Namespaces in memory.", len(namespaces))
        yield _gauge("documents", "Policy keys in memory, absent documents included.", sum(each.documents for each in namespaces))
        yield _gauge("document_bytes", "Bytes that keys and documents take in memory, by estimate.", common.bytes)
        over = "Whether keys and documents take more memory than the limit allows, because of what others write."
        yield _gauge("over_capacity", over, int(common.over_capacity))
        due = sum(each.repairs_due for each in namespaces)
        yield _gauge("repairs_due", "Policy keys for which brokers show another document than the head.", due)
        yield _gauge("repairs_waiting", "Repairs that wait because of the rate, or because they are paused.", repairs.waiting)
        yield _gauge("repairs_paused", "Whether repairs are paused.", int(repairs.paused))


def _of_readiness(readiness: Readiness) -> Iterator[Metric]:
    yield _gauge("ready", "Whether the change log can be reached and the server takes calls.", int(readiness.ready))
    out = time.monotonic() - readiness.since if readiness.state in (State.DOUBTED, State.CUT_OFF) else 0.0
    yield _gauge("log_unreachable_seconds", "For how long the change log has not answered; 0: it answers.", max(0.0, out))


def _in_flight(figures: list[Figures]) -> Iterator[Metric]:
    yield _gauge("namespaces_serving", "Namespaces that answer from an open change log.", sum(each.serves for each in figures))
    yield _gauge("chains", "Policy keys with changes in progress.", sum(each.chains for each in figures))
    deepest = max((each.depth for each in figures), default=0)
    yield _gauge("chain_depth", "Events in flight of the policy key that has the most.", deepest)
    waiting = sum(each.waiting for each in figures)
    yield _gauge("changes_waiting", "Changes that wait for their namespace, for a writer, or to be computed or confirmed.", waiting)
    unproven = "Events that change logs have acknowledged, and that wait for a reader before they count."
    yield _gauge("events_unproven", unproven, sum(each.unproven for each in figures))


def _lag(named: dict[str, Figures], now_ms: int) -> Iterator[Metric]:
    events = sum(each.unread + each.unproven for each in named.values())
    yield _gauge("reader_lag_events", "Events written here that readers of change logs have not delivered yet.", events)
    seconds = {name: max(0, now_ms - each.complete_as_of_ms) / 1000 for name, each in named.items() if each.complete_as_of_ms}
    longest = max(seconds.values(), default=0.0)
    yield _gauge("lag_seconds", "For how long the view of the watched namespace that is furthest behind may lack something.", longest)
    each = f"The same by namespace, for the {MOST_NAMED} watched ones that are furthest behind."
    yield _gauges("namespace_lag_seconds", each, "namespace", furthest(seconds))


def furthest(values: dict[str, float]) -> dict[str, float]:
    """Returns the ``MOST_NAMED`` largest values."""
    return dict(sorted(values.items(), key=lambda each: -each[1])[:MOST_NAMED])


def of_history(history: History) -> Iterator[Metric]:
    """Yields the metrics of a history."""
    figures = history.figures()
    yield _gauge("history_waiting_events", "Entries that wait to be written to the history.", figures.waiting)
    yield _gauge("history_waiting_bytes", "The same in bytes, by estimate.", figures.waiting_bytes)
    yield _gauge("history_waiting_seconds", "For how long the first of them has waited.", figures.waiting_seconds)
    yield _gauge("history_failing", "Whether the history's file can't be written now.", int(figures.failing))
    yield _counters("history_gaps", "Periods in which the history may lack events, by reason.", "reason", {**_NO_GAPS, **figures.gaps})


def _of_checkpoints(checkpoints: Checkpoints) -> Iterator[Metric]:
    yield _counter("checkpoints_written", "Checkpoints that were written.", checkpoints.written)
    yield _counter("checkpoint_failures", "Checkpoints that could not be written.", checkpoints.failed)
