"""Which watched topics are disabled, with a source that the test controls, on simulated time."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable

import pytest

from tests.cluster.fakes import FakeSource
from tests.simulation.loop import SimulatedLoop
from topicpolicies_server.cluster.admission import Admission, Freshness
from topicpolicies_server.cluster.disabled_property import PROPERTY
from topicpolicies_server.cluster.disabled_topics import DisabledTopics
from topicpolicies_server.cluster.watched_namespaces import WatchedNamespaces
from topicpolicies_server.core.reasons import Reason

NAMESPACE = "acme/orders"
TOPICS = frozenset(f"persistent://{NAMESPACE}/{number}" for number in range(5))
ONE, TWO, *_ = sorted(TOPICS)
OFF, ON = {PROPERTY: "true"}, {PROPERTY: "false"}


class Bench:
    """The watched namespaces, one watcher, and a fake source of facts."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.source = FakeSource()
        self.admission = Admission(self.source, loop.time, Freshness(60, 10, 60), missing_topics=True)
        self.watched_namespaces = WatchedNamespaces(self.admission)
        self.woken = 0
        self.disabled = self.watched_namespaces.join(NAMESPACE, self, self._wake)

    def _wake(self) -> None:
        self.woken += 1


def run(scenario: Callable[[Bench, DisabledTopics], Awaitable[None]]) -> None:
    loop = SimulatedLoop(random.Random(1))

    async def whole() -> None:
        bench = Bench(loop)
        await scenario(bench, bench.disabled)
        if bench.disabled.watching:
            bench.watched_namespaces.leave(NAMESPACE, bench)
        await bench.admission.close()

    loop.run(whole())


def test_a_changed_property_is_noticed_by_the_next_lookup_and_concerns_only_its_topics() -> None:
    async def scenario(bench: Bench, disabled: DisabledTopics) -> None:
        bench.source.properties[TWO] = ON
        await disabled.look_up_all(TOPICS)
        assert not disabled.digest(None) and not disabled.switched
        bench.source.properties[ONE] = OFF
        await asyncio.sleep(65)
        assert (disabled.switched, bench.woken) == ([ONE], 1)
        assert disabled.includes(ONE) and not disabled.includes(TWO)
        assert disabled.concerns(0, None) and disabled.concerns(0, frozenset({ONE})) and not disabled.concerns(0, frozenset({TWO}))
        assert not disabled.concerns(1, None)
        bench.source.properties[NAMESPACE] = OFF
        await asyncio.sleep(11)
        assert disabled.switched == [ONE, None]
        assert disabled.all_disabled(None) and disabled.all_disabled(TOPICS - {TWO}) and not disabled.all_disabled(TOPICS)
        assert disabled.concerns(1, TOPICS) and not disabled.concerns(1, frozenset({TWO})), "the topic's own property wins"

    run(scenario)


def test_in_a_disabled_namespace_a_topic_whose_own_property_enables_it_is_not_disabled() -> None:
    async def scenario(bench: Bench, disabled: DisabledTopics) -> None:
        bench.source.properties = {NAMESPACE: OFF, TWO: ON}
        await disabled.look_up_all({ONE, TWO})
        assert disabled.all_disabled(None) and disabled.all_disabled(frozenset({ONE})) and not disabled.all_disabled(frozenset({ONE, TWO}))

    run(scenario)


@pytest.mark.parametrize("namespace", [ON, OFF])
def test_a_topic_that_can_not_be_looked_up_counts_as_its_namespace_says(namespace: dict[str, str]) -> None:
    async def scenario(bench: Bench, disabled: DisabledTopics) -> None:
        bench.source.properties = {NAMESPACE: namespace, ONE: OFF}
        await disabled.look_up_all(())
        bench.source.down = True
        await disabled.look_up_all({ONE, TWO})
        assert disabled.all_disabled(frozenset({ONE})) == disabled.all_disabled(frozenset({TWO})) == (namespace == OFF)
        bench.source.down = False
        await asyncio.sleep(65)
        assert disabled.all_disabled(frozenset({ONE})) and disabled.all_disabled(frozenset({TWO})) == (namespace == OFF)

    run(scenario)


