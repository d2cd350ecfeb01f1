"""A guard that is restarted under a storm, at a real 4.0.0 whose log is compacted meanwhile: no change is lost or taken back.

This is a short run; ``python -m tests.promises.guard.restarts`` makes longer ones.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.broker.fixtures import BrokerOf
from tests.promises.shared.interrupted import Plan

from .restarts import VERSION, restarts

pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.timeout(420)]
PLAN = Plan(seconds=17.0, restart_every=6.0, compact_every=4.0, quiet=75.0, topics=10)


async def test_a_guard_restarted_under_a_storm_loses_nothing(broker_of: BrokerOf, tmp_path: Path) -> None:
    outcome = await restarts(broker_of(VERSION), PLAN, tmp_path)
    print(outcome)
    assert set(outcome.restarts) == {"SIGTERM", "SIGKILL"} and outcome.compactions >= 3
    assert outcome.conflicts > 0, "the old broker undid nothing, so the test shows nothing"
    assert sum(outcome.changes.values()) > 0 and not outcome.errors
    assert outcome.lost == {"the broker": []}
    assert outcome.undone == []
    assert outcome.unrepaired == 0
