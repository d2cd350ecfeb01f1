"""A namespace whose log has one leader: the leader takes updates, followers name it, and a deposed leader answers what it has in flight."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

from tests.memory_log import MemoryLog, MemoryNamespaceLog, StoredNamespace
from topicpolicies_server.core.errors import Kind
from topicpolicies_server.core.policies.events import Event
from topicpolicies_server.core.reasons import LogState
from topicpolicies_server.logs.change_log import Leadership, LogError, LogSink, NotLeader, Start

from .bench import NAMESPACE, Bench, error_of, simulate

THEIRS = Leadership(False, "theirs:1")
NOBODY = Leadership(False)
OURS = Leadership(True, "ours:1")


class LedLog(MemoryNamespaceLog):
    """A log whose leader the test chooses."""

    def __init__(self, owner: MemoryLog, stored: StoredNamespace, sink: LogSink) -> None:
        super().__init__(owner, stored, sink)
        self.contended = 0
        self._now = NOBODY

    @property
    def leadership(self) -> Leadership:
        return self._now

    def contend(self) -> None:
        self.contended += 1

    def append(self, event: Event) -> None:
        if not self._now.leads:
            raise NotLeader(NAMESPACE, self._now)
        super().append(event)

    def become(self, leadership: Leadership) -> None:
        """Changes the leader; appends that a deposed leader has in flight fail."""
        self._now = leadership
        if not leadership.leads:
            self._abandon(LogError(LogState.FENCED, "Another one leads.", kind=Kind.FAILED_PRECONDITION, outcome_unknown=True))
        self._sink.led()


class LedLogs(MemoryLog):
    async def open(self, namespace: str, sink: LogSink, start: Start | None = None) -> MemoryNamespaceLog:
        del start
        log = self._open[namespace] = LedLog(self, self.storage.namespace(namespace), sink)
        return log


def led(scenario: Callable[[Bench, LedLog], Awaitable[None]]) -> None:
    """Runs a scenario over a log that has a leader."""

    async def run(bench: Bench) -> None:
        logs = bench.registry.common.log = LedLogs(bench.storage)
        await bench.namespace.ready()
        await scenario(bench, cast("LedLog", logs.opened(NAMESPACE)))

    simulate(run, sole_writer=False, join_patience_seconds=0.0)


def test_updates_wait_until_the_leader_is_known_and_are_applied_if_this_process_leads() -> None:
    async def scenario(bench: Bench, log: LedLog) -> None:
        assert log.contended == 0, "reading does not contend for the leadership"
        updates = [bench.setting(value) for value in (1, 2, 3)]
        await asyncio.sleep(0.5)
        assert not any(update.done() for update in updates)
        assert log.contended == 3
        log.become(OURS)
        versions = [(await update).version for update in updates]
        assert versions == sorted(versions)
        assert await bench.value() == 3

    led(scenario)


def test_a_follower_names_the_leader_and_serves_reads() -> None:
    async def scenario(bench: Bench, log: LedLog) -> None:
        waiting = bench.setting(1)
        await asyncio.sleep(0.1)
        log.become(THEIRS)
        for error in (await error_of(waiting), await error_of(bench.set(2)), await error_of(bench.set(3, version="9"))):
            assert (error.kind, error.reason, error.metadata["leader"]) == (Kind.UNAVAILABLE, "NOT_LEADER", "theirs:1")
        bench.elsewhere(7)
        await asyncio.sleep(0.1)
        assert await bench.value() == 7
        assert (await bench.set(8, validate_only=True)).previous == "11", "a follower answers dry runs"
        assert await bench.value() == 7

    led(scenario)


def test_without_a_leader_an_update_is_refused_in_time_and_certainly_not_applied() -> None:
    async def scenario(bench: Bench, log: LedLog) -> None:
        error = await error_of(bench.set(1))
        assert error.reason == "NOT_LEADER"
        assert "leader" not in error.metadata
        log.become(OURS)
        await asyncio.sleep(0.1)
        assert await bench.value() is None

    led(scenario)


def test_a_deposed_leader_answers_updates_in_flight_at_once_and_retries_find_their_outcome() -> None:
    async def scenario(bench: Bench, log: LedLog) -> None:
        log.become(OURS)
        await bench.set(1)
        log.answers[0].hold()
        log.reads[0].hold()
        stored = bench.setting(2, request_id="stored")
        await asyncio.sleep(0.01)
        log.appends[0].hold()
        sent = bench.setting(3, request_id="sent")
        await asyncio.sleep(0.01)
        began = bench.loop.time()
        log.become(THEIRS)
        errors = [await error_of(stored), await error_of(sent)]
        assert bench.loop.time() - began < 0.001
        assert [error.reason for error in errors] == ["OUTCOME_UNKNOWN", "OUTCOME_UNKNOWN"]
        assert (await error_of(bench.set(4))).reason == "NOT_LEADER"
        for line in (log.answers[0], log.appends[0]):
            line.drop()
            line.release()
        log.reads[0].release()
        log.become(OURS)
        await asyncio.sleep(0.1)
        repeats = [await bench.set(2, request_id="stored"), await bench.set(3, request_id="sent")]
        assert [repeat.replayed for repeat in repeats] == [True, False]
        assert repeats[1].previous == repeats[0].version
        assert await bench.value() == 3

    led(scenario)


def test_only_a_leader_repairs() -> None:
    async def scenario(bench: Bench, log: LedLog) -> None:
        bench.elsewhere(1)
        await asyncio.sleep(0.01)
        bench.elsewhere(1, max_consumer_per_topic=5)
        await asyncio.sleep(0.01)
        bench.elsewhere(3)  # computed before max_consumer_per_topic was set
        await asyncio.sleep(1)
        assert len(bench.ids()) == 3
        log.become(OURS)
        await asyncio.sleep(1)
        before = len(bench.ids())
        assert before > 3
        log.become(THEIRS)
        bench.elsewhere(4, max_consumer_per_topic=5)
        bench.elsewhere(5)  # a conflict again
        await asyncio.sleep(1)
        assert len(bench.ids()) == before + 2

    led(scenario)
