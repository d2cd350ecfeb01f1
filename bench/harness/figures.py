"""Throughput and latencies of a run, computed by Spark: in total, by second and phase, and of the fan-out."""

from __future__ import annotations

from typing import Any, TypedDict

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from .watching import AUDITOR

CALLS = ("update", "delete", "read", "echo", "rest")
QUANTILES = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 1.0)


class Total(TypedDict):
    """All calls of one kind in one phase. Times are in milliseconds."""

    kind: str
    phase: str
    calls: int
    failed: int
    seconds: float
    per_second: float
    quantiles_ms: list[float]
    p50_ms: float
    p95_ms: float
    p99_ms: float


class Second(TypedDict):
    """All calls of one kind that were answered in one second."""

    second: int
    phase: str
    kind: str
    calls: int
    p50_ms: float
    p99_ms: float


class FanOut(TypedDict):
    """How changes reached the watchers: milliseconds from the sending of the update to the arrival of its change."""

    watchers: int
    deliveries: int
    per_second: float
    quantiles_ms: list[float]
    p50_ms: float
    p99_ms: float


def totals(records: DataFrame) -> list[Total]:
    """Returns the totals of all calls, by kind and phase."""
    calls = _calls(records)
    good = F.col("code") == "OK"
    took = F.when(good, F.col("took"))
    found = (
        calls.groupBy("kind", "phase")
        .agg(
            F.count("*").alias("calls"),
            F.count(F.when(~good, 1)).alias("failed"),
            (F.max("end") - F.min("start")).alias("seconds"),
            F.percentile(took, F.array(*map(F.lit, QUANTILES))).alias("quantiles"),
            F.percentile(took, 0.95).alias("p95"),
        )
        .orderBy(F.min("start"))
        .collect()
    )
    return [_total(row) for row in found]


def _total(row: Any) -> Total:
    quantiles = [float(each) for each in row.quantiles or [0.0] * len(QUANTILES)]
    seconds = max(row.seconds or 0.0, 1e-9)
    return Total(
        kind=row.kind,
        phase=row.phase,
        calls=row.calls,
        failed=row.failed,
        seconds=seconds,
        per_second=(row.calls - row.failed) / seconds,
        quantiles_ms=quantiles,
        p50_ms=quantiles[QUANTILES.index(0.5)],
        p95_ms=float(row.p95 or 0.0),
        p99_ms=quantiles[QUANTILES.index(0.99)],
    )


def seconds(records: DataFrame) -> list[Second]:
    """Returns all successful calls by the second in which they were answered, counted from the first."""
    calls = _calls(records).filter(F.col("code") == "OK")
    begin = calls.agg(F.min("start")).first()
    if begin is None or begin[0] is None:
        return []
    found = (
        calls.withColumn("second", F.floor(F.col("end") - F.lit(begin[0])).cast("int"))
        .groupBy("second", "phase", "kind")
        .agg(F.count("*").alias("calls"), F.percentile("took", F.array(F.lit(0.5), F.lit(0.99))).alias("took"))
        .orderBy("second", "phase", "kind")
        .collect()
    )
    return [
        Second(second=row.second, phase=row.phase, kind=row.kind, calls=row.calls, p50_ms=float(row.took[0]), p99_ms=float(row.took[1]))
        for row in found
    ]


def fan_out(records: DataFrame) -> FanOut | None:
    """Returns how long changes took to reach the watchers, without the auditor; None if there were no watchers.

    Only updates count that were sent while the watch was open: the changes of a snapshot are older.
    """
    updates = records.filter((F.col("kind") == "update") & (F.col("code") == "OK") & (F.col("outcome") == 1) & ~F.col("repeated"))
    sent = updates.select("topic", "version", F.col("start").alias("sent"))
    opened = records.filter(F.col("kind") == "watch").select("stream", F.col("start").alias("opened"))
    changes = records.filter((F.col("kind") == "change") & (F.col("client") != AUDITOR))
    row = (
        changes.select("topic", "version", "client", "stream", "start")
        .join(sent, ["topic", "version"])
        .join(F.broadcast(opened), "stream")
        .filter((F.col("start") >= F.col("sent")) & (F.col("sent") >= F.col("opened")))
        .agg(
            F.count("*").alias("deliveries"),
            F.count_distinct("client").alias("watchers"),
            (F.max("start") - F.min("start")).alias("seconds"),
            F.percentile((F.col("start") - F.col("sent")) * 1000, F.array(*map(F.lit, QUANTILES))).alias("quantiles"),
        )
        .first()
    )
    if row is None or not row.deliveries:
        return None
    quantiles = [float(each) for each in row.quantiles]
    return FanOut(
        watchers=row.watchers,
        deliveries=row.deliveries,
        per_second=row.deliveries / max(row.seconds, 1e-9),
        quantiles_ms=quantiles,
        p50_ms=quantiles[QUANTILES.index(0.5)],
        p99_ms=quantiles[QUANTILES.index(0.99)],
    )


def _calls(records: DataFrame) -> DataFrame:
    return records.filter(F.col("kind").isin(*CALLS)).withColumn("took", (F.col("end") - F.col("start")) * 1000)
