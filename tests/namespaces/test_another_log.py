"""A log that is deleted and created again, or lost with its cluster: its positions begin below those that were known."""

from __future__ import annotations

import asyncio

import pytest

from topicpolicies_server.core.policies.events import ABSENT
from topicpolicies_server.core.reading.tokens import Mode, Replaced, Selection

from .bench import KEY, NAMESPACE, OTHER, Bench, simulate


@pytest.mark.parametrize("mode", list(Mode)[:2])
def test_after_the_log_is_replaced_the_old_state_is_dropped_and_watches_begin_again(mode: Mode) -> None:
    async def scenario(bench: Bench) -> None:
        for value in range(1, 12):
            await bench.set(value, key=OTHER)
        old = await bench.set(1)
        watcher = await bench.namespace.watch(Selection(None), mode, None, lambda: None)
        assert not watcher.take(100).more
        bench.storage.recreate(NAMESPACE)
        bench.elsewhere(7)
        await asyncio.sleep(30)
        head, other = await bench.namespace.get(KEY), await bench.namespace.get(OTHER)
        assert head is not None and head.version < old.version and await bench.value() == 7
        assert other is None, "the new log has no event of the key"
        with pytest.raises(Replaced):
            watcher.take(1)
        again = await bench.namespace.watch(Selection(None), mode, None, lambda: None)
        assert [(change.key, change.version) for change in again.take(100).heads] == [(KEY, head.version)]
        made = await bench.set(3, key=OTHER)
        assert (made.previous, made.version > head.version) == (ABSENT, True)
        (newest,) = again.take(100).heads
        assert (newest.version, newest.previous) == (made.version, ABSENT)

    simulate(scenario, update_timeout_seconds=30.0)
