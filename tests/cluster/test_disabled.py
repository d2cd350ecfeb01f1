"""What is disabled of a watched selection, with a source that the test controls, on simulated time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from tests.cluster.fakes import FakeSource
from tests.simulation.loop import SimulatedLoop
from topicpolicies_server.cluster.admission import Admission, Freshness
from topicpolicies_server.cluster.disabled import Disabled, DisabledWatching
from topicpolicies_server.cluster.source import PROPERTY
from topicpolicies_server.core.errors import PolicyError

NAMESPACE = "acme/orders"
TOPICS = frozenset(f"persistent://{NAMESPACE}/{number}" for number in range(5))
ONE, TWO, *_ = sorted(TOPICS)
OFF, ON = {PROPERTY: "true"}, {PROPERTY: "false"}


class Bench:
    """What is watched, and a fake source of facts."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.source = FakeSource()
        self.admission = Admission(self.source, loop.time, Freshness(60, 10, 60), missing_topics=True)
        self.watching = DisabledWatching(self.admission)
        self.switches: list[Disabled] = []

    async def begin(self, topics: frozenset[str] | None, namespace: str = NAMESPACE) -> Disabled:
        return await self.watching.begin(namespace, namespace, topics, self._switched)

    def _switched(self, disabled: Disabled) -> None:
        if not self.switches or self.switches[-1] != disabled:
            self.switches.append(disabled)


def run(scenario: Callable[[Bench], Awaitable[None]]) -> None:
    loop = SimulatedLoop(random.Random(1))

    async def whole() -> None:
        bench = Bench(loop)
        await scenario(bench)
        bench.watching.end(NAMESPACE)
        await bench.admission.close()

    loop.run(whole())


@pytest.mark.parametrize(
    ("namespace", "of_one", "named", "disabled"),
    [
        ({}, OFF, True, {ONE}),
        ({}, OFF, False, set()),
        (OFF, ON, True, TOPICS - {ONE}),
        (OFF, ON, False, {NAMESPACE}),
        ({}, ON, True, set()),
    ],
)
def test_a_topics_own_property_counts_where_it_is_named_and_the_namespaces_everywhere(
    namespace: dict[str, str], of_one: dict[str, str], named: bool, disabled: set[str]
) -> None:
    async def scenario(bench: Bench) -> None:
        bench.source.properties |= {NAMESPACE: namespace, ONE: of_one}
        topics = TOPICS if named else None
        found = await bench.begin(topics)
        assert set(found) == disabled
        assert bool(found.digest) == bool(disabled)
        assert found.all_of(topics) == (disabled == {NAMESPACE})

    run(scenario)


def test_a_changed_property_is_noticed_as_facts_are_refreshed() -> None:
    async def scenario(bench: Bench) -> None:
        assert not await bench.begin(TOPICS)
        bench.source.properties[ONE] = OFF
        await asyncio.sleep(75)
        assert bench.switches == [frozenset(), {ONE}]
        bench.source.properties[NAMESPACE] = OFF
        await asyncio.sleep(20)
        assert bench.switches[2:] == [TOPICS]
        assert bench.switches[1].digest != bench.switches[2].digest
        asked = bench.source.asked.total()
        bench.watching.end(NAMESPACE)
        await asyncio.sleep(1_000)
        assert bench.source.asked.total() == asked, "nothing is looked up that nobody watches"

    run(scenario)


def test_without_an_answer_the_last_one_stays_and_a_topic_that_never_had_one_counts_as_its_namespace() -> None:
    async def scenario(bench: Bench) -> None:
        bench.source.properties[ONE] = OFF
        assert set(await bench.begin(frozenset({ONE}))) == {ONE}
        bench.source.down = True
        del bench.source.properties[ONE]
        await asyncio.sleep(300)
        assert set(bench.switches) == {frozenset({ONE})}
        assert set(await bench.admission.disabled_of(NAMESPACE, frozenset({ONE, TWO}))) == {ONE}
        with pytest.raises(PolicyError):
            await bench.begin(None, "acme/another")
        bench.source.down = False
        await asyncio.sleep(75)
        assert not bench.switches[-1]

    run(scenario)


def test_the_lookups_of_all_watches_together_are_bounded() -> None:
    async def scenario(bench: Bench) -> None:
        names = [f"acme/{number}" for number in range(500)]
        for name in names:
            await bench.watching.begin(name, name, None, bench.switches.append)
        await asyncio.sleep(1)
        bench.switches.clear()
        bench.source.asked.clear()
        await asyncio.sleep(100)
        assert 4_500 < len(bench.switches) <= 5_000
        assert bench.source.asked.total() <= 5_000 and all(bench.source.asked[name] for name in names)
        for name in names:
            bench.watching.end(name)

    run(scenario)
