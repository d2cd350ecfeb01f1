"""Namespaces that are created while a guard runs, at a real Pulsar 4.0.0, which loses updates from the first moment on."""

from __future__ import annotations

import asyncio
import time
import uuid
from pathlib import Path

import pytest

from tests.broker.fixtures import BrokerOf
from tests.broker.pulsar_broker import Broker
from tests.promises.shared.acknowledged import Acknowledged
from tests.promises.shared.rest import wrongly_shown
from tests.promises.shared.run import Place

from .guarding import guarding
from .storm import overlapping_changes

pytestmark = [pytest.mark.broker, pytest.mark.slow]
NAMESPACES = 2
TOPICS = 10
HEALED_SECONDS = 10.0
"""The promise of ``docs/writers.md``: after this time no change is lost in a new namespace."""


@pytest.fixture
def old(broker_of: BrokerOf) -> Broker:
    """A broker without PIP-428."""
    return broker_of("4.0.0")


@pytest.mark.parametrize("tenant", ["public", "*"], ids=["one tenant", "all tenants"])
async def test_no_overlapping_change_in_a_new_namespace_is_lost(old: Broker, tenant: str, tmp_path: Path) -> None:
    prefix = f"fresh-{uuid.uuid4().hex[:8]}"
    healed: list[float] = []
    changes = 0
    async with guarding(old, tmp_path / "guard.log", f"{tenant}/{prefix}-*") as guard:
        await guard.loaded(0)
        for number in range(1, NAMESPACES + 1):
            place = await asyncio.to_thread(Place, old, topics=TOPICS, partitions=0, prefix=prefix)
            acknowledged = Acknowledged()
            for _ in range(2):  # twice, because conflicts that are read while a namespace is loaded are not counted
                await overlapping_changes(old.admin, place.topics, acknowledged)
                ended = time.monotonic()
                wrong = await asyncio.to_thread(wrongly_shown, old.admin, acknowledged, HEALED_SECONDS)
                healed.append(time.monotonic() - ended)
                assert not acknowledged.errors, acknowledged.errors
                assert not wrong, f"{len(wrong)} of {acknowledged.total} changes are lost {healed[-1]:.1f} s later: {guard.lines()}"
                await guard.loaded(number)
            changes += acknowledged.total
        metrics = await guard.metrics()
        print(f"4.0.0, {tenant}/*: of {changes} changes in new namespaces none was lost, {', '.join(f'{each:.1f}' for each in healed)} s")
        print(f"after the last one of each; {metrics['repairs published']:.0f} healings")
        assert metrics["conflicts broker"] > 0 and metrics["repairs published"] > 0, "the broker lost nothing, so the test shows nothing"
        assert metrics["guarded_namespaces"] == NAMESPACES
