"""Answers without an event are confirmed: a view that is behind the log must not answer from what it has. Two sidecars share a log."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from tests.memory_log import MemoryLog, MemoryNamespaceLog, MemoryStorage
from topicpolicies_server.core.chains.request import Outcome, Request
from topicpolicies_server.core.errors import Kind, PolicyError
from topicpolicies_server.core.names import PolicyKey
from topicpolicies_server.core.policies.events import Position
from topicpolicies_server.core.reasons import Reason
from topicpolicies_server.logs.change_log import LogSink, Start
from topicpolicies_server.namespaces.progress import AGAIN_SECONDS

from .bench import KEY, Bench, error_of, simulate


class Pair:
    """Two sidecars on one log. Tests can hold back what the first one reads."""

    def __init__(self, mine: Bench, theirs: Bench) -> None:
        self.mine = mine
        self.theirs = theirs
        self.questions = 0
        self.most_at_once = 0

    def hold(self) -> None:
        for line in self.mine.opened.reads:
            line.hold()

    def release(self) -> None:
        for line in self.mine.opened.reads:
            line.release()

    def count_questions(self, seconds: float = 0.0) -> None:
        """Counts how often the first sidecar asks for the log's end, and delays each answer."""
        log = self.mine.opened
        original, under_way = log.end, [0]

        async def end(partition: int) -> Position:
            self.questions += 1
            under_way[0] += 1
            self.most_at_once = max(self.most_at_once, under_way[0])
            try:
                answer = await original(partition)
                await asyncio.sleep(seconds)
                return answer
            finally:
                under_way[0] -= 1

        log.end = end  # type: ignore[method-assign]


def pair(scenario: Callable[[Pair], Awaitable[None]], *, partitions: int = 1) -> None:
    """Runs a scenario with two sidecars that have both read the log."""

    async def run(unused: Bench) -> None:
        storage = MemoryStorage(partitions=partitions, now=unused.loop.milliseconds)
        benches = [Bench(sole_writer=False, storage=storage, join_patience_seconds=0.0, seed=seed) for seed in (1, 2)]
        benches[1]._number = 1_000  # so that its request ids are different
        for bench in benches:
            await bench.namespace.ready()
        await scenario(Pair(*benches))
        for bench in benches:
            await bench.registry.close()

    simulate(run)


# Events that the view has not read


def test_an_update_is_not_answered_as_unchanged_from_a_view_that_is_behind() -> None:
    async def scenario(both: Pair) -> None:
        await both.mine.set(1)
        both.hold()
        await both.theirs.set(2)
        setting = both.mine.setting(1)
        await asyncio.sleep(0.1)
        assert await both.mine.value() == 1, "its view is behind"
        assert not setting.done()
        both.release()
        result = await setting
        assert result.outcome is Outcome.APPLIED
        assert await both.theirs.namespace.get(KEY, result.version) is not None
        assert await both.theirs.value() == 1
        assert both.mine.registry.common.activity.confirmations == {"overtaken": 1}

    pair(scenario)


# Questions for the log's end


def test_requests_that_arrive_during_a_question_share_the_next_one() -> None:
    async def scenario(both: Pair) -> None:
        await both.mine.set(1)
        both.count_questions(seconds=0.1)
        first = both.mine.setting(1)
        await asyncio.sleep(0.05)
        later = [both.mine.setting(1) for _ in range(50)]
        await first
        assert not any(each.done() for each in later), "their question begins after their arrival"
        assert {result.outcome for result in await asyncio.gather(*later)} == {Outcome.UNCHANGED}
        assert (both.questions, both.most_at_once) == (2, 1)

    pair(scenario)


def test_requests_that_arrive_together_share_one_question() -> None:
    async def scenario(both: Pair) -> None:
        await both.mine.set(1)
        both.count_questions(seconds=0.1)
        keys = [PolicyKey(f"{KEY.topic}-{number}", KEY.scope) for number in range(50)]
        results = await asyncio.gather(*(both.mine.setting(1, key=key, skip_if_absent=True) for key in keys))
        assert {result.outcome for result in results} == {Outcome.SKIPPED}
        assert both.questions == 1
        results = await asyncio.gather(*(both.mine.setting(1) for _ in range(50)))
        assert {result.outcome for result in results} == {Outcome.UNCHANGED}
        assert both.questions == 3, "updates of one key wait for the first, and then share a question"

    pair(scenario)


