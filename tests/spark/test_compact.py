"""The compaction of an archive: a file a day, and each change once, wherever it is interrupted and whatever an ingest writes meanwhile."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from topicpolicies_spark.audit.archive import ArchiveError, changes
from topicpolicies_spark.audit.compact import Folders, compact
from topicpolicies_spark.rows import Change

from .changes import change, fill

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(240),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
DAY = 86_400
NAMESPACES = ("acme/bills", "acme/orders")


def event(number: int, day: int) -> Change:
    at = (day * DAY + number) * 1_000_000
    return change(number, "t", {"max_producer_per_topic": number}, time=at)._replace(namespace=NAMESPACES[number % 2])


def positions(spark: SparkSession, archive: str) -> list[str]:
    return sorted(row.position for row in changes(spark, archive).select("position").collect())


def files(archive: str) -> Counter[str]:
    return Counter(path.parent.parent.name for path in Path(archive).glob("changes/day=*/batch=*/*.parquet"))


@pytest.fixture
def archive(spark: SparkSession, tmp_path: Path) -> str:
    """An archive of two days in three committed batches and one that is being written, with a change of today."""
    today = int(time.time()) // DAY
    fill(tmp_path, [event(1, 0), event(2, 0), event(3, 1)])
    fill(tmp_path, [event(5, 0), event(4, 1), event(6, today)], 1)
    fill(tmp_path, [event(7, 0), event(8, today)], 2)
    fill(tmp_path, [event(9, 0)], 3)
    (tmp_path / "checkpoint" / "commits" / "3").unlink()
    return str(tmp_path)


def test_a_day_that_is_over_becomes_one_sorted_file_and_what_is_being_written_stays(spark: SparkSession, archive: str) -> None:
    before = positions(spark, archive)
    assert compact(spark, archive) == 2
    assert positions(spark, archive) == before and len(before) == 9
    todays = next(day for day in files(archive) if not day.startswith("day=1970"))
    assert files(archive) == {"day=1970-01-01": 2, "day=1970-01-02": 1, todays: files(archive)[todays]}
    (compacted,) = Path(archive).glob("changes/day=1970-01-01/batch=2/*.parquet")
    rows = pq.ParquetFile(compacted).read(["namespace", "position"]).to_pylist()
    assert [(row["namespace"], int(row["position"], 16)) for row in rows] == [
        (NAMESPACES[0], 2), (NAMESPACES[1], 1), (NAMESPACES[1], 5), (NAMESPACES[1], 7),
    ]  # fmt: skip
    assert changes(spark, archive, "1970-01-02", "1970-01-03").count() == 2
    (Path(archive) / "checkpoint" / "commits" / "3").touch()
    assert compact(spark, archive) == 1, "what comes late is compacted later"
    assert files(archive)["day=1970-01-01"] == 1 and positions(spark, archive) == before
    assert compact(spark, archive) == 0 and not (Path(archive) / "compacted").exists()


class Killed(Exception):
    """The process is killed before or after a step."""


def test_wherever_it_is_interrupted_nothing_is_lost_or_doubled(spark: SparkSession, archive: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = positions(spark, archive)
    step = {name: getattr(Folders, name) for name in ("delete", "move")}
    left = [0]

    def dying(made: Callable[..., None]) -> Callable[..., None]:
        def run(*arguments: Any) -> None:
            if left[0] == 0:
                raise Killed
            left[0] -= 1
            made(*arguments)

        return run

    for name, made in step.items():
        monkeypatch.setattr(Folders, name, dying(made))
    interrupted = unread = 0
    for survived in range(100):
        left[0] = survived % 3
        try:
            compact(spark, archive)
            break
        except Killed:
            interrupted += 1
        try:
            assert positions(spark, archive) == before, "what can be read is right"
        except ArchiveError as refused:
            assert "topicpolicies-audit compact" in str(refused)
            unread += 1
    assert positions(spark, archive) == before
    assert files(archive)["day=1970-01-02"] == 1 and interrupted > 5 and unread > 3


def test_leftovers_of_killed_runs_and_settings_of_the_session_change_nothing(spark: SparkSession, archive: str) -> None:
    before = positions(spark, archive)
    unfinished = Path(archive) / "compacted" / "day=1970-01-01" / "batch=2" / "_temporary" / "0" / "part-0.parquet"
    unfinished.parent.mkdir(parents=True)
    unfinished.write_bytes(b"PAR1")
    old, new = (Path(archive) / "changes" / f".spark-staging-{name}" for name in ("old", "new"))
    for each in (old, new):
        each.mkdir()
    os.utime(old, (0, 0))
    assert positions(spark, archive) == before
    spark.conf.set("spark.sql.files.maxRecordsPerFile", "1")
    try:
        assert compact(spark, archive) == 2, "an unfinished file of a day is made again"
    finally:
        spark.conf.unset("spark.sql.files.maxRecordsPerFile")
    assert positions(spark, archive) == before and files(archive)["day=1970-01-01"] == 2, "the batch that is not committed stays"
    assert new.exists() and not old.exists(), "what a killed ingest left is deleted when it is old"


def test_a_place_without_archive_is_not_compacted(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="is not an archive"):
        compact(spark, str(tmp_path / "nothing"))
