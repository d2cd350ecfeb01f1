"""The archive: a directory with the changes in Parquet and the place up to which they were taken.

Spark's file sink and its checkpoint make it exact: a batch is written, then its files are listed in ``_spark_metadata``, then the offset is
committed. Whatever kills the process in between, the same batch is made again from the same offsets, and files that are not listed are not
read. So the archive must be read through ``changes``, not file by file.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.streaming.query import StreamingQuery

from .. import NAME
from ..rows import SPARK_SCHEMA

_CHANGES, _CHECKPOINT = "changes", "checkpoint"


def ingest(spark: SparkSession, archive: str, options: Mapping[str, str], *, every_seconds: float | None) -> StreamingQuery:
    """Starts taking changes into an archive.

    Args:
        spark: the session.
        archive: a directory, or any place that Spark can write to.
        options: the data source's.
        every_seconds: how often; None: everything that is there now, and then the query ends.
    """
    stream = spark.readStream.format(NAME).options(**options).load()
    writer = (
        stream.withColumn("day", F.to_date("published"))
        .writeStream.format("parquet")
        .partitionBy("day")
        .option("path", _place(archive, _CHANGES))
        .option("checkpointLocation", _place(archive, _CHECKPOINT))
    )
    if every_seconds is None:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{every_seconds:g} seconds").start()


def check(archive: str) -> None:
    """Makes sure, as far as this machine can tell, that there is an archive.

    Raises:
        FileNotFoundError: there is none.
    """
    if "://" not in archive and not (Path(archive) / _CHANGES).exists():
        raise FileNotFoundError(f'"{archive}" is not an archive: fill it with `topicpolicies-audit ingest` first')


def changes(spark: SparkSession, archive: str) -> DataFrame:
    """The changes of an archive.

    Raises:
        FileNotFoundError: there is none.
    """
    check(archive)
    return spark.read.schema(SPARK_SCHEMA).parquet(_place(archive, _CHANGES))


def _place(archive: str, part: str) -> str:
    return f"{archive.rstrip('/')}/{part}"
