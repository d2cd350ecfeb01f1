"""Namespaces that are created under a running guard, beside a real Pulsar 4.0.0, which loses updates from the first moment on."""

from __future__ import annotations

import asyncio
import time
import uuid
from pathlib import Path

import pytest

from tests.broker.fixtures import BrokerOf
from tests.broker.pulsar_broker import Broker
from tests.shared.acknowledged import Acknowledged, Cell
from tests.shared.rest import set_over_rest, wrongly_shown
from tests.shared.run import Place
from tests.shared.settings import Owned

from .guarding import guarding
from .storm import THREADS

pytestmark = [pytest.mark.broker, pytest.mark.slow]
TOPICS = 10
HEALED_SECONDS = 10.0
"""What ``docs/writers.md`` says: after this time nothing is lost in a new namespace."""


@pytest.fixture
def old(broker_of: BrokerOf) -> Broker:
    """A broker without PIP-428."""
    return broker_of("4.0.0")


async def overlapping_changes(broker: Broker, topics: list[str], acknowledged: Acknowledged) -> None:
    """Every thread sets its setting on every topic, all at the same time."""

    def once(owned: Owned) -> None:
        with broker.admin() as admin:
            for topic in topics:
                set_over_rest(admin, Cell(topic, owned), acknowledged)

    await asyncio.gather(*(asyncio.to_thread(once, owned) for owned in THREADS))


@pytest.mark.parametrize("tenant", ["public", "*"], ids=["one tenant", "all tenants"])
async def test_overlapping_changes_in_a_new_namespace_are_all_there_within_seconds(old: Broker, tenant: str, tmp_path: Path) -> None:
    prefix = f"fresh-{uuid.uuid4().hex[:8]}"
    healed: list[float] = []
    changes = 0
    async with guarding(old, tmp_path / "guard.log", f"{tenant}/{prefix}-*") as guard:
        await guard.loaded(0)
        for _ in range(3):
            place = await asyncio.to_thread(Place, old, topics=TOPICS, partitions=0, prefix=prefix)
            acknowledged = Acknowledged()
            await overlapping_changes(old, place.topics, acknowledged)
            ended = time.monotonic()
            wrong = await asyncio.to_thread(wrongly_shown, old.admin, acknowledged, HEALED_SECONDS)
            healed.append(time.monotonic() - ended)
            changes += acknowledged.total
            assert not acknowledged.errors, acknowledged.errors
            assert not wrong, f"{len(wrong)} of {acknowledged.total} changes are lost {healed[-1]:.1f} s later: {guard.told()}"
        metrics = await guard.metrics()
        print(f"4.0.0, {tenant}/*: of {changes} changes in new namespaces none was lost, {', '.join(f'{each:.1f}' for each in healed)} s")
        print(f"after the last one of each; {metrics['repairs published']:.0f} healings")
        assert metrics["repairs published"] > 0, "nothing was lost: nothing was shown"
        assert metrics["guarded_namespaces"] == len(healed)
