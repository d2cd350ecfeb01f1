"""The archive: a directory with the changes in Parquet files, and the checkpoint up to which they were taken.

Spark's file sink and its checkpoint make sure that each change is there exactly once: Spark writes the files of a batch, then lists them in
``_spark_metadata``, then commits the offset. If the process is killed in between, the next run makes the same batch again from the same
offsets, and files that are not listed are not read. So the archive must be read with ``changes``, not file by file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from pyspark.sql import DataFrame, SparkSession, types
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.streaming.query import StreamingQuery

from .. import NAME
from ..histories import opened
from ..options import read_options, time_of
from ..rows import SPARK_SCHEMA, of_gap
from .state import before
from .state import since as _since

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
"""The beginning of a place that is no directory of this machine, such as ``s3a://`` or ``dbfs:/``."""
_CHANGES, _CHECKPOINT = "changes", "checkpoint"
_FILES = types.StructType([*SPARK_SCHEMA.fields, types.StructField("day", types.DateType())])
"""The columns of the files; each day has a directory."""
_LONGEST_SECONDS = 1e12
"""The longest time between two batches, in seconds: Spark counts microseconds in 64 bits."""
_LOOK_SECONDS = 1
"""How many seconds pass between two looks at the progress of a query."""


def ingest(spark: SparkSession, archive: str, options: Mapping[str, str], *, every_seconds: float | None) -> StreamingQuery:
    """Starts a streaming query that takes changes into an archive.

    Args:
        spark: the session.
        archive: a directory, or any place that Spark can write to.
        options: the options of the data source.
        every_seconds: the time between the starts of two batches; None: the query takes what there is now, and ends.
    """
    stream = spark.readStream.format(NAME).options(**options).load()
    writer = (
        stream.withColumn("day", F.to_date("time"))
        .writeStream.format("parquet")
        .partitionBy("day")
        .option("path", _place(archive, _CHANGES))
        .option("checkpointLocation", _place(archive, _CHECKPOINT))
    )
    if every_seconds is None:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=interval(every_seconds)).start()


def interval(seconds: float) -> str:
    """Returns a time as Spark reads it for a trigger: in whole milliseconds, at least one. Spark does not read ``1e+06 seconds``."""
    return f"{max(1, round(min(seconds, _LONGEST_SECONDS) * 1_000))} milliseconds"


class Progressing(Protocol):
    """A streaming query, as far as its progress is concerned."""

    def awaitTermination(self, timeout: int | None = None) -> bool | None:  # noqa: N802 - Spark's name
        """Waits at most ``timeout`` seconds, and returns whether the query has ended."""

    @property
    def recentProgress(self) -> Sequence[Any]:  # noqa: N802 - Spark's name
        """The progress of the last batches, the oldest first."""


def copied(query: Progressing) -> int:
    """Waits until a query ends, and returns how many changes it has copied. Spark remembers the progress of the last 100 batches only."""
    rows, last, ended = 0, (-1, ""), False
    while not ended:
        ended = bool(query.awaitTermination(_LOOK_SECONDS))
        for progress in query.recentProgress:
            at = int(progress["batchId"]), str(progress["timestamp"])
            if at > last:
                rows, last = rows + int(progress["numInputRows"]), at
    return rows


def is_local(archive: str) -> bool:
    """Returns whether an archive is a directory of this machine."""
    return not _URL.match(archive)


def check(archive: str) -> None:
    """Checks that there is an archive, if its place is a directory on this machine.

    Raises:
        FileNotFoundError: there is no archive.
    """
    if is_local(archive) and not (Path(archive) / _CHANGES).exists():
        raise FileNotFoundError(f'"{archive}" is not an archive: fill it with `topicpolicies-audit ingest` first.')


def changes(spark: SparkSession, archive: str, since: str = "", until: str = "") -> DataFrame:
    """Returns the changes of an archive; their columns are those of ``rows.Change``.

    Args:
        spark: the session.
        archive: the archive.
        since: an ISO time; only changes at that time or after it. Files of earlier days are not read. Empty: from the beginning.
        until: an ISO time; only changes before it. Empty: all.

    Raises:
        FileNotFoundError: there is no archive on this machine. A Connect server has directories of its own, which Spark checks.
    """
    if not type(spark).__module__.startswith("pyspark.sql.connect"):
        check(archive)
    found = spark.read.schema(_FILES).parquet(_place(archive, _CHANGES))
    for time, outside in ((since, "<"), (until, ">")):
        if time:
            found = found.filter(f"NOT day {outside} date'{datetime.fromtimestamp(time_of(time) / 1e6, UTC):%Y-%m-%d}'")
    found = _since(found, since) if since else found
    return (before(found, until) if until else found).select(*SPARK_SCHEMA.names)


def gaps(spark: SparkSession, archive: str, options: Mapping[str, str]) -> list[str]:
    """Returns what an archive can't know: a line for each gap that is in it, or in the history that it was filled from.

    Args:
        spark: the session.
        archive: the archive.
        options: the options of the data source.
    """
    rows = changes(spark, archive).filter("action = 'GAP'").select("namespace", "problem").collect()
    found = {f"{row.namespace}: {row.problem}" for row in rows}
    with opened(read_options(options)) as history:
        for name in history.namespaces():
            found |= {f"{name}: {of_gap(name, '', gap).problem}" for gap in history.gaps(name)}
    return sorted(found)


def _place(archive: str, part: str) -> str:
    return f"{archive.rstrip('/')}/{part}"
