"""Throughput and latencies of a run, computed by Spark: of the calls, and of the fan-out. A latency counts from when the call was sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from .records import CALLS
from .watching import AUDITOR

QUANTILES = (0.5, 0.95, 0.99)


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """All calls of one kind in one phase; the quantiles are of those that succeeded."""

    kind: str
    phase: str
    calls: int
    failed: int
    per_second: float
    """Of those that succeeded."""
    quantiles_ms: list[float]
    """As ``QUANTILES``; zeros if no call succeeded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FanOut:
    """How changes reached the watchers: the time from the request of the update to the arrival of its change."""

    watchers: int
    deliveries: int
    per_second: float
    quantiles_ms: list[float]


def totals(records: DataFrame) -> list[Total]:
    """Returns the totals of all calls, by kind and phase."""
    good = F.col("code") == "OK"
    found = records.filter(F.col("kind").isin(*CALLS)).groupBy("kind", "phase").agg(
        F.count("*").alias("calls"),
        F.count_if(~good).alias("failed"),
        _per_second(F.count_if(good), F.min("start"), F.max("end")),
        _quantiles(F.when(good, F.col("end") - F.col("start"))),
    )  # fmt: skip
    return [Total(**_fields(row)) for row in found.orderBy(F.min("start")).collect()]


def fan_out(records: DataFrame) -> FanOut | None:
    """Returns how long changes took to reach the watchers, without the auditor; None if there were no watchers.

    Only updates count that were sent while the watch was open: the changes of a snapshot are older.
    """
    updates = records.filter("kind = 'update' and code = 'OK' and outcome = 1 and not repeated")
    sent = updates.select("topic", "version", F.col("start").alias("sent"))
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
            _quantiles(F.col("start") - F.col("sent")),
        )
        .first()
    )
    return FanOut(**_fields(row)) if row is not None and row.deliveries else None


def _per_second(count: Column, begin: Column, end: Column) -> Column:
    return (count / F.greatest(end - begin, F.lit(1e-9))).alias("per_second")


def _quantiles(seconds: Column) -> Column:
    return F.percentile(seconds * 1000, F.array(*map(F.lit, QUANTILES))).alias("quantiles_ms")


def _fields(row: Row) -> dict[str, Any]:
    return row.asDict() | {"quantiles_ms": row.quantiles_ms or [0.0] * len(QUANTILES)}
