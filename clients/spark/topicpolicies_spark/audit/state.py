"""The documents as of a time: what brokers that had read the logs up to then applied.

Of each policy key the last event counts (``SystemTopicBasedTopicPoliciesService``): an UPDATE puts its document, a DELETE or a message
without a value removes it, an INSERT puts its document only where there is none.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from ..options import time_of

KEY = ("namespace", "topic", "scope")


def effective(changes: DataFrame) -> DataFrame:
    """The events that brokers act on, with ``before``: the document that the event replaced, null if there was none."""
    acting = changes.filter(F.col("topic").isNotNull() & F.col("action").isin("INSERT", "UPDATE", "DELETE", "TOMBSTONE"))
    document = F.when(F.col("action").isin("INSERT", "UPDATE"), F.col("policies"))
    in_order = Window.partitionBy(*KEY).orderBy("position")
    placed = acting.withColumn("policies", document).withColumn("before", F.lag("policies").over(in_order))
    return placed.filter((F.col("action") != "INSERT") | F.col("before").isNull())


def state(changes: DataFrame, as_of: str = "") -> DataFrame:
    """The documents that there are: key, version, when and by whom they were written last, and the document.

    Args:
        changes: an archive's.
        as_of: an ISO time; empty: now.
    """
    known = until(changes, as_of) if as_of else changes
    acting = known.filter(F.col("topic").isNotNull() & F.col("action").isin("INSERT", "UPDATE", "DELETE", "TOMBSTONE"))
    inserts = acting.filter(F.col("action") == "INSERT").limit(1).count()
    candidates = effective(known) if inserts else acting  # brokers of today write no INSERT, and an aggregation is cheaper than a window
    last = candidates.groupBy(*KEY).agg(
        F.max_by(F.struct("position", "published", "action", "origin", "actor", "producer", "policies"), F.col("position")).alias("last")
    )
    present = last.filter(F.col("last.action").isin("INSERT", "UPDATE"))
    return present.select(*KEY, F.col("last.position").alias("version"), "last.published", "last.actor", "last.producer", "last.policies")


def until(changes: DataFrame, time: str) -> DataFrame:
    """The changes up to a time, itself included."""
    return changes.filter(F.col("published") <= F.timestamp_micros(F.lit(time_of(time))))


def since(changes: DataFrame, time: str) -> DataFrame:
    """The changes from a time on."""
    return changes.filter(F.col("published") >= F.timestamp_micros(F.lit(time_of(time))))
