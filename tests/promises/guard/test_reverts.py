"""A guard leaves alone what an administrator sets back on purpose."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.broker.fixtures import BrokerOf
from tests.promises.change_log import admin_path
from tests.promises.shared.run import Place

from .guarding import guarding

pytestmark = [pytest.mark.broker, pytest.mark.slow]
CALLS = [("maxProducers", 1), ("maxConsumers", 7), ("maxProducers", 2), ("maxProducers", 1), ("maxConsumers", 8), ("maxConsumers", 7)]
"""Settings are set, changed and set back."""


@pytest.mark.parametrize(("version", "pause"), [("4.2.4", 0.0), ("4.0.0", 1.2)], ids=["4.2.4", "4.0.0"])
async def test_a_guard_leaves_a_deliberate_revert(broker_of: BrokerOf, version: str, pause: float, tmp_path: Path) -> None:
    old = await asyncio.to_thread(broker_of, version)
    place = await asyncio.to_thread(Place, old, topics=3, partitions=0, prefix="reverted")
    with old.admin() as admin:
        await asyncio.to_thread(admin.call, "POST", f"{admin_path(place.topics[0])}/maxProducers", 9)  # so that there is a log
        async with place.log() as log, guarding(old, tmp_path / "guard.log", place.namespace) as guard:
            await guard.loaded(1)
            for path, value in CALLS:
                for topic in place.topics:
                    await asyncio.to_thread(admin.call, "POST", f"{admin_path(topic)}/{path}", value)
                await asyncio.sleep(pause)
            await guard.at_rest()
            assert log.counts["went back"] >= 2 * len(place.topics), "nothing was set back"
            assert log.counts["repairs"] == 0 and guard.lines(" healed ") == []
        for topic in place.topics:
            found = {
                path: await asyncio.to_thread(admin.call, "GET", f"{admin_path(topic)}/{path}") for path in ("maxProducers", "maxConsumers")
            }
            assert found == {"maxProducers": 1, "maxConsumers": 7}
