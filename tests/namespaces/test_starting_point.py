"""What an opening of a log begins with: the view or a checkpoint is continued, unless it may be why an opening failed."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

import pytest

from tests.core.views import heads_of
from tests.simulation.kept import Disk, SimulatedCheckpoints
from topicpolicies_server.checkpoints import Checkpoint, Checkpoints
from topicpolicies_server.core.errors import PolicyError
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.policies.events import Placed
from topicpolicies_server.core.reading.view import View
from topicpolicies_server.core.reasons import LogState, Reason
from topicpolicies_server.logs.change_log import LogError
from topicpolicies_server.namespaces.follower import Follower
from topicpolicies_server.namespaces.namespace import Namespace, Phase

from .bench import NAMESPACE, Bench, error_of, simulate

GONE = LogError(LogState.LOST, "The change log was lost.")
UNREACHABLE = LogError(LogState.UNREACHABLE, "The change log can't be reached.")
TOPICS = 100


def kept(scenario: Callable[[Bench], Awaitable[None]], **options: Any) -> None:
    """Runs a scenario with checkpoints."""

    async def with_checkpoints(bench: Bench) -> None:
        checkpoints = SimulatedCheckpoints(bench.registry, Disk(), random.Random(1), Counter())
        bench.registry.common.checkpoints = cast("Checkpoints", checkpoints)
        await scenario(bench)
        checkpoints.end()

    simulate(with_checkpoints, **options)


def served(bench: Bench) -> Follower:
    follower = bench.namespace.served
    assert follower is not None
    return follower


def resumed(bench: Bench) -> bool:
    """Returns whether the log was read from a known place on."""
    return bench.opened.resumed


async def loaded_anew(bench: Bench) -> None:
    """Closes the namespace as an idle one is closed, and loads it again."""
    bench.registry._drop(bench.namespace)
    await bench.registry._closings.close(cancel=False)
    await bench.namespace.ready()


async def lost(bench: Bench, why: LogError = GONE) -> None:
    """Loses the log, which is about to be opened again."""
    bench.log.opening_seconds = 0.5
    bench.opened.lose(why)
    await asyncio.sleep(0.1)
    assert bench.namespace.phase is Phase.LOADING


def test_a_namespace_that_was_idle_is_loaded_from_its_checkpoint() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.set(1)
        await loaded_anew(bench)
        assert resumed(bench) and await bench.value() == 1

    kept(scenario)


def test_a_log_that_was_lost_is_read_from_the_place_of_the_view() -> None:
    async def scenario(bench: Bench) -> None:
        for value in range(1, 6):
            await bench.set(value)
        view = served(bench).view
        read: list[Placed] = []
        await lost(bench)
        bench.elsewhere(9)
        take = Follower.read

        def reading(follower: Follower, events: Sequence[Placed]) -> None:
            read.extend(events)
            take(follower, events)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(Follower, "read", reading)
            assert await bench.value() == 9
        assert (resumed(bench), len(read)) == (True, 1)
        assert served(bench).view is view
        await bench.set(10)
        assert await bench.value() == 10
        await loaded_anew(bench)
        assert resumed(bench) and await bench.value() == 10

    kept(scenario)


def test_no_checkpoint_is_written_while_the_log_is_read_anew_behind_the_view_that_served() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.set(1)
        await lost(bench)
        bench.elsewhere(9)
        written: list[Checkpoint] = []

        async def write(_: object, checkpoint: Checkpoint) -> bool:
            written.append(checkpoint)
            return True

        async def long(*_: object) -> None:
            await asyncio.sleep(1)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(SimulatedCheckpoints, "write", write)
            patched.setattr(Namespace, "_until_all_seen", long)
            await asyncio.sleep(0.7)
            older, reading = served(bench), bench.namespace.reading
            assert reading is not None and reading.view is older.view and await bench.opened.end(0) == reading.positions[0]
            await bench.namespace.save(0, 0.0)
            assert written == [], "the places of the one that served are not those of its view any more"
            await bench.namespace.ready()
            await bench.namespace.save(0, 0.0)
        assert written[-1].place.start.positions == tuple(reading.positions)

    kept(scenario)


def test_a_log_that_was_compacted_beyond_the_place_of_the_view_is_read_from_its_beginning() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.set(1)
        await lost(bench)
        for value in range(2, 9):
            bench.elsewhere(value)
        bench.storage.compact(NAMESPACE)
        assert await bench.value() == 8
        assert not resumed(bench)

    kept(scenario)


def test_a_log_that_is_lost_because_its_file_is_damaged_is_read_from_its_beginning() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.set(1)
        await lost(bench, LogError(Reason.LOG_FILE_UNUSABLE, "The change log is damaged."))
        assert (await bench.value(), resumed(bench)) == (1, False)
        await bench.set(2)
        await lost(bench)
        assert (await bench.value(), resumed(bench)) == (2, True)

    kept(scenario)


def test_a_failure_unrelated_to_the_checkpoint_does_not_prevent_its_use_by_the_next_attempt() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.set(1)
        bench.registry._drop(bench.namespace)
        await bench.registry._closings.close(cancel=False)
        bench.log.refusals.append(UNREACHABLE)
        assert (await error_of(bench.namespace.ready())).state is LogState.UNREACHABLE
        await bench.namespace.ready()
        assert resumed(bench) and await bench.value() == 1

    kept(scenario)


@pytest.mark.parametrize("how", ["contradicted", "unforeseen"])
def test_a_checkpoint_that_may_be_why_an_opening_failed_is_not_used_by_the_next_opening(how: str) -> None:
    async def scenario(bench: Bench) -> None:
        await bench.set(1)
        bench.registry._drop(bench.namespace)
        await bench.registry._closings.close(cancel=False)
        finish, failures = View.loaded, [how]
        begin = Follower._begin_with

        def finished(view: View) -> None:
            if failures:
                failures.clear()
                raise ValueError("what is read contradicts it")
            finish(view)

        def began(follower: Follower, restored: Any, log: Any) -> None:
            if failures:
                failures.clear()
                raise ValueError("planted")
            begin(follower, restored, log)

        with pytest.MonkeyPatch.context() as patched:
            if how == "contradicted":
                patched.setattr(View, "loaded", finished)
            else:
                patched.setattr(Follower, "_begin_with", began)
            with contextlib.suppress(PolicyError):  # an unexpected error is reported to the caller
                await bench.namespace.ready()
            await bench.namespace.ready()
        assert (failures, resumed(bench), await bench.value()) == ([], False, 1)
        await bench.set(2)
        await asyncio.sleep(2)
        await loaded_anew(bench)
        assert resumed(bench) and await bench.value() == 2

    kept(scenario)


def key_of(number: int) -> PolicyKey:
    return PolicyKey(f"persistent://{NAMESPACE}/topic-{number:03d}", Scope.LOCAL)


def test_the_first_checkpoint_of_a_log_that_others_write_too_has_all_keys_and_requests() -> None:
    async def scenario(bench: Bench) -> None:
        for number in range(TOPICS):
            await bench.set(number % 100 + 1, key=key_of(number), request_id=f"the request {number}")
        await asyncio.sleep(100)
        bench.registry.common.checkpoints = None
        await loaded_anew(bench)
        checkpoints = SimulatedCheckpoints(bench.registry, Disk(), random.Random(1), Counter())
        bench.registry.common.checkpoints = cast("Checkpoints", checkpoints)
        assert not resumed(bench), "there was no checkpoint yet"
        await asyncio.sleep(5)
        expected = [(head.key, head.version, dict(head.document or {})) for head in heads_of(served(bench).view)]
        assert len(expected) == TOPICS
        await loaded_anew(bench)
        assert resumed(bench)
        assert [(head.key, head.version, dict(head.document or {})) for head in heads_of(served(bench).view)] == expected
        for number in range(TOPICS):
            again = await bench.set(number % 100 + 1, key=key_of(number), request_id=f"the request {number}")
            assert again.replayed
        checkpoints.end()

    kept(scenario, sole_writer=False, window_ms=1_000)
