"""The metrics that a server exposes to Prometheus."""

from __future__ import annotations

import asyncio

from tests.guard.told import Told
from tests.namespaces.bench import Bench, document, simulate
from tests.namespaces.test_repairing import conflict
from topicpolicies_server.core.policies.events import Action, Event
from topicpolicies_server.ops.metrics import ServerCollector


def shown(collector: ServerCollector) -> dict[str, float]:
    """Returns every sample by its name and the values of its labels."""
    return {
        sample.name.removeprefix("topicpolicies_") + "".join(f" {value}" for value in sample.labels.values()): sample.value
        for family in collector.collect()
        for sample in family.samples
    }


def test_events_are_counted_and_the_present_state_is_shown() -> None:
    async def scenario(bench: Bench) -> None:
        guard = Told(bench.registry, "acme/other")
        guard.start()
        collector = ServerCollector(bench.registry, guarded=lambda: guard.guarded)
        await conflict(bench)
        assert shown(collector)["repairs_due"] == 1
        await bench.set(7)
        await bench.set(7)
        await asyncio.sleep(1)
        bench.storage.write_unreadable("acme/orders")
        bench.storage.write(
            "acme/orders",
            Event(bench.request(0).key, Action.UPDATE, document(max_consumers_per_subscription=7, max_subscriptions_per_topic=8)),
        )
        await asyncio.sleep(1)
        samples = shown(collector)
        expected = {
            "updates_total APPLIED": 1,
            "updates_total UNCHANGED": 1,
            "conflicts_total broker": 2,
            "unexplained_events_total": 1,
            "ambiguous_events_total": 0,
            "unreadable_entries_total": 1,
            "loads_total loaded": 2,
            "namespaces": 2,
            "documents": 1,
            "document_bytes": bench.registry.common.bytes,
            "over_capacity": 0,
            "repairs_due": 0,
            "repairs_waiting": 0,
            "repairs_paused": 0,
            "guarded_namespaces": 1,
        }
        assert {name: samples.get(name) for name in expected} == expected
        assert samples["events_total sidecar applied"] == 1 and samples["events_total broker applied"] == 4
        bench.registry.repairs.pause()
        assert shown(collector)["repairs_paused"] == 1
        bench.registry.common.count(0, bench.limits.max_loaded_document_bytes)
        assert samples["document_bytes"] > 0 and shown(collector)["over_capacity"] == 1
        bench.registry.common.count(0, -bench.limits.max_loaded_document_bytes)
        await guard.stop()

    simulate(scenario, sole_writer=False)