def test_a_question_does_not_confirm_requests_that_arrived_after_it_began() -> None:
    async def scenario(both: Pair) -> None:
        await both.mine.set(1)
        both.count_questions(seconds=0.1)  # the end is read at once, and its answer is delayed
        early = both.mine.setting(1)
        await asyncio.sleep(0.05)
        both.hold()
        await both.theirs.set(2)
        late = both.mine.setting(1)
        assert (await early).outcome is Outcome.UNCHANGED
        await asyncio.sleep(0.2)
        assert not late.done()
        both.release()
        assert (await late).outcome is Outcome.APPLIED

    pair(scenario)


def test_only_the_keys_own_partition_is_asked_and_waited_for() -> None:
    async def scenario(both: Pair) -> None:
        log = both.mine.opened
        keys = (PolicyKey(f"{KEY.topic}-{number}", KEY.scope) for number in range(100))
        other = next(key for key in keys if log.partition_of(key) != log.partition_of(KEY))
        there = log.partition_of(other)
        await both.mine.set(1)
        await both.mine.set(2, key=other)
        log.questions[there].hold()
        log.reads[there].hold()
        await both.theirs.set(3, key=other)
        assert (await both.mine.set(1)).outcome is Outcome.UNCHANGED
        waiting = both.mine.setting(2, key=other)
        await asyncio.sleep(0.1)
        assert not waiting.done()
        log.questions[there].release()
        log.reads[there].release()
        assert (await waiting).outcome is Outcome.APPLIED

    pair(scenario, partitions=3)


def test_if_the_answered_end_is_never_reached_the_question_is_repeated() -> None:
    async def scenario(both: Pair) -> None:
        await both.mine.set(1)
        log = both.mine.opened
        original, answers = log.end, ["~"]  # after every position that will ever be read

        async def end(partition: int) -> Position:
            return answers.pop() if answers else await original(partition)

        log.end = end  # type: ignore[method-assign]
        began = both.mine.loop.time()
        assert (await both.mine.set(1)).outcome is Outcome.UNCHANGED
        assert not answers
        assert both.mine.loop.time() - began >= AGAIN_SECONDS

    async def patient(unused: Bench) -> None:
        storage = MemoryStorage(now=unused.loop.milliseconds)
        bench = Bench(sole_writer=False, storage=storage, join_patience_seconds=0.0, update_timeout_seconds=10.0)
        await bench.namespace.ready()
        await scenario(Pair(bench, bench))
        await bench.registry.close()

    simulate(patient)


# Questions without an answer


def unconfirmed(error: PolicyError) -> bool:
    return (error.kind, error.reason) == (Kind.UNAVAILABLE, Reason.NOT_APPENDED) and "Nothing was done" in error.message


def test_without_an_answer_requests_are_refused_in_time_as_not_confirmed() -> None:
    async def scenario(both: Pair) -> None:
        await both.mine.set(1)
        both.mine.opened.questions[0].hold()
        began = both.mine.loop.time()
        assert unconfirmed(await error_of(both.mine.set(1)))
        assert unconfirmed(await error_of(both.mine.set(1, validate_only=True)))
        assert both.mine.loop.time() - began <= 2 * both.mine.limits.update_timeout_seconds
        assert both.mine.registry.common.activity.confirmations == {"failed": 2}
        assert (await both.mine.set(2)).outcome is Outcome.APPLIED, "an update that is written needs no confirmation"

    pair(scenario)


class UnsharedLog(MemoryNamespaceLog):
    """A log without other writers, whose end must not be asked for."""

    @property
    def shared(self) -> bool:
        return False

    async def end(self, partition: int) -> Position:
        raise AssertionError(f"the end of partition {partition} was asked for")


class UnsharedLogs(MemoryLog):
    def _opening(self, stored: object, sink: LogSink, start: Start | None) -> MemoryNamespaceLog:
        return UnsharedLog(self, stored, sink, start)  # type: ignore[arg-type]


def test_a_log_without_other_writers_is_not_asked_for_its_end() -> None:
    async def scenario(bench: Bench) -> None:
        bench.registry.common.log = UnsharedLogs(bench.storage)
        await bench.set(1)
        assert (await bench.set(1)).outcome is Outcome.UNCHANGED
        assert (await bench.set(2, validate_only=True)).outcome is Outcome.WOULD_APPLY
        absent = await bench.namespace.update(Request(PolicyKey(KEY.topic + "-2", KEY.scope), None, "deletion", "delete"))
        assert absent.outcome is Outcome.UNCHANGED

    simulate(scenario, sole_writer=False, join_patience_seconds=0.0)
