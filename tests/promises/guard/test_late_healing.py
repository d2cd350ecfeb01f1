"""Healings that come half a minute late, at a real 4.0.0: a guard that starts after them takes none of them back."""

from __future__ import annotations

import asyncio
import signal
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.broker.fixtures import BrokerOf
from tests.broker.pulsar_broker import Broker
from tests.promises.shared.acknowledged import Acknowledged, Cell
from tests.promises.shared.late_repairs import LateRepair, late_repairs, write_stale
from tests.promises.shared.raw_log import RawLog
from tests.promises.shared.rest import set_over_rest, wrongly_shown
from tests.promises.shared.run import Place
from tests.promises.shared.settings import REST

from .guarding import guarding
from .healings import Healing, healings, taken_back

pytestmark = [pytest.mark.broker, pytest.mark.slow]
TOPICS = 20
LATE_SECONDS = 33.0
WATCHED_SECONDS = 8.0
RECALLS_NOTHING = ("--recalled-entries", "0")
"""As if the entries that were compacted away had been trimmed: otherwise the second guard would recall them, and have seen everything."""


@pytest.mark.stages_compaction
async def test_late_healings_are_believed(broker_of: BrokerOf, tmp_path: Path) -> None:
    old = broker_of("4.0.0")
    for ending in await asyncio.gather(healed_late(old, tmp_path, stays=True), healed_late(old, tmp_path, stays=False)):
        print(ending)
        assert len(ending.late) == TOPICS and ending.healed == 2 * TOPICS
        assert ending.taken_back == []
        assert ending.lost == []


@dataclass
class Ending:
    """The result of losses that were healed late, and of a second guard."""

    late: list[LateRepair]
    """The late repairs that the second guard read."""
    healed: int
    """How many settings the first guard healed."""
    taken_back: list[Healing]
    lost: list[str]
    """The acknowledged changes that the broker does not show in the end."""

    def __str__(self) -> str:
        late = [each.late_ms for each in self.late]
        return (
            f"{len(late)} of {TOPICS} documents healed {min(late)} to {max(late)} ms late, {self.healed} settings;"
            f" the second guard took back {len(self.taken_back)}: {', '.join(map(str, self.taken_back[:3]))};"
            f" the broker lost {len(self.lost)}: {', '.join(self.lost[:3])}"
        )


async def healed_late(old: Broker, home: Path, *, stays: bool) -> Ending:
    """Leaves losses under a guard that is paused for half a minute; then a second one starts, while the first one runs or after its end."""
    place = await asyncio.to_thread(Place, old, topics=TOPICS, partitions=0, prefix="late")
    first_log, second_log = (home / f"{number}-{'beside' if stays else 'after'}.log" for number in ("first", "second"))
    acknowledged = Acknowledged()
    async with place.log() as log, guarding(old, first_log, place.namespace, *RECALLS_NOTHING) as first:
        await first.loaded(1)
        first.process.send_signal(signal.SIGUSR1)
        await asyncio.to_thread(lose_changes, place, log, acknowledged)
        assert (await first.metrics())["repairs_paused"] == 1
        await asyncio.sleep(LATE_SECONDS)
        assert log.wrong == TOPICS, "brokers showed stale documents all the time"
        await asyncio.to_thread(place.compact)
        first.process.send_signal(signal.SIGUSR2)
        await first.at_rest(lambda: log.wrong)
        late = await asyncio.to_thread(late_repairs, place)
        if not stays:
            first.process.terminate()
            await asyncio.to_thread(first.process.wait, 30)
        async with guarding(old, second_log, place.namespace, *RECALLS_NOTHING) as second:
            await second.loaded(1)
            await asyncio.sleep(WATCHED_SECONDS)
        wrong = await asyncio.to_thread(wrongly_shown, old.admin, acknowledged, 3.0)
        healed, by_the_second = (healings(path.read_text().splitlines()) for path in (first_log, second_log))
    lost = [f"{cell} is {number}\n{log.story(cell.topic)}" for cell, number in wrong.items()]
    return Ending(late, len(healed), taken_back([*healed, *by_the_second]), lost)


def lose_changes(place: Place, log: RawLog, acknowledged: Acknowledged) -> None:
    """Changes three settings of each topic at the broker, then a fourth one as a broker does that has only read the first change yet."""
    *known, first, second, last = REST
    with place.broker.admin() as admin:
        for topic in place.topics:
            for owned in (*known, first, second):
                set_over_rest(admin, Cell(topic, owned), acknowledged)
            read = {owned: acknowledged.newest[Cell(topic, owned)] for owned in known}
            write_stale(log, Cell(topic, last), read, acknowledged)
    assert not acknowledged.errors, acknowledged.errors
