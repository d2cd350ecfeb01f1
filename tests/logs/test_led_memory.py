"""The memory log with one writer at a time: who leads, how a term ends, and which of its events are stored."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.logs.recorder import Recorder
from tests.logs.samples import a_key, an_update
from tests.memory_log import Channel, Fate, Faults, MemoryLog, MemoryStorage, Outcome
from tests.memory_log.led import WAIT_SECONDS, LedMemoryLog, LedNamespaceLog
from tests.simulation.loop import SimulatedLoop
from topicpolicies_server.core.errors import Kind
from topicpolicies_server.core.policies.events import Event, Placed
from topicpolicies_server.core.reasons import LogState
from topicpolicies_server.logs.change_log import Leadership, LogError, NotLeader

NAMESPACE = "acme/orders"
KEY = a_key(NAMESPACE)


class Chosen(Faults):
    """Gives each append the next fate of a list, or none. The storage notices a crashed process after ``session`` seconds."""

    def __init__(self) -> None:
        self.fates: list[Fate] = []
        self.session = 0.0

    def fate(self, namespace: str, event: Event) -> Fate:
        del namespace, event
        return self.fates.pop(0) if self.fates else Fate()

    def session_seconds(self, namespace: str) -> float:
        del namespace
        return self.session


class Process:
    """A process that has the log open."""

    def __init__(self, storage: MemoryStorage, address: str) -> None:
        self.faults = Chosen()
        self.owner = LedMemoryLog(storage, address=address, faults=self.faults)
        self.recorder = Recorder()

    async def open(self) -> Process:
        log = await self.owner.open(NAMESPACE, self.recorder)
        assert isinstance(log, LedNamespaceLog)
        self.log = log
        await self.recorder.until_caught_up()
        return self

    def append(self, *ids: str) -> None:
        for each in ids:
            self.recorder.append(self.log, an_update(KEY, len(each), event_id=each))

    async def lead(self) -> None:
        """Becomes a candidate, and waits until it leads."""
        self.log.contend()
        await self.recorder.until(lambda: self.leads)

    @property
    def leads(self) -> bool:
        return self.log.leadership.leads

    def refusal(self) -> NotLeader:
        """Returns the error that refuses an append."""
        with pytest.raises(NotLeader) as caught:
            self.append("refused")
        return caught.value


def stored(storage: MemoryStorage) -> list[str]:
    """Returns what is in partition 0: the ids of events, and the addresses in announcements of leaders."""

    def label(placed: Placed) -> str:
        if placed.event is None:
            return placed.producer.rpartition("/")[2]
        assert placed.event.stamp is not None
        return placed.event.stamp.event_id

    return [label(placed) for placed in storage.namespace(NAMESPACE).entries[0]]


def simulate(partitions: int, scenario: Callable[[MemoryStorage, Process, Process], Awaitable[None]]) -> None:
    """Runs a scenario of two processes on simulated time."""

    async def main() -> None:
        storage = MemoryStorage(partitions=partitions)
        one, two = await Process(storage, "one:1").open(), await Process(storage, "two:2").open()
        await scenario(storage, one, two)
        for process in (one, two):
            process.owner.crash()
            assert process.recorder.complaints == []

    random.seed(1)
    loop = SimulatedLoop(random.Random(1))
    loop.run(main())
    assert loop.failures == []


def test_no_process_leads_before_one_contends_and_the_first_candidate_becomes_the_leader() -> None:
    async def scenario(storage: MemoryStorage, one: Process, two: Process) -> None:
        await asyncio.sleep(10)
        assert one.log.leadership == Leadership(False)
        refusal = one.refusal()
        assert (refusal.kind, refusal.metadata) == (Kind.UNAVAILABLE, {"namespace": NAMESPACE})
        await one.lead()
        assert one.log.leadership == Leadership(True, "one:1")
        two.log.contend()
        await two.recorder.until(lambda: "led" in two.recorder.reports)
        assert two.refusal().metadata["leader"] == "one:1"
        one.append("a")
        await one.recorder.until_settled(1)
        await asyncio.sleep(3 * WAIT_SECONDS)
        assert two.log.leadership == Leadership(False, "one:1"), "it keeps waiting"
        assert stored(storage) == ["one:1", "a"]

    simulate(1, scenario)


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_successor_leads_only_after_it_has_read_everything_its_predecessor_wrote(partitions: int) -> None:
    async def scenario(storage: MemoryStorage, one: Process, two: Process) -> None:
        await one.lead()
        two.log.contend()
        await asyncio.sleep(0.1)
        last = two.log.reads[-1]
        last.hold()
        one.append("a", "b")
        await one.recorder.until(lambda: len(one.recorder.places) == 2)
        one.owner.crash()
        await asyncio.sleep(10)
        assert all(seat.holder is not None for seat in storage.namespace(NAMESPACE).seats), "the successor has all producers"
        assert not two.leads
        last.release()
        await two.recorder.until(lambda: two.leads)
        assert two.recorder.ids() != []
        assert {"a", "b"} <= set(two.recorder.ids())

    simulate(partitions, scenario)


def test_events_of_a_leader_fenced_within_a_batch_have_unknown_outcomes_and_none_is_stored_afterwards() -> None:
    async def scenario(storage: MemoryStorage, one: Process, two: Process) -> None:
        await one.lead()
        two.log.contend()
        await asyncio.sleep(0.1)
        one.faults.fates = [Fate(answer_delay=1.0), Fate(), Fate(delay=1.0), Fate()]
        one.append("acknowledged late", "stored", "late", "later")
        await asyncio.sleep(0.5)
        assert stored(storage) == ["one:1", "acknowledged late", "stored"]
        one.log.cut(answers=True)
        await asyncio.sleep(0.01)
        assert one.leads, "it has not noticed yet"
        await two.recorder.until(lambda: two.leads)
        two.append("of the next")
        await asyncio.sleep(5)
        assert stored(storage) == ["one:1", "acknowledged late", "stored", "two:2", "of the next"]
        assert len(one.recorder.failures) == 4
        assert {(error.reason, error.kind, error.outcome_unknown) for _, error in one.recorder.failures} == {
            ("LOG_UNAVAILABLE", Kind.UNAVAILABLE, True)
        }
        reports = [report for report in one.recorder.reports if report in ("append_failed", "led")]
        assert reports[:6] == ["led", *["append_failed"] * 4, "led"], "events in flight fail before the end of the term is reported"
        assert one.refusal().metadata["leader"] == "two:2"

    simulate(1, scenario)


def test_an_isolated_leader_believes_that_it_leads_until_the_log_refuses_its_events() -> None:
    async def scenario(storage: MemoryStorage, one: Process, two: Process) -> None:
        await one.lead()
        two.log.contend()
        await asyncio.sleep(0.1)
        channels: list[Channel[Any]] = [*one.log.appends, *one.log.answers, *one.log.reads]
        for channel in channels:
            channel.hold()
        one.log.cut()
        await two.recorder.until(lambda: two.leads)
        assert one.leads
        one.append("in vain", "in vain too")
        await asyncio.sleep(1)
        for channel in channels:
            channel.release()
        await one.recorder.until(lambda: len(one.recorder.failures) == 2)
        assert {(error.reason, error.outcome_unknown) for _, error in one.recorder.failures} == {("LOG_UNAVAILABLE", True)}
        await asyncio.sleep(1)
        assert stored(storage) == ["one:1", "two:2"]

    simulate(1, scenario)


@pytest.mark.parametrize(("outcome", "kept"), [(Outcome.UNACKNOWLEDGED, ["lost"]), (Outcome.VANISHED, [])])
def test_a_connection_that_breaks_within_a_batch_ends_the_term_and_loses_the_rest_of_the_batch(outcome: Outcome, kept: list[str]) -> None:
    async def scenario(storage: MemoryStorage, one: Process, two: Process) -> None:
        del two
        await one.lead()
        one.faults.fates = [Fate(), Fate(outcome)]
        one.append("stored", "lost", "behind")
        await one.recorder.until(lambda: len(one.recorder.failures) == 2)
        assert {(error.reason, error.outcome_unknown) for _, error in one.recorder.failures} == {("LOG_UNAVAILABLE", True)}
        await one.recorder.until(lambda: one.leads)
        one.append("again")
        await one.recorder.until(lambda: len(one.recorder.places) == 2)
        assert stored(storage) == ["one:1", "stored", *kept, "one:1", "again"]

    simulate(1, scenario)


def test_events_sent_before_a_leader_steps_down_are_stored_before_the_next_term() -> None:
    async def scenario(storage: MemoryStorage, one: Process, two: Process) -> None:
        await one.lead()
        two.log.contend()
        await asyncio.sleep(0.1)
        one.faults.fates = [Fate(), Fate(delay=1.0)]
        one.append("stored", "on its way")
        one.log.candidate.step_down(LogError(LogState.FENCED, "The test ends the term."))
        await two.recorder.until(lambda: two.leads)
        assert stored(storage) == ["one:1", "stored", "on its way", "two:2"]
        assert [error.outcome_unknown for _, error in one.recorder.failures] == [True, True]
        assert one.recorder.places == []

    simulate(1, scenario)


def test_a_crashed_leader_is_replaced_after_its_session_and_a_closed_one_at_once() -> None:
    async def scenario(storage: MemoryStorage, one: Process, two: Process) -> None:
        loop = asyncio.get_running_loop()
        await one.lead()
        one.append("a")
        two.log.contend()
        await asyncio.sleep(0.1)
        one.faults.session, began = 5.0, loop.time()
        one.owner.crash()
        await two.recorder.until(lambda: two.leads)
        assert 5.0 <= loop.time() - began < 6.0
        one = await Process(storage, "one:1").open()  # a candidate without ``contend``: the log holds an announcement
        await one.recorder.until(lambda: "led" in one.recorder.reports)
        two.append("b")
        began = loop.time()
        await two.recorder.close(two.log)
        assert two.recorder.ids(two.recorder.places) == ["b"], "accepted events are finished"
        await one.recorder.until(lambda: one.leads)
        assert loop.time() - began < 0.5
        assert stored(storage) == ["one:1", "a", "two:2", "b", "one:1"]
        assert one.recorder.complaints == []
        one.owner.crash()

    simulate(1, scenario)


def test_other_writers_are_refused_while_a_process_leads() -> None:
    async def scenario(storage: MemoryStorage, one: Process, two: Process) -> None:
        del two
        await one.lead()
        with pytest.raises(LogError, match="exclusive producer"):
            storage.write(NAMESPACE, an_update(KEY))
        shared, recorder = MemoryLog(storage), Recorder()
        log = await shared.open(NAMESPACE, recorder)
        recorder.append(log, an_update(KEY, event_id="shared"))
        await recorder.until(lambda: bool(recorder.failures))
        ((_, error),) = recorder.failures
        assert (error.reason, error.outcome_unknown) == ("LOG_UNAVAILABLE", False)
        one.owner.crash()
        recorder.append(log, an_update(KEY, event_id="shared"))
        await recorder.until_settled(2)
        assert stored(storage) == ["one:1", "shared"]
        await shared.close()

    simulate(1, scenario)


def test_compaction_keeps_the_last_announcement_of_a_leader() -> None:
    async def scenario(storage: MemoryStorage, one: Process, two: Process) -> None:
        await one.lead()
        one.append("a", "b")
        await one.recorder.until_settled(2)
        one.owner.crash()
        await two.lead()
        storage.compact(NAMESPACE)
        assert stored(storage) == ["b", "two:2"]

    simulate(1, scenario)


def test_a_process_that_crashes_while_it_steps_down_loses_its_events_in_flight() -> None:
    async def scenario(storage: MemoryStorage, one: Process, two: Process) -> None:
        await one.lead()
        two.log.contend()
        await asyncio.sleep(0.1)
        one.faults.fates = [Fate(delay=1.0)]
        one.append("before the closing")
        one.log.candidate.step_down(LogError(LogState.FENCED, "The test ends the term."))
        one.owner.crash()
        await two.recorder.until(lambda: two.leads)
        assert stored(storage) == ["one:1", "two:2"]

    simulate(1, scenario)


def test_the_log_is_shared_for_a_follower_and_not_for_its_leader_and_both_find_the_same_end() -> None:
    async def scenario(storage: MemoryStorage, leader: Process, follower: Process) -> None:
        asking = [process.log.shared for process in (leader, follower)]
        await leader.lead()
        asking += [process.log.shared for process in (leader, follower)]
        assert asking == [True, True, False, True]
        for channel in follower.log.reads:
            channel.hold()
        leader.append("one", "two")
        await leader.recorder.until_settled(2)
        end = await follower.log.end(0)
        assert end == leader.recorder.places[-1].position == await leader.log.end(0) == storage.namespace(NAMESPACE).ends[0]
        for channel in follower.log.reads:
            channel.release()
        await follower.recorder.until(lambda: follower.recorder.entries[-1].position >= end)
        assert follower.recorder.ids()[-1] == "two"

    simulate(1, scenario)
