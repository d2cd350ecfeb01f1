"""What nobody has to do with becomes small, however quiet a namespace is; and nobody waits for it."""

from __future__ import annotations

import asyncio

from topicpolicies_server.core.policies.events import Action, Event
from topicpolicies_server.core.reading.cells import WARM
from topicpolicies_server.namespaces.shrinking import CELLS, shrink

from .bench import NAMESPACE, Bench, document, simulate
from .test_capacity import _key


def test_what_was_loaded_becomes_small_although_nothing_comes_any_more() -> None:
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


def test_what_others_wait_for_goes_on_between_the_cells_of_a_large_namespace() -> None:
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
