"""Sidecars that are restarted in turn under load, while a real broker compacts their log: nothing is lost or undone.

This is a short run; ``python -m tests.promises.shared.restarts`` makes longer ones.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.broker.pulsar_broker import Broker

from .interrupted import Plan
from .restarts import restarts

pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.timeout(420)]
PLAN = Plan(seconds=20.0, restart_every=4.0, compact_every=4.0, quiet=75.0, topics=10, changes=101)


async def test_restarts_during_compaction_lose_nothing(broker: Broker, tmp_path: Path) -> None:
    outcome = await restarts(broker, PLAN, tmp_path)
    print(outcome)
    assert len(outcome.restarts) >= 3 and outcome.compactions >= 3
    assert outcome.conflicts > 0 and outcome.repairs > 0, "without conflicts the run proves nothing"
    assert min(outcome.changes.values()) > 100 and len(outcome.changes) == 2
    assert outcome.lost == {who: [] for who in outcome.lost} and len(outcome.lost) == 4
    assert outcome.undone == []
    assert outcome.unrepaired == 0
