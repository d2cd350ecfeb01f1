"""A namespace survives any failure of its log or of its own code, and no caller waits for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.memory_log import MemoryNamespaceLog
from topicpolicies_server.core.errors import Kind, PolicyError
from topicpolicies_server.core.reading.tokens import Mode, Selection
from topicpolicies_server.core.reasons import LogState, Reason
from topicpolicies_server.logs.change_log import LogError
from topicpolicies_server.namespaces.namespace import Phase

from .bench import KEY, NAMESPACE, Bench, error_of, simulate

LOST = LogError(LogState.LOST, "The log was lost.")
GONE = LogError(Reason.NAMESPACE_NOT_FOUND, "The namespace does not exist.", kind=Kind.NOT_FOUND)
CLOSED = PolicyError(Kind.UNAVAILABLE, Reason.LOG_UNAVAILABLE, "It is closed.")


@pytest.mark.parametrize("error", [ValueError("not JSON"), asyncio.CancelledError(), LogError(LogState.REFUSED, "No.")])
def test_a_log_that_can_not_be_closed_does_not_keep_callers_waiting(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    async def scenario(bench: Bench) -> None:
        namespace = bench.namespace
        await bench.set(1)
        bench.opened.answers[0].hold()
        bench.opened.reads[0].hold()
        under_way, close = bench.setting(2), MemoryNamespaceLog.close

        async def fail(self: MemoryNamespaceLog) -> None:
            await close(self)
            raise error

        monkeypatch.setattr(MemoryNamespaceLog, "close", fail)
        await asyncio.sleep(0.1)
        await bench.registry.close()
        async with asyncio.timeout(20):
            assert (await error_of(under_way)).reason == "OUTCOME_UNKNOWN"
            assert (await error_of(namespace.get(KEY))).reason == "SHUTTING_DOWN"

    simulate(scenario, update_timeout_seconds=60.0)


@pytest.mark.parametrize("error", [ValueError("not JSON"), asyncio.CancelledError()])
@pytest.mark.parametrize("where", ["opening", "failing", "pausing"])
def test_after_an_unexpected_error_in_an_attempt_the_namespace_is_loaded_again(where: str, error: BaseException) -> None:
    """Brokers may answer with status 200 and a body that is not JSON, for example; callers must not wait for ever then."""

    async def scenario(bench: Bench) -> None:
        namespace, broken = bench.namespace, [error] * 3

        def breaking(real: Callable[..., Any]) -> Callable[..., Any]:
            def call(*arguments: Any) -> Any:
                if broken:
                    raise broken.pop()
                return real(*arguments)

            return call

        if where == "opening":
            bench.log.open = breaking(bench.log.open)  # type: ignore[method-assign]
        elif where == "failing":
            bench.log.refusals = [LOST] * 20
            namespace.updates.turn_away = breaking(namespace.updates.turn_away)  # type: ignore[method-assign]
        else:
            bench.log.refusals = [GONE] * 3
            namespace._pause = breaking(namespace._pause)  # type: ignore[method-assign]
        namespace.hold(bench)
        await asyncio.sleep(60)
        assert not broken, "precondition"
        assert await bench.value() is None and (await bench.set(1)).version

    simulate(scenario, load_retry_seconds=1.0, update_timeout_seconds=60.0)


def test_a_watched_namespace_is_loaded_again_after_an_unexpected_error() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.namespace.watch(Selection(None), Mode.LATEST, None, lambda: None)
        opened, broken = bench.log.open, [KeyError("partitions")]

        async def open_badly(*arguments: Any) -> Any:
            if broken:
                raise broken.pop()
            return await opened(*arguments)

        bench.log.open = open_badly  # type: ignore[method-assign, assignment]
        bench.opened.lose(LOST)
        await asyncio.sleep(0.01)
        assert (bench.namespace.phase.value, bench.namespace.cause) == ("failed", "INTERNAL")
        await asyncio.sleep(10)
        assert bench.namespace.phase is Phase.READY

    simulate(scenario)


def test_a_log_that_is_lost_whenever_it_serves_is_opened_again_only_after_pauses() -> None:
    async def scenario(bench: Bench) -> None:
        real = bench.log.open

        async def open_and_lose(namespace: str, sink: Any, start: Any = None) -> Any:
            log = await real(namespace, sink)
            bench.loop.call_later(0.01, bench.storage.lose, NAMESPACE)
            return log

        bench.log.open = open_and_lose  # type: ignore[method-assign]
        bench.namespace.hold(bench)
        await asyncio.sleep(60)
        assert 6 <= len(bench.log.openings) < 100, "five openings at once, then one after each pause"
        bench.log.open = real  # type: ignore[method-assign]
        assert (await bench.set(1)).version

    simulate(scenario, load_retry_seconds=1.0, update_timeout_seconds=60.0)


def test_a_log_is_opened_again_only_after_the_opening_before_was_closed() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.set(1)
        bench.opened.answers[0].hold()
        bench.opened.reads[0].hold()
        under_way = bench.setting(2)
        await asyncio.sleep(0.1)
        follower = bench.namespace.served
        assert follower is not None
        follower.lost(LogError(Reason.LOG_UNAVAILABLE, "It was found to be inconsistent."))  # the log itself is still open
        assert (await under_way).previous == "11"
        assert bench.registry.common.activity.loads == {"loaded": 2}, "no attempt found it open"

    simulate(scenario, update_timeout_seconds=60.0)
