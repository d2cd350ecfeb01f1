"""The metrics of a server or guard, read from its own counts when they are requested: counting costs only an addition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from ..namespaces.registry import Registry
from .calls import CallCounts
from .change_logs import ChangeLogMetrics
from .families import counter, counters, gauge, several
from .process import of_process
from .server import ServerSources
from .storage import of_checkpoints, of_history


class Guarding(Protocol):
    """What is shown of a guard."""

    @property
    def guarded(self) -> int:
        """How many namespaces the guard keeps loaded."""

    @property
    def asked(self) -> Mapping[str, int]:
        """How many requests the guard sent to brokers, by what they are about."""


class ServerCollector(Collector):
    """The metrics of one server or guard.

    ``collect`` is called in a thread of the endpoint, while the event loop goes on counting: it only reads, and copies what may grow.
    """

    def __init__(
        self, registry: Registry, guard: Guarding | None = None, calls: CallCounts | None = None, sources: ServerSources | None = None
    ) -> None:
        """Creates the collector.

        Args:
            registry: the namespaces.
            guard: the guard, if there is one.
            calls: the counts of calls, if calls are taken.
            sources: the other sources of a server; None: there is only a guard.
        """
        self._registry = registry
        self._guard = guard
        self._calls = calls
        self._sources = sources
        self._change_logs = ChangeLogMetrics(registry)

    def describe(self) -> Iterator[Metric]:
        """Yields nothing, so that registering the collector reads no numbers."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Yields all metrics as they are now."""
        if self._calls is not None:
            yield from self._calls.families()
        yield from self._change_logs.families()
        yield from self._namespaces()
        if self._registry.common.history is not None:
            yield from of_history(self._registry.common.history)
        if self._registry.common.checkpoints is not None:
            yield from of_checkpoints(self._registry.common.checkpoints)
        if self._sources is not None:
            yield from self._sources.families()
        yield from of_process()

    def _namespaces(self) -> Iterator[Metric]:
        activity, repairs = self._registry.common.activity, self._registry.repairs
        yield counters("updates", "Answered updates and deletes, by outcome or reason of the error.", "outcome", activity.updates)
        confirmations = "Updates with nothing to write, after the log's end was requested: held, overtaken (written after all), failed."
        yield counters("confirmations", confirmations, "outcome", activity.confirmations)
        yield several(
            "events", "Events that were read after loading, by writer and by what became of them.", ("writer", "status"), activity.events
        )
        yield counters("conflicts", "Events that were computed from an old document, by writer.", "writer", activity.conflicts)
        yield counter("ambiguous_events", "Events of brokers that can be explained in two ways.", activity.ambiguous)
        yield counter("unexplained_events", "Events of brokers that no recent document explains.", activity.unexplained)
        yield counter("unreadable_entries", "Entries of change logs that can't be read.", activity.unreadable)
        yield counters("repairs", "Repairs: published, cancelled, withheld (read-only) or refused by the log.", "outcome", activity.repairs)
        yield counters("loads", "Loads of namespaces, by outcome.", "outcome", activity.loads)
        namespaces = self._registry.namespaces()
        yield gauge("namespaces", "Namespaces in memory.", len(namespaces))
        yield gauge("documents", "Policy keys in memory, absent documents included.", sum(each.documents for each in namespaces))
        capacity = self._registry.common.capacity
        yield gauge("document_bytes", "Bytes that keys and documents take in memory, by estimate.", capacity.bytes)
        over = "Whether more policy keys or bytes of documents are in memory than the limits allow, because of what others write."
        yield gauge("over_capacity", over, int(capacity.fullness > 1))
        yield gauge("watchers", "Namespaces of watches, counted for each watch.", sum(each.watchers for each in namespaces))
        due = sum(each.repairs_due for each in namespaces)
        yield gauge("repairs_due", "Policy keys for which brokers show another document than the head.", due)
        yield gauge("repairs_waiting", "Repairs that wait because of the rate, or because they are paused.", repairs.waiting)
        yield gauge("repairs_paused", "Whether repairs are paused.", int(repairs.paused))
        if self._guard is not None:
            yield gauge("guarded_namespaces", "Namespaces that the guard keeps loaded.", self._guard.guarded)
            asked = self._guard.asked
            yield counters("guard_questions", "Requests of the guard to brokers for the list of namespaces.", "about", asked)