def test_the_digest_depends_on_the_disabled_topics_of_the_selection() -> None:
    async def scenario(bench: Bench, disabled: DisabledTopics) -> None:
        bench.source.properties[ONE] = OFF
        await disabled.look_up_all(TOPICS)
        everything = disabled.digest(None)
        assert everything == disabled.digest(TOPICS), "both selections have the same disabled topics"
        assert not disabled.digest(frozenset({TWO}))
        bench.source.properties[TWO] = OFF
        await asyncio.sleep(65)
        assert disabled.digest(None) not in ("", everything)

    run(scenario)


def test_the_last_known_properties_count_while_the_cluster_does_not_answer() -> None:
    async def scenario(bench: Bench, disabled: DisabledTopics) -> None:
        bench.source.properties[ONE] = OFF
        await disabled.look_up_all(TOPICS)
        asked = bench.source.asked.total()
        bench.source.down = True
        await asyncio.sleep(200)
        assert bench.source.asked.total() > asked + len(TOPICS)
        assert not disabled.switched and disabled.includes(ONE) and not disabled.includes(TWO)
        bench.source.properties[ONE] = ON
        bench.source.down = False
        await asyncio.sleep(65)
        assert disabled.switched == [ONE]

    run(scenario)


def test_the_first_lookup_ends_in_time_and_late_answers_count_when_they_arrive(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(bench: Bench, disabled: DisabledTopics) -> None:
        bench.source.properties[ONE] = OFF
        bench.source.gates[ONE] = asyncio.Event()
        began = asyncio.get_running_loop().time()
        await disabled.look_up_all(TOPICS)
        assert 2.9 < asyncio.get_running_loop().time() - began < 3.1
        assert disabled.knows(ONE) and not disabled.includes(ONE)
        bench.source.gates[ONE].set()
        await asyncio.sleep(2)
        assert disabled.switched == [ONE]

    run(scenario)
    assert "watches are sent 1 topics before it is known" in caplog.text


def test_lookups_of_large_namespaces_are_paced_and_unwatched_namespaces_are_not_looked_up() -> None:
    async def scenario(bench: Bench, disabled: DisabledTopics) -> None:
        topics = [f"persistent://{NAMESPACE}/{number}" for number in range(6000)]
        bench.source.properties.update(dict.fromkeys(topics, ON))
        await disabled.look_up_all(topics)
        bench.source.asked.clear()
        await asyncio.sleep(100)
        asked = sum(bench.source.asked[topic] for topic in topics)
        assert 3000 < asked <= 5100, "at most fifty are looked up in a second"
        assert max(bench.source.asked.values()) <= 100 / 4
        bench.watched_namespaces.leave(NAMESPACE, bench)
        await asyncio.sleep(1)
        bench.source.asked.clear()
        await asyncio.sleep(200)
        assert not bench.source.asked

    run(scenario)


def test_topics_that_are_not_watched_any_more_do_not_delay_other_lookups() -> None:
    async def scenario(bench: Bench, disabled: DisabledTopics) -> None:
        await disabled.look_up_all(TOPICS)
        for number in range(100):  # 6,000 lookups, which would take two minutes
            gone, passing = f"acme/passing-{number}", object()
            await bench.watched_namespaces.join(gone, passing, lambda: None).look_up_all(
                [f"persistent://{gone}/{each}" for each in range(60)]
            )
            bench.watched_namespaces.leave(gone, passing)
        bench.source.properties[ONE] = OFF
        await asyncio.sleep(70)
        assert disabled.switched == [ONE], "it is noticed as soon as without them"

    run(scenario)


def test_topics_without_metadata_that_come_one_after_the_other_cost_nothing_and_delay_no_lookup() -> None:
    async def scenario(bench: Bench, disabled: DisabledTopics) -> None:
        bench.source.properties = {ONE: ON, TWO: ON}
        await disabled.look_up_all([ONE])
        passing = [f"persistent://{NAMESPACE}/job-{number}" for number in range(3_000)]
        for topic in passing:
            await disabled.look_up_all([topic])
            bench.source.missing.add(topic)
            await asyncio.sleep(0.1)
        await asyncio.sleep(60)
        bench.source.asked.clear()
        bench.source.properties |= {ONE: OFF, passing[7]: OFF}  # one is made again, as a partitioned topic
        await asyncio.sleep(95)
        assert sorted(map(str, disabled.switched)) == sorted([ONE, passing[7]])
        assert sum(bench.source.asked[topic] for topic in passing) < 10
        del bench.source.properties[ONE]  # it is deleted
        await asyncio.sleep(95)
        assert not disabled.includes(ONE)

    run(scenario)


@pytest.mark.parametrize("count", [9, 6000])
def test_of_many_topics_only_those_that_can_have_properties_are_requested(count: int) -> None:
    async def scenario(bench: Bench, disabled: DisabledTopics) -> None:
        topics = [f"persistent://{NAMESPACE}/{number}" for number in range(count)]
        bench.source.properties[topics[7]] = OFF
        await disabled.look_up_all(topics)
        assert all(map(disabled.knows, topics)) and [topic for topic in topics if disabled.includes(topic)] == [topics[7]]
        assert {name for name in bench.source.asked if "://" in name} == {topics[7]}
        bench.source.properties[topics[8]] = OFF
        await asyncio.sleep(95)
        assert disabled.switched == [topics[8]]
        del bench.source.properties[topics[7]]
        await asyncio.sleep(95)
        assert disabled.switched == [topics[8], topics[7]] and not disabled.includes(topics[7])
        assert bench.source.asked.total() < 100, "few requests are sent in three minutes"

    run(scenario)


@pytest.mark.parametrize(("about", "asked"), [(ONE, "newest_topic_disabled"), (NAMESPACE, "newest_namespace_disabled")])
def test_a_lookup_that_fails_unexpectedly_is_reported_to_watchers_and_tried_again(
    about: str, asked: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ask = getattr(Admission, asked)

    async def broken(admission: Admission, name: str) -> bool | None:
        if name == about:
            raise LookupError(about)
        answer: bool | None = await ask(admission, name)
        return answer

    async def scenario(bench: Bench, disabled: DisabledTopics) -> None:
        await disabled.look_up_all(TOPICS)
        with monkeypatch.context() as planted:
            planted.setattr(Admission, asked, broken)
            await asyncio.sleep(65)
            assert _problem(disabled) is Reason.INTERNAL
            assert bench.woken == 1, "the watcher is woken"
            bench.source.properties = {TWO: OFF}
            await asyncio.sleep(65)
            assert disabled.switched == [TWO], "other topics are looked up as before"
        bench.source.properties[ONE] = OFF
        await asyncio.sleep(65)
        assert _problem(disabled) is None
        assert set(disabled.switched) == {ONE, TWO}

    caplog.set_level(logging.ERROR)
    run(scenario)
    assert caplog.text.count("Traceback") == 1


def test_lookups_resume_after_the_task_of_lookups_failed(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    async def fail(_: DisabledTopics) -> None:
        raise LookupError

    async def scenario(bench: Bench, disabled: DisabledTopics) -> None:
        await disabled.look_up_all(TOPICS)
        with monkeypatch.context() as planted:
            planted.setattr(DisabledTopics, "look_up_namespace", fail)
            await asyncio.sleep(5)
            assert _problem(disabled) is Reason.INTERNAL
        bench.source.properties[ONE] = OFF
        await asyncio.sleep(75)
        assert _problem(disabled) is None
        assert disabled.switched == [ONE]

    run(scenario)
    assert "the looking for disabled topics failed" in caplog.text


def _problem(disabled: DisabledTopics) -> Reason | None:
    """Returns the reason of the error for watchers; None: there is none."""
    return disabled.problem.reason if disabled.problem is not None else None


def test_of_very_many_watched_namespaces_a_bounded_number_a_second_is_requested_in_turn() -> None:
    async def scenario(bench: Bench, _: DisabledTopics) -> None:
        names = [f"acme/{number}" for number in range(1_000)]
        watched = {name: bench.watched_namespaces.join(name, bench, bench._wake) for name in names}
        await asyncio.gather(*(disabled.look_up_all(()) for disabled in watched.values()))
        await asyncio.sleep(30)
        bench.source.asked.clear()
        bench.source.properties[names[500]] = OFF
        await asyncio.sleep(60)
        asked = [bench.source.asked[name] for name in names]
        assert sum(asked) <= 61 * 50 and min(asked) >= 2 and max(asked) <= 4
        assert [name for name, disabled in watched.items() if disabled.switched] == [names[500]]
        for name in names:
            bench.watched_namespaces.leave(name, bench)

    run(scenario)
