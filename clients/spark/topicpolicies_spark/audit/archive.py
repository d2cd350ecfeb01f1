"""The archive: a directory with the changes in Parquet files that any program can read, and the checkpoint up to which they were taken.

Each batch of the stream writes ``changes/day=2030-01-31/batch=7/`` and overwrites what is there. A batch that a kill interrupted is made
again from the same offsets, so it replaces its own files, and each change is there exactly once.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession, types
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.streaming.query import StreamingQuery

from .. import NAME
from ..histories import opened
from ..options import read_options, time_of
from ..rows import SPARK_SCHEMA, of_gap
from .questions import described, state

CHANGES, CHECKPOINT, COMPACTED = "changes", "checkpoint", "compacted"
FOLDERS = ("day", "batch")
"""The columns that are the names of folders: the day of a change, in UTC, and the number of the batch that wrote it."""
FILES = types.StructType([*SPARK_SCHEMA.fields, types.StructField("day", types.DateType()), types.StructField("batch", types.LongType())])
"""The columns of an archive."""


class ArchiveError(ValueError):
    """A place has no archive that can be read; the message says what to do."""


def ingest(spark: SparkSession, archive: str, options: Mapping[str, str], *, every_seconds: float | None) -> StreamingQuery:
    """Starts a streaming query that takes changes into an archive.

    Args:
        spark: the session.
        archive: a directory, or any place that Spark can write to.
        options: the options of the data source.
        every_seconds: the time between the starts of two batches; None: the query takes what there is now, and ends.
    """
    files = f"{archive}/{CHANGES}"

    def write(changes: DataFrame, batch: int) -> None:
        day = F.expr("date_from_unix_date(cast(floor(unix_seconds(time) / 86400) as int))")  # in any time zone of the session
        rows = changes.withColumns({"day": day, "batch": F.lit(batch)}).hint("rebalance", "day")  # few files a day
        rows.write.mode("overwrite").option("partitionOverwriteMode", "dynamic").partitionBy(*FOLDERS).parquet(files)

    spark.createDataFrame([], FILES).write.mode("append").partitionBy(*FOLDERS).parquet(files)  # an archive without changes is one, too
    stream = spark.readStream.format(NAME).options(**options).load()
    writer = stream.writeStream.foreachBatch(write).option("checkpointLocation", f"{archive}/{CHECKPOINT}")
    if every_seconds is None:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{round(every_seconds * 1_000)} milliseconds").start()  # Spark does not read 1e+06 seconds


def is_local(archive: str) -> bool:
    """Returns whether an archive is a directory of this machine, and not at a place such as ``s3a://`` or ``dbfs:/``."""
    return ":/" not in archive


def changes(spark: SparkSession, archive: str, since: str = "", until: str = "") -> DataFrame:
    """Returns the changes of an archive; their columns are those of ``rows.Change``.

    Args:
        spark: the session.
        archive: the archive.
        since: an ISO time; only changes at that time or after it. Files of earlier days are not read. Empty: from the beginning.
        until: an ISO time; only changes before it. Empty: all.

    Raises:
        ArchiveError: there is no archive, or a compaction has to be completed.
    """
    if _read(spark, f"{archive}/{COMPACTED}/*/*/*.parquet") is not None:
        raise ArchiveError(f'A compaction of "{archive}" was interrupted, or runs: `topicpolicies-audit compact` completes it.')
    found = _read(spark, f"{archive}/{CHANGES}")
    if found is None:
        raise missing(archive)
    for text, sign in ((since, ">="), (until, "<")):
        if text:
            time = time_of(text)
            found = found.filter(f"time {sign} timestamp_micros({time})")
            found = found.filter(f"day {sign.rstrip('=')}= date'{datetime.fromtimestamp(time / 1e6, UTC):%Y-%m-%d}'")
    return found.select(*SPARK_SCHEMA.names)


def missing(archive: str) -> ArchiveError:
    """Returns the error of a place without an archive."""
    return ArchiveError(f'"{archive}" is not an archive: fill it with `topicpolicies-audit ingest` first.')


def _read(spark: SparkSession, files: str) -> DataFrame | None:
    """Returns the rows of files; None: there are none."""
    try:
        found = spark.read.schema(FILES).parquet(files)
        return found if found.columns else None  # a Connect server looks for the files when it is asked for the columns
    except AnalysisException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            return None
        raise


def views(spark: SparkSession, archive: str, as_of: str = "") -> None:
    """Makes temporary views for SQL: ``changes``, all events with the columns of ``questions.described``, and ``state``, the documents.

    Args:
        spark: the session.
        archive: the archive.
        as_of: an ISO time, of which ``state`` has the documents; empty: now.

    Raises:
        ArchiveError: as ``changes``.
    """
    found = changes(spark, archive)
    described(found).createOrReplaceTempView("changes")
    state(found, as_of).createOrReplaceTempView("state")


def gaps(spark: SparkSession, archive: str, options: Mapping[str, str]) -> list[str]:
    """Returns what an archive can't know: a line for each gap that is in it, or in the history that it was filled from.

    Args:
        spark: the session.
        archive: the archive.
        options: the options of the data source.
    """
    rows = changes(spark, archive).filter("action = 'GAP'").select("namespace", "problem").collect()
    return sorted({f"{row.namespace}: {row.problem}" for row in rows}.union(gaps_of_history(options)))


def gaps_of_history(options: Mapping[str, str]) -> list[str]:
    """Returns the same of a history alone, also behind its last event."""
    with opened(read_options(options)) as history:
        return [f"{name}: {of_gap(name, '', gap).problem}" for name in history.namespaces() for gap in history.gaps(name)]
