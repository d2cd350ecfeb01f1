"""A namespace survives any failure of its log or of its own code, and no caller waits for ever."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.memory_log import MemoryNamespaceLog
from topicpolicies_server.core.reasons import LogState, Reason
from topicpolicies_server.logs.change_log import LogError

from .bench import KEY, NAMESPACE, Bench, error_of, simulate


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
