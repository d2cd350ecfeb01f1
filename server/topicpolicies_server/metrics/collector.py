"""What is shown, read from the server's own numbers when somebody asks: counting costs nothing but an addition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from ..namespaces.registry import Registry


class Guarding(Protocol):
    """What a guard counts."""

    @property
    def guarded(self) -> int:
        """Namespaces that it keeps loaded."""

    @property
    def asked(self) -> Mapping[str, int]:
        """Its questions to brokers, by what they are about."""


class ServerCollector(Collector):
    """The metrics of one server, or guard.

    It is asked in a thread of the endpoint's, while the event loop goes on counting: it only reads, and copies what may grow.
    """

    def __init__(self, registry: Registry, guard: Guarding | None = None) -> None:
        """``guard``: if there is one."""
        self._registry = registry
        self._guard = guard

    def describe(self) -> Iterator[Metric]:
        """Nothing is described before there are numbers."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """All metrics as they are now."""
        activity, gate = self._registry.activity, self._registry.gate
        yield _by("updates", "Answered updates and deletes, by outcome or reason of the error.", "outcome", activity.updates)
        confirmations = "Updates without anything to write, after the log's end was asked for: held, overtaken (written after all), failed."
        yield _by("confirmations", confirmations, "outcome", activity.confirmations)
        events = CounterMetricFamily(
            "topicpolicies_events", "Events read after loading, by writer and what became of them.", labels=["writer", "status"]
        )
        for labels, count in dict(activity.events).items():
            events.add_metric(labels, count)
        yield events
        yield _by("conflicts", "Events that were computed from an old document, by writer.", "writer", activity.conflicts)
        yield _count("ambiguous_events", "Events of brokers that can be explained in two ways.", activity.ambiguous)
        yield _count("unexplained_events", "Events of brokers that no recent document explains.", activity.unexplained)
        yield _count("unreadable_entries", "Entries of change logs that can't be read.", activity.unreadable)
        yield _by("repairs", "Repairs: published, cancelled, withheld (read-only) or refused by the log.", "outcome", activity.repairs)
        yield _by("loads", "Namespaces that were loaded, or failed to be.", "outcome", activity.loads)
        namespaces = self._registry.namespaces()
        yield _gauge("namespaces", "Namespaces in memory.", len(namespaces))
        yield _gauge("documents", "Policy keys in memory, absent documents included.", sum(each.documents for each in namespaces))
        capacity = self._registry.capacity
        yield _gauge("document_bytes", "Bytes of the documents in memory, serialized.", capacity.bytes)
        over = "Whether more policy keys or bytes of documents are in memory than may be, because of what others write."
        yield _gauge("over_capacity", over, int(capacity.is_over()))
        yield _gauge("watchers", "Watchers of namespaces.", sum(each.watchers for each in namespaces))
        due = sum(each.repairs_due for each in namespaces)
        yield _gauge("repairs_due", "Policy keys of which brokers show something else than the head.", due)
        yield _gauge("repairs_waiting", "Repairs that wait because of the rate, or because they are paused.", gate.waiting)
        yield _gauge("repairs_paused", "Whether repairs are paused.", int(gate.paused))
        if self._guard is not None:
            yield _gauge("guarded_namespaces", "Namespaces that the guard keeps loaded.", self._guard.guarded)
            asked = self._guard.asked
            yield _by("guard_questions", "Questions of the guard to brokers about which namespaces there are.", "about", asked)


def _by(name: str, what: str, label: str, counts: Mapping[str, int]) -> CounterMetricFamily:
    family = CounterMetricFamily(f"topicpolicies_{name}", what, labels=[label])
    for value, count in dict(counts).items():
        family.add_metric([value], count)
    return family


def _count(name: str, what: str, count: int) -> CounterMetricFamily:
    return CounterMetricFamily(f"topicpolicies_{name}", what, value=count)


def _gauge(name: str, what: str, value: int) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"topicpolicies_{name}", what, value=value)
