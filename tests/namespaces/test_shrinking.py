"""The cells of unused keys are frozen even if a namespace is quiet, without blocking the event loop for long."""

from __future__ import annotations

import asyncio

from topicpolicies_server.core.policies.events import Action, Event
from topicpolicies_server.core.reading.cells import WARM
from topicpolicies_server.namespaces.shrinking import CELLS, shrink

from .bench import NAMESPACE, Bench, document, simulate
from .test_capacity import _key


def test_all_keys_of_a_loaded_namespace_are_frozen_although_no_event_arrives() -> None:
    async def scenario(bench: Bench) -> None:
        keys = 3 * CELLS
        for number in range(keys):
            bench.storage.write(NAMESPACE, Event(_key(NAMESPACE, number), Action.UPDATE, document(max_producer_per_topic=number + 1)))
        namespace = bench.registry.get(NAMESPACE)
        namespace.hold(bench)
        await namespace.ready()
        view = namespace.view
        assert view is not None and 0 < view.live <= WARM + 2
        await asyncio.sleep(bench.limits.namespace_idle_seconds)
        assert view.live == 0 and namespace.documents == keys
        head = await namespace.get(_key(NAMESPACE, 7))
        assert head is not None and head.document == document(max_producer_per_topic=8)
        assert view.live == 1

    simulate(scenario)


def test_shrinking_a_large_namespace_yields_to_the_event_loop_between_portions() -> None:
    class Large:
        live = 10 * CELLS
        at_once = 0

        def settle(self, cells: int) -> int:
            self.at_once += cells
            self.live -= cells
            return cells

    async def scenario(_: Bench) -> None:
        large, turns = Large(), 0
        shrinking = asyncio.ensure_future(shrink([large, Large()]))
        while not shrinking.done():
            await asyncio.sleep(0.001)
            assert large.at_once <= CELLS
            turns += large.at_once > 0
            large.at_once = 0
        assert large.live == 0 and turns == 10

    simulate(scenario)
