"""Compaction: each day that is over becomes one file of an archive, sorted by namespace and position.

Only batches that Spark has committed are touched, so an ingest may run meanwhile. The file of a day is first written beside the changes:
``compacted/day=2030-01-31/batch=7/``. It is complete as soon as it is there, and its path says that it replaces the batches up to that
number. They are deleted, then it takes their place. If that is interrupted, the next compaction goes on; until then the archive is not
read.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import SparkSession

from .archive import CHANGES, CHECKPOINT, COMPACTED, FILES, FOLDERS, missing

_ABANDONED_SECONDS = 86_400
"""How old unfinished files are that no running ingest will complete."""


class Folders:
    """The folders of an archive, at any place that Hadoop's file systems reach. They are named from the archive on."""

    def __init__(self, spark: SparkSession, archive: str) -> None:
        """Opens the file system of an archive with the session's configuration. A session of Spark Connect has none."""
        self._archive = archive
        self._path = spark._jvm.org.apache.hadoop.fs.Path  # type: ignore[union-attr]  # noqa: SLF001 - PySpark has no other access
        self._files = self._path(archive).getFileSystem(spark._jsc.hadoopConfiguration())  # noqa: SLF001

    def _at(self, folder: str) -> Any:
        return self._path(f"{self._archive}/{folder}")

    def names(self, folder: str, beginning: str = "", *, older_seconds: float = 0) -> list[str]:
        """Returns the names in a folder that begin so, and have not been changed for a time. There may be no such folder."""
        if not self._files.exists(self._at(folder)):
            return []
        latest = (time.time() - older_seconds) * 1_000 if older_seconds else float("inf")
        found = [each.getPath().getName() for each in self._files.listStatus(self._at(folder)) if each.getModificationTime() < latest]
        return sorted(name for name in found if name.startswith(beginning))

    def batches(self, day: str) -> list[int]:
        """Returns the numbers of the batches in the folder of a day."""
        return [int(name.removeprefix("batch=")) for name in self.names(day, "batch=")]

    def delete(self, folder: str) -> None:
        """Deletes a folder with all that is in it. There may be none."""
        self._files.delete(self._at(folder), True)

    def move(self, file: str, folder: str) -> None:
        """Moves a file into a new folder.

        Raises:
            OSError: it can't be moved.
        """
        self._files.mkdirs(self._at(folder))
        if not self._files.rename(self._at(file), self._at(folder)):
            raise OSError(f"{self._at(file)} can't be moved to {self._at(folder)}.")


def compact(spark: SparkSession, archive: str) -> int:
    """Makes one file of each day that is over, of what is committed. Only one compaction of an archive may run at a time.

    Returns:
        the number of days that were compacted; not those that have one file.

    Raises:
        ArchiveError: there is no archive.
    """
    folders = Folders(spark, archive)
    if not folders.names(CHANGES):
        raise missing(archive)
    days = _complete(folders)
    last = max(map(int, filter(str.isdigit, folders.names(f"{CHECKPOINT}/commits"))), default=-1)
    for day in folders.names(CHANGES, "day="):
        batches = [number for number in folders.batches(f"{CHANGES}/{day}") if number <= last]
        files = (name for number in batches for name in folders.names(f"{CHANGES}/{day}/batch={number}", "part-"))
        if day < f"day={datetime.now(UTC):%Y-%m-%d}" and len(list(files)) > 1:
            rows = spark.read.schema(FILES).option("basePath", f"{archive}/{CHANGES}").parquet(f"{archive}/{CHANGES}/{day}")
            taken = rows.filter(rows.batch <= last).drop(*FOLDERS).coalesce(1).sortWithinPartitions("namespace", "position")
            taken.write.mode("overwrite").option("maxRecordsPerFile", 0).parquet(f"{archive}/{COMPACTED}/{day}/batch={last}")
            days += _complete(folders)
    for name in folders.names(CHANGES, ".spark-staging-", older_seconds=_ABANDONED_SECONDS):
        folders.delete(f"{CHANGES}/{name}")
    return days


def _complete(folders: Folders) -> int:
    """Puts the file of each compacted day in the place of the batches that it replaces, and returns the number of days."""
    days = 0
    for day in folders.names(COMPACTED):
        for last in folders.batches(f"{COMPACTED}/{day}"):
            for file in folders.names(f"{COMPACTED}/{day}/batch={last}", "part-"):
                for number in folders.batches(f"{CHANGES}/{day}"):
                    if number <= last:
                        folders.delete(f"{CHANGES}/{day}/batch={number}")
                folders.move(f"{COMPACTED}/{day}/batch={last}/{file}", f"{CHANGES}/{day}/batch={last}")
                days += 1
    folders.delete(COMPACTED)
    return days
