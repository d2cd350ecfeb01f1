"""Updates that the log temporarily can't take, although it is still followed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from topicpolicies_server.core.errors import PolicyError
from topicpolicies_server.core.policies.events import Event
from topicpolicies_server.core.reasons import LogState
from topicpolicies_server.logs.change_log import LogError

from .bench import OTHER, Bench, simulate


@contextmanager
def refusing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Has the log refuse all appends for the block, without being lost."""

    def refuse(event: Event) -> None:
        del event
        raise LogError(LogState.APPEND_FAILED, "The change log can't be written now.")

    with monkeypatch.context() as patched:
        patched.setattr(bench.opened, "append", refuse)
        yield


def test_updates_that_the_log_refuses_are_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(bench: Bench) -> None:
        await bench.set(1)
        with refusing(bench, monkeypatch):
            began = bench.loop.time()
            for key in (OTHER, OTHER):
                with pytest.raises(PolicyError) as refused:
                    await bench.set(2, key=key)
                assert (refused.value.reason, bench.loop.time()) == ("LOG_UNAVAILABLE", began)
        assert await bench.value(OTHER) is None
        assert len(bench.ids()) == 1

    simulate(scenario)


def test_updates_after_refused_ones_are_applied_as_soon_as_the_log_takes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(bench: Bench) -> None:
        await bench.set(1)
        with refusing(bench, monkeypatch):
            refused = [bench.setting(value) for value in (2, 3)]
            await asyncio.sleep(0.01)
        began = bench.loop.time()
        await bench.set(4)
        assert bench.loop.time() - began < bench.limits.update_timeout_seconds / 2
        for each in refused:
            with pytest.raises(PolicyError, match="can't be written now"):
                await each
        assert await bench.value() == 4

    simulate(scenario)
