"""Metrics of namespaces and their change logs: how far readers lag behind, what is in flight, and what was lost.

Only the lag has namespaces as labels, and at most ``MOST_NAMED`` of them: those that lag most.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator

from prometheus_client.metrics_core import Metric

from ..health import State, Transition
from ..logs.change_log import Connected
from ..namespaces.activity import Figures
from ..namespaces.registry import Registry
from .families import counters, durations, gauge, gauges

MOST_NAMED = 20
"""How many namespaces are labels of a metric at most."""


class ChangeLogMetrics:
    """Collects the metrics of a server's namespaces and logs."""

    def __init__(self, registry: Registry) -> None:
        """Begins to count transitions of the readiness."""
        self._registry = registry
        self._readiness = registry.common.readiness
        self._transitions: Counter[str] = Counter()
        self._readiness.add_listener(self._count)

    def _count(self, transition: Transition) -> None:
        self._transitions[transition.after.value] += 1

    def families(self) -> Iterator[Metric]:
        """Yields the metrics."""
        yield from self._readiness_families()
        activity = self._registry.common.activity
        yield counters("log_losses", "Change logs that could not be followed any more, by reason.", "reason", activity.losses)
        yield counters("load_failures", "Failed attempts to load a namespace, by reason.", "reason", activity.load_failures)
        yield counters("append_failures", "Events that change logs did not acknowledge, by reason.", "reason", activity.append_failures)
        yield durations("stage_seconds", "How long changes took, by stage: see the documentation.", "stage", activity.stages.by_name())
        named = {namespace.name: namespace.figures() for namespace in self._registry.namespaces()}
        yield from _in_flight(list(named.values()))
        yield from _lag(named, self._registry.common.now())

    def _readiness_families(self) -> Iterator[Metric]:
        readiness = self._readiness
        state = readiness.state
        yield gauge("ready", "Whether the change log can be reached and the server takes calls.", int(readiness.ready))
        states = {each.value: float(each is state) for each in State}
        yield gauges("readiness", "The state of the change log: 1 for the present one.", "state", states)
        transitions = {each.value: float(self._transitions[each.value]) for each in State}
        yield counters("readiness_transitions", "Transitions of that state, by the state after them.", "state", transitions)
        out = time.monotonic() - readiness.since if state in (State.DOUBTED, State.CUT_OFF) else 0.0
        yield gauge("log_unreachable_seconds", "For how long the change log has not answered; 0: it answers.", max(0.0, out))
        log = self._registry.common.log
        if isinstance(log, Connected):
            connections = log.connections()
            yield gauge("logs_open", "Change logs that are open.", connections.open)
            yield gauge("logs_connected", "Open change logs of which all readers are connected to their brokers.", connections.connected)


def _in_flight(figures: list[Figures]) -> Iterator[Metric]:
    yield gauge("namespaces_serving", "Namespaces that answer from an open change log.", sum(each.serves for each in figures))
    yield gauge("chains", "Policy keys with changes in progress.", sum(each.chains for each in figures))
    deepest = max((each.depth for each in figures), default=0)
    yield gauge("chain_depth", "Events in flight of the policy key that has the most.", deepest)
    waiting = sum(each.waiting for each in figures)
    yield gauge("changes_waiting", "Changes that wait for their namespace, for a writer, or to be computed or confirmed.", waiting)
    unproven = "Events that change logs have acknowledged, and that wait for a reader before they count."
    yield gauge("events_unproven", unproven, sum(each.unproven for each in figures))


def _lag(named: dict[str, Figures], now_ms: int) -> Iterator[Metric]:
    events = {name: each.unread + each.unproven for name, each in named.items()}
    yield gauge("reader_lag_events", "Events written here that readers of change logs have not delivered yet.", sum(events.values()))
    seconds = {name: max(0, now_ms - each.complete_as_of_ms) / 1000 for name, each in named.items() if each.complete_as_of_ms}
    longest = max(seconds.values(), default=0.0)
    yield gauge("lag_seconds", "For how long the view of the watched namespace that is furthest behind may lack something.", longest)
    each = f"The same by namespace, for the {MOST_NAMED} watched ones that are furthest behind."
    yield gauges("namespace_lag_seconds", each, "namespace", _furthest(seconds))
    each = f"Events that the reader has not delivered yet, by namespace, for the {MOST_NAMED} with the most."
    yield gauges("namespace_lag_events", each, "namespace", _furthest({name: float(count) for name, count in events.items() if count}))


def _furthest(values: dict[str, float]) -> dict[str, float]:
    return dict(sorted(values.items(), key=lambda each: -each[1])[:MOST_NAMED])
