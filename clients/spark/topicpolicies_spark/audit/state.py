"""The documents as of a time: those that brokers applied once they had read the logs up to that time.

For each policy key the last event counts (``SystemTopicBasedTopicPoliciesService``): an UPDATE sets the document, a DELETE or a message
without a value removes it, and an INSERT sets the document only if there is none.

A sidecar's history goes on if its log is replaced by another one. Positions of different logs can't be compared, and the documents of the
former log are gone: so only the namespace's newest log counts.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from ..options import time_of

KEY = ("namespace", "topic", "scope")
STATE = (*KEY, "version", "published", "actor", "producer", "policies")
"""The columns of a state."""


def effective(changes: DataFrame) -> DataFrame:
    """Returns the events that brokers act on, with the column ``before``: the document before the event, null if there was none."""
    acting = changes.filter(F.col("topic").isNotNull() & F.col("action").isin("INSERT", "UPDATE", "DELETE", "TOMBSTONE"))
    document = F.when(F.col("action").isin("INSERT", "UPDATE"), F.col("policies"))
    in_order = Window.partitionBy(*KEY, "log").orderBy("position")
    placed = acting.withColumn("policies", document).withColumn("before", F.lag("policies").over(in_order))
    applied = placed.filter((F.col("action") != "INSERT") | F.col("before").isNull())
    return applied.withColumn("before", F.lag("policies").over(in_order))  # behind an INSERT that was ignored it is an earlier document


def state(changes: DataFrame, as_of: str = "") -> DataFrame:
    """Returns the documents that exist: the key, the version, when and by whom the document was written last, and the document.

    Args:
        changes: the changes of an archive.
        as_of: an ISO time; empty: now.
    """
    known = _of_newest_logs(until(changes, as_of) if as_of else changes)
    acting = known.filter(F.col("topic").isNotNull() & F.col("action").isin("INSERT", "UPDATE", "DELETE", "TOMBSTONE"))
    inserts = acting.filter(F.col("action") == "INSERT").limit(1).count()
    candidates = effective(known) if inserts else acting  # current brokers write no INSERT, and an aggregation is cheaper than a window
    last = candidates.groupBy(*KEY).agg(
        F.max_by(F.struct("position", "published", "action", "origin", "actor", "producer", "policies"), F.col("position")).alias("last")
    )
    present = last.filter(F.col("last.action").isin("INSERT", "UPDATE"))
    return present.select(*KEY, F.col("last.position").alias("version"), "last.published", "last.actor", "last.producer", "last.policies")


def _of_newest_logs(changes: DataFrame) -> DataFrame:
    """Returns the changes of each namespace's newest log: the log of its latest event, or of a later gap where the log was replaced."""
    if not changes.filter(F.col("log").isNotNull()).limit(1).count():
        return changes  # brokers' logs, whose ledgers are numbered on if a log is replaced
    logs = changes.groupBy("namespace", "log").agg(F.max("published").alias("last"))
    newest = logs.groupBy("namespace").agg(F.max_by("log", F.struct("last", "log")).alias("newest"))
    return changes.join(newest, "namespace").filter(F.col("log").eqNullSafe(F.col("newest"))).drop("newest")


def until(changes: DataFrame, time: str) -> DataFrame:
    """Returns the changes that were published at a time or before it: those that a state as of the time rests on."""
    return changes.filter(F.col("published") <= F.timestamp_micros(F.lit(time_of(time))))


def before(changes: DataFrame, time: str) -> DataFrame:
    """Returns the changes that were published before a time: with ``since`` of the same time, all changes are returned once."""
    return changes.filter(F.col("published") < F.timestamp_micros(F.lit(time_of(time))))


def since(changes: DataFrame, time: str) -> DataFrame:
    """Returns the changes that were published at a time or after it."""
    return changes.filter(F.col("published") >= F.timestamp_micros(F.lit(time_of(time))))
