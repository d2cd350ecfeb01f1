"""A guard of real brokers: it heals the changes that Pulsar 4.0.0 loses, and writes nothing at 4.2.4."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.broker.fixtures import BrokerOf
from tests.broker.pulsar_broker import Broker
from tests.promises.shared.run import Place

from .churn import churn
from .guarding import guarding
from .storm import SEQUENCE, THREADS, missing, sequence, storm

pytestmark = [pytest.mark.broker, pytest.mark.slow]
TOPICS = 20
ROUNDS = 3
CHURNED_ROUNDS = 10
REMOVALS = 0.25
"""The share of calls that remove a setting, which is sometimes unset."""
SEQUENCES = 40
VERSION_ALONE = "no setting, but the log's newest event does not name version"
"""Logged when a healing was overtaken by another change, so that the head has to be restated."""


@pytest.fixture
def old(broker_of: BrokerOf) -> Broker:
    """A broker without PIP-428."""
    return broker_of("4.0.0")


@pytest.mark.timeout(900)  # a guard that has just started may wait for a minute, and each round waits for changes to appear
async def test_an_old_broker_loses_changes_and_none_under_a_guard(old: Broker, tmp_path: Path) -> None:
    place = Place(old, topics=TOPICS, partitions=0, prefix="unguarded")
    without = await storm(old.admin, place.topics, 1)
    place = Place(old, topics=TOPICS, partitions=0, prefix="guarded")
    async with place.log() as log, guarding(old, tmp_path / "guard.log", place.namespace) as guard:
        await guard.loaded(1)
        under = await storm(old.admin, place.topics, ROUNDS, lambda: guard.at_rest(lambda: log.wrong), log)
        metrics = await guard.metrics()
        print(f"4.0.0, {len(THREADS)} threads, {TOPICS} topics: lost {without.lost[0]} of {without.changes} in one round without a guard,")
        print(f"{sum(under.lost)} of {under.changes} in {ROUNDS} rounds with one, which healed {metrics['repairs published']:.0f} times;")
        print(f"the log: {dict(log.counts)}; brokers wrong for at most {log.longest_wrong_ms} ms")
        assert without.lost[0] > 0, "the old broker lost nothing, so the test shows nothing"
        assert under.changes == len(THREADS) * TOPICS * ROUNDS
        print("\n\n".join(under.stories))
        assert sum(under.lost) == 0, "\n\n".join(under.stories)
        assert metrics["repairs published"] == log.counts["repairs"] > 0
        assert metrics["conflicts broker"] > 0
        healed = guard.lines(" healed ")
        assert len(healed) == metrics["repairs published"]
        assert all((" -> " in line or VERSION_ALONE in line) and "because of" in line for line in healed), "\n".join(healed)
        assert sum(" -> " in line for line in healed) > 0, "changes that were undone were healed"


@pytest.mark.timeout(900)
async def test_with_removals_at_most_one_in_a_thousand_is_lost(old: Broker, tmp_path: Path) -> None:
    place = Place(old, topics=TOPICS, partitions=0, prefix="churned-alone")
    without = await churn(old.admin, place.topics, 1, REMOVALS)
    place = Place(old, topics=TOPICS, partitions=0, prefix="churned")
    async with place.log() as log, guarding(old, tmp_path / "guard.log", place.namespace) as guard:
        await guard.loaded(1)
        under = await churn(old.admin, place.topics, CHURNED_ROUNDS, REMOVALS, guard.at_rest, log)
        metrics = await guard.metrics()
        print(f"4.0.0, {under.removals} of {under.changes} changes removals, {under.of_unset} of what was unset:")
        print(
            f"lost {without.lost[0]} of {without.changes} in one round without a guard,"
            f" {sum(under.lost)} in {CHURNED_ROUNDS} rounds with one"
        )
        print("\n\n".join(under.stories))
        assert without.lost[0] > 0, "the old broker lost nothing, so the test shows nothing"
        assert under.changes == len(THREADS) * TOPICS * CHURNED_ROUNDS
        assert under.removals > under.changes * REMOVALS / 2 and under.of_unset > under.changes * REMOVALS**2 / 2
        assert metrics["conflicts broker"] > under.changes / 100 and metrics["repairs published"] == log.counts["repairs"] > 0
        assert sum(under.lost) <= under.changes / 1_000, "\n\n".join(under.stories)


async def test_a_sequence_of_calls_on_new_topics_is_kept(old: Broker, tmp_path: Path) -> None:
    lost = 0
    for _ in range(5):  # it is a race, which seldom loses a change
        place = Place(old, topics=SEQUENCES, partitions=0, prefix="sequence")
        await asyncio.to_thread(sequence, old.admin, place.topics)
        lost += len(await asyncio.to_thread(missing, old.admin, place.topics, 0.5))
        if lost:
            break
    place = Place(old, topics=SEQUENCES, partitions=0, prefix="sequence")
    async with place.log() as log, guarding(old, tmp_path / "guard.log", place.namespace) as guard:
        await guard.loaded(1)
        await asyncio.to_thread(sequence, old.admin, place.topics)
        await guard.at_rest(lambda: log.wrong)
        gone = await asyncio.to_thread(missing, old.admin, place.topics)
        print(f"4.0.0, the sequence {', '.join(SEQUENCE)}, {SEQUENCES} topics: lost {lost} without a guard, {len(gone)} with one;")
        print(f"the log: {dict(log.counts)}")
        assert lost > 0, "the old broker lost nothing, so the test shows nothing"
        assert not gone, "\n\n".join(log.story(each.split(" ")[0]) for each in gone)


async def test_report_only_logs_and_writes_nothing(old: Broker, tmp_path: Path) -> None:
    place = Place(old, topics=4, partitions=0, prefix="reported")
    async with place.log() as log, guarding(old, tmp_path / "guard.log", place.namespace, "--report-only") as guard:
        await guard.loaded(1)
        for _ in range(100):
            await storm(old.admin, place.topics, 1)
            await guard.at_rest()
            if log.counts["stale"]:
                break
        metrics = await guard.metrics()
        assert log.counts["stale"] > 0 and log.counts["repairs"] == 0
        assert metrics["repairs withheld"] == len(guard.lines(" would heal ")) > 0 and "repairs published" not in metrics
        assert guard.lines(" healed ") == []


@pytest.mark.parametrize("partitions", [0, 3], ids=["plain", "3-partitions"])
async def test_beside_a_healthy_broker_a_guard_writes_nothing(broker: Broker, partitions: int, tmp_path: Path) -> None:
    place = Place(broker, topics=TOPICS, partitions=partitions, prefix="healthy")
    tenant, _, prefix = place.namespace.rpartition("/")
    await storm(broker.admin, place.topics[:1], 1)  # so that there is a log: a guard notices a new one only after some seconds
    async with place.log() as log, guarding(broker, tmp_path / "guard.log", f"{tenant}/{prefix[:-4]}*") as guard:
        await guard.loaded(1)
        result = await storm(broker.admin, place.topics, 3, guard.at_rest, log)
        metrics = await guard.metrics()
        assert result.lost == [0, 0, 0] and result.changes == 3 * len(THREADS) * TOPICS
        print(f"4.2.4, {partitions} partitions: the log: {dict(log.counts)}", *sorted(metrics.items()), *guard.lines(), sep="\n")
        assert metrics["events applied broker"] >= result.changes, metrics
        assert metrics["repairs_due"] == log.counts["repairs"] == 0 and "repairs published" not in metrics
        assert log.counts["stale"] == 0 and guard.lines(" healed ") == []
