"""Throughput and latencies of a run, computed by Spark: in total, by second and phase, and of the fan-out.

A latency counts from when the call was sent; at a given rate from when it should have been sent. So a stall of the service then shows in
the latencies of all calls that should have begun meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from .watching import AUDITOR

CALLS = ("update", "delete", "read")
QUANTILES = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 1.0)
HELD = 0.99
"""The least share of the asked rate at which it counts as held."""
_BEGUN = "coalesce(intended, start)"
Quantiles = dict[float, float]
"""Milliseconds, by the share of calls that are faster; zeros if no call succeeded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """All calls of one kind in one phase; the quantiles are of those that succeeded."""

    kind: str
    phase: str
    calls: int
    failed: int
    per_second: float
    """Of those that succeeded."""
    quantiles_ms: Quantiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Second:
    """All calls of one kind that were answered in one second."""

    second: int
    phase: str
    kind: str
    calls: int
    quantiles_ms: Quantiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """Operations a second, of all workers together."""

    asked: float
    achieved: float
    """Of those that were sent, from the time at which the first should have been sent to the time at which the last one was."""
    held: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FanOut:
    """How changes reached the watchers: the time from the request of the update to the arrival of its change."""

    watchers: int
    deliveries: int
    per_second: float
    quantiles_ms: Quantiles


def totals(records: DataFrame) -> list[Total]:
    """Returns the totals of all calls, by kind and phase."""
    good = F.col("code") == "OK"
    found = _calls(records).groupBy("kind", "phase").agg(
        F.count("*").alias("calls"),
        F.count_if(~good).alias("failed"),
        _per_second(F.count_if(good), F.min("start"), F.max("end")),
        _quantiles(F.when(good, F.col("took"))),
    )  # fmt: skip
    return [Total(**_fields(row)) for row in found.orderBy(F.min("start")).collect()]


def seconds(records: DataFrame) -> list[Second]:
    """Returns all successful calls by the second in which they were answered, counted from the first."""
    calls = _calls(records).filter("code = 'OK'")
    second = F.expr("int(floor(`end` - begin))").alias("second")
    grouped = calls.crossJoin(calls.select(F.min("start").alias("begin"))).groupBy(second, "phase", "kind")
    found = grouped.agg(F.count("*").alias("calls"), _quantiles(F.col("took"))).orderBy("second", "phase", "kind")
    return [Second(**_fields(row)) for row in found.collect()]


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
            _per_second(F.count("*"), F.min("start"), F.max("start")),
            _quantiles((F.col("start") - F.col("sent")) * 1000),
        )
        .first()
    )
    return FanOut(**_fields(row)) if row is not None and row.deliveries else None


def _calls(records: DataFrame) -> DataFrame:
    return records.filter(F.col("kind").isin(*CALLS)).withColumn("took", (F.col("end") - F.expr(_BEGUN)) * 1000)


def _per_second(count: Column, begin: Column, end: Column) -> Column:
    return (count / F.greatest(end - begin, F.lit(1e-9))).alias("per_second")


def _quantiles(of: Column) -> Column:
    return F.percentile(of, F.array(*map(F.lit, QUANTILES))).alias("quantiles_ms")


def _fields(row: Row) -> dict[str, Any]:
    return row.asDict() | {"quantiles_ms": dict(zip(QUANTILES, row.quantiles_ms or [0.0] * len(QUANTILES), strict=True))}
