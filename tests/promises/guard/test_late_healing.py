"""Healings that come half a minute late, at a real 4.0.0: a guard that starts after them takes none of them back."""

from __future__ import annotations

import asyncio
import signal
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.broker.fixtures import MakeBroker
from tests.broker.pulsar_broker import Broker
from tests.promises.shared.late_repairs import LateRepair, late_repairs
from tests.promises.shared.run import Place

from .guarding import guarding
from .healings import Healing, healings, taken_back
from .storm import THREADS, Storm, storm

pytestmark = [pytest.mark.broker, pytest.mark.slow]
TOPICS = 60
LATE_SECONDS = 33.0
WATCHED_SECONDS = 8.0
LEAST_LATE = 3
RECALLS_NOTHING = ("--recalled-entries", "0")
"""As if the entries that were compacted away had been trimmed: otherwise the second guard would recall them, and have seen everything."""


@pytest.mark.stages_compaction
async def test_late_healings_are_believed(make_broker: MakeBroker, tmp_path: Path) -> None:
    old = make_broker("4.0.0")  # a broker that has run for long is fast, and loses hardly any change
    await asyncio.to_thread(old.start)
    beside, after = await asyncio.gather(healed_late(old, tmp_path, stays=True), healed_late(old, tmp_path, stays=False))
    print(beside, after, sep="\n")
    for ending in (beside, after):
        assert ending.storm.changes == len(THREADS) * TOPICS and ending.healed >= LEAST_LATE
        assert ending.taken_back == []
        assert ending.storm.lost == [0], "\n\n".join(ending.storm.stories)


@dataclass
class Ending:
    """The result of a storm whose losses were healed late, and of a second guard."""

    storm: Storm
    late: list[LateRepair]
    """The late repairs that the second guard read."""
    healed: int
    """How many settings the first guard healed."""
    taken_back: list[Healing]

    def __str__(self) -> str:
        late, storm = [each.late_ms for each in self.late], self.storm
        return (
            f"{len(late)} of {TOPICS} documents healed {min(late)} to {max(late)} ms late, {self.healed} settings;"
            f" the second guard took back {len(self.taken_back)}: {', '.join(map(str, self.taken_back[:3]))};"
            f" the broker lost {storm.lost[0]} of {storm.changes}"
        )


async def healed_late(old: Broker, home: Path, *, stays: bool) -> Ending:
    """Runs a storm under a guard that is paused for half a minute; then a second one starts, while the first one runs or after its end."""
    place = await asyncio.to_thread(Place, old, topics=TOPICS, partitions=0, prefix="late")
    first_log, second_log = (home / f"{number}-{'beside' if stays else 'after'}.log" for number in ("first", "second"))
    late: list[LateRepair] = []
    async with place.log() as log, guarding(old, first_log, place.namespace, *RECALLS_NOTHING) as first:
        await first.loaded(1)
        first.process.send_signal(signal.SIGUSR1)

        async def until_the_second_guard_has_looked() -> None:
            assert (await first.metrics())["repairs_paused"] == 1
            await asyncio.sleep(LATE_SECONDS)
            assert log.wrong >= LEAST_LATE, "brokers showed stale documents all the time"
            await asyncio.to_thread(place.compact)
            first.process.send_signal(signal.SIGUSR2)
            await first.at_rest(lambda: log.wrong)
            late.extend(await asyncio.to_thread(late_repairs, place))
            assert len(late) >= LEAST_LATE, "some healings came late, after stale events that compaction left"
            if not stays:
                first.process.terminate()
                await asyncio.to_thread(first.process.wait, 30)
            async with guarding(old, second_log, place.namespace, *RECALLS_NOTHING) as second:
                await second.loaded(1)
                await asyncio.sleep(WATCHED_SECONDS)

        # Abreast, because on busy processors the threads drift apart, and hardly two of them change a topic at the same time.
        ended = await storm(old.admin, place.topics, 1, until_the_second_guard_has_looked, log, abreast=True)
        healed, by_the_second = (healings(path.read_text().splitlines()) for path in (first_log, second_log))
    return Ending(ended, late, len(healed), taken_back([*healed, *by_the_second]))
