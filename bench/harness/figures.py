"""Throughput and latencies of a run, computed by Spark: in total, by second and phase, and of the fan-out.

A latency counts from when the call was sent; at a given rate from when it should have been sent. So a stall of the service then shows in
the latencies of all calls that should have begun meanwhile.
"""

from __future__ import annotations

from typing import Any, TypedDict

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from .watching import AUDITOR

CALLS = ("update", "delete", "read", "echo")
QUANTILES = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 1.0)
HELD = 0.99
"""The least share of the asked rate at which it counts as held."""
_BEGUN = "coalesce(intended, start)"


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


class Rate(TypedDict):
    """Operations a second, of all workers together."""

    asked: float
    achieved: float
    """Of those that were sent, from the time at which the first should have been sent to the time at which the last one was."""
    held: bool


class FanOut(TypedDict):
    """How changes reached the watchers: milliseconds from the request of the update to the arrival of its change."""

    watchers: int
    deliveries: int
    per_second: float
    quantiles_ms: list[float]
    p50_ms: float
    p99_ms: float


def totals(records: DataFrame) -> list[Total]:
    """Returns the totals of all calls, by kind and phase."""
    good = F.col("code") == "OK"
    found = (
        _calls(records)
        .groupBy("kind", "phase")
        .agg(
            F.count("*").alias("calls"),
            F.count(F.when(~good, 1)).alias("failed"),
            (F.max("end") - F.min("start")).alias("seconds"),
            _quantiles(F.when(good, F.col("took"))),
        )
        .orderBy(F.min("start"))
        .collect()
    )
    return [
        Total(
            kind=row.kind,
            phase=row.phase,
            calls=row.calls,
            failed=row.failed,
            seconds=row.seconds or 0.0,
            per_second=(row.calls - row.failed) / max(row.seconds or 0.0, 1e-9),
            quantiles_ms=list(_times(row).values()),
            p50_ms=_times(row)[0.5],
            p95_ms=_times(row)[0.95],
            p99_ms=_times(row)[0.99],
        )
        for row in found
    ]


def seconds(records: DataFrame) -> list[Second]:
    """Returns all successful calls by the second in which they were answered, counted from the first."""
    calls = _calls(records).filter("code = 'OK'")
    begin = calls.agg(F.min("start")).first()
    if begin is None or begin[0] is None:
        return []
    found = (
        calls.withColumn("second", F.floor(F.col("end") - F.lit(begin[0])).cast("int"))
        .groupBy("second", "phase", "kind")
        .agg(F.count("*").alias("calls"), _quantiles(F.col("took")))
        .orderBy("second", "phase", "kind")
        .collect()
    )
    return [
        Second(second=row.second, phase=row.phase, kind=row.kind, calls=row.calls, p50_ms=_times(row)[0.5], p99_ms=_times(row)[0.99])
        for row in found
    ]


def rate(records: DataFrame, asked: float) -> Rate | None:
    """Returns the rate at which operations were sent, beside the one that was asked for; None if there was none."""
    row = records.filter("intended is not null").selectExpr("count(*) as sent", "max_by(start - intended, intended) as late").first()
    if row is None or not row.sent:
        return None
    achieved = row.sent / (row.sent / asked + max(row.late, 0.0))
    return Rate(asked=asked, achieved=achieved, held=achieved >= HELD * asked)


def fan_out(records: DataFrame) -> FanOut | None:
    """Returns how long changes took to reach the watchers, without the auditor; None if there were no watchers.

    Only updates count that were sent while the watch was open: the changes of a snapshot are older.
    """
    updates = records.filter("kind = 'update' and code = 'OK' and outcome = 1 and not repeated")
    sent = updates.select("topic", "version", F.expr(_BEGUN).alias("sent"))
    opened = records.filter("kind = 'watch'").select("stream", F.col("start").alias("opened"))
    row = (
        records.filter((F.col("kind") == "change") & (F.col("client") != AUDITOR))
        .select("topic", "version", "client", "stream", "start")
        .join(sent, ["topic", "version"])
        .join(F.broadcast(opened), "stream")
        .filter("start >= sent and sent >= opened")
        .agg(
            F.count("*").alias("deliveries"),
            F.count_distinct("client").alias("watchers"),
            (F.max("start") - F.min("start")).alias("seconds"),
            _quantiles((F.col("start") - F.col("sent")) * 1000),
        )
        .first()
    )
    if row is None or not row.deliveries:
        return None
    return FanOut(
        watchers=row.watchers,
        deliveries=row.deliveries,
        per_second=row.deliveries / max(row.seconds, 1e-9),
        quantiles_ms=list(_times(row).values()),
        p50_ms=_times(row)[0.5],
        p99_ms=_times(row)[0.99],
    )


def _calls(records: DataFrame) -> DataFrame:
    return records.filter(F.col("kind").isin(*CALLS)).withColumn("took", (F.col("end") - F.expr(_BEGUN)) * 1000)


def _quantiles(of: Any) -> Any:
    return F.percentile(of, F.array(*map(F.lit, QUANTILES))).alias("quantiles")


def _times(row: Any) -> dict[float, float]:
    """Returns the quantiles of a row; zeros if no call succeeded."""
    return dict(zip(QUANTILES, row.quantiles or [0.0] * len(QUANTILES), strict=True))
