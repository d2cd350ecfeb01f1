"""A demanded version that the view has not reached: from another sidecar, or of another log."""

from __future__ import annotations

import asyncio

import pytest

from topicpolicies_server.core.chains.request import Outcome
from topicpolicies_server.core.errors import Kind
from topicpolicies_server.core.reasons import Reason

from .bench import error_of
from .test_confirmations import Pair, pair


@pytest.mark.parametrize("demanded", ["~", "zzzz-of-another-log", "11111111111111111111"])
@pytest.mark.parametrize("exists", [False, True])
def test_a_version_of_another_log_is_a_conflict_at_once(demanded: str, exists: bool) -> None:
    async def scenario(both: Pair) -> None:
        version = (await both.mine.set(1)).version if exists else "0"
        began = both.mine.loop.time()
        error = await error_of(both.mine.set(2, version=demanded))
        assert (error.kind, error.reason) == (Kind.ABORTED, Reason.PRECONDITION_FAILED)
        assert error.metadata["version"] == version
        assert both.mine.loop.time() - began < 1, "the request does not wait for a version that the log does not have"
        assert not both.mine.namespace.busy

    pair(scenario)


def test_an_update_waits_for_a_version_of_another_sidecar() -> None:
    async def scenario(both: Pair) -> None:
        await both.mine.set(1)
        both.hold()
        version = (await both.theirs.set(2)).version
        waiting = both.mine.setting(3, version=version)
        await asyncio.sleep(0.5)
        assert not waiting.done()
        both.release()
        result = await waiting
        assert (result.outcome, result.previous) == (Outcome.APPLIED, version)

    pair(scenario)
