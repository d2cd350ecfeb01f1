"""The metrics of change logs: how an outage and a reader that is behind show."""

from __future__ import annotations

import asyncio

from tests.namespaces.bench import VANISHED, Bench, simulate
from tests.ops.test_metrics import shown
from topicpolicies_server.core.reading.tokens import Mode, Selection
from topicpolicies_server.core.reasons import LogState
from topicpolicies_server.logs.change_log import LogError
from topicpolicies_server.ops.metrics import MOST_NAMED, ServerCollector, furthest
from topicpolicies_server.readiness import Readiness

GONE = LogError(LogState.UNREACHABLE, "No broker answers.")


def test_an_outage_and_its_end_show_in_the_metrics() -> None:
    async def scenario(bench: Bench) -> None:
        readiness = bench.readiness
        collector = ServerCollector(bench.registry)
        assert shown(collector)["ready"] == 0
        readiness.answered(1.0)
        well = shown(collector)
        assert (well["ready"], well["log_unreachable_seconds"]) == (1, 0)
        readiness.failed(GONE, 2.0, 3.0)
        assert shown(collector)["ready"] == 1 and shown(collector)["log_unreachable_seconds"] > 0
        readiness.failed(GONE, 8.0, 9.0)
        ill = shown(collector)
        assert ill["ready"] == 0 and ill["log_unreachable_seconds"] > 0
        readiness.answered(10.0)
        again = shown(collector)
        assert (again["ready"], again["log_unreachable_seconds"]) == (1, 0)

    simulate(scenario, readiness=Readiness(5.0))


def test_lost_logs_and_failed_appends_are_counted_by_reason() -> None:
    async def scenario(bench: Bench) -> None:
        collector = ServerCollector(bench.registry)
        await bench.set(1)
        assert shown(collector)["namespaces_serving"] == 1
        bench.opened.lose(LogError(LogState.LOST, "Gone."))
        await bench.set(2)
        assert shown(collector)["log_losses_total LOG_UNAVAILABLE"] == 1
        assert shown(collector)["loads_total loaded"] == 2
        bench.faults.fates = [VANISHED]
        await bench.set(3)
        failures = shown(collector)["append_failures_total LOG_UNAVAILABLE"]
        assert failures == 2, "one append was in progress when the log was lost, and one vanished"

    simulate(scenario)


def test_the_lag_of_a_namespace_is_shown_while_it_is_watched() -> None:
    async def scenario(bench: Bench) -> None:
        collector = ServerCollector(bench.registry)
        await bench.set(1)
        assert "namespace_lag_seconds acme/orders" not in shown(collector), "a lag is shown although the namespace is not watched"
        watcher = await bench.namespace.watch(Selection(None), Mode.LATEST, None, lambda: None)
        await asyncio.sleep(60)
        lag = shown(collector)
        assert lag["namespace_lag_seconds acme/orders"] == lag["lag_seconds"] < 60
        bench.namespace.unwatch(watcher)

    simulate(scenario, sole_writer=False)


def test_only_a_bounded_number_of_namespaces_is_named_and_those_are_the_furthest_behind() -> None:
    named = furthest({f"acme/{number}": float(number) for number in range(1_000)})
    assert len(named) == MOST_NAMED and min(named.values()) == 1_000 - MOST_NAMED
