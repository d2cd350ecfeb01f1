"""Two sidecars and administrators of a real broker: every acknowledged change is there in the end and is never undone meanwhile.

These are short runs; ``python -m tests.promises.shared`` makes longer ones. The same load with a naive second writer loses changes.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.broker.pulsar_broker import Broker

from .run import Place, beside_naive_writer, beside_sidecars

pytestmark = pytest.mark.timeout(240)
SECONDS = 4.0


@pytest.mark.parametrize(("topics", "partitions"), [(1, 0), (50, 3)], ids=["1-plain", "50-3-partitions"])
async def test_nothing_is_lost_or_undone_beside_brokers(broker: Broker, topics: int, partitions: int, tmp_path: Path) -> None:
    report = await beside_sidecars(Place(broker, topics=topics, partitions=partitions), SECONDS, tmp_path)
    print(report)
    assert report.lost == {who: [] for who in report.lost} and len(report.lost) == 4, str(report)
    assert report.undone == [], str(report)
    assert not report.errors, str(report)
    assert report.changes["admin REST"] >= 4 and report.changes["sidecars"] >= 100, str(report)
    assert min(report.heads) >= report.acknowledged / 2
    assert report.log["stale"] > 0 and report.log["repairs"] > 0, "without conflicts the run proves nothing"
    for metrics in report.metrics:
        assert metrics["conflicts broker"] > 0
        assert metrics["unexplained_events"] == metrics["ambiguous_events"] == metrics["repairs_due"] == 0, str(report)
        assert metrics["updates APPLIED"] > 0
    assert sum(metrics["repairs published"] for metrics in report.metrics) == report.log["repairs"]


async def test_a_naive_writer_undoes_changes(broker: Broker) -> None:
    report = await beside_naive_writer(Place(broker, topics=1, partitions=0), SECONDS)
    print(report)
    assert report.log["went back"] > 0 and report.log["repairs"] == 0
