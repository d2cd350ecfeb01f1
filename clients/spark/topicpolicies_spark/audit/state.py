"""The documents as of a time: those that brokers applied once they had read the logs up to that time.

For each policy key the last event counts (``SystemTopicBasedTopicPoliciesService``): an UPDATE sets the document, a DELETE or a message
without a value removes it, and an INSERT sets the document only if there is none.

A sidecar's history goes on if its log is replaced by another one. The documents of the former log are gone then: so only what follows the
gap of the replacement counts.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from ..options import time_of

KEY = ("namespace", "topic", "scope")
STATE = (*KEY, "version", "published", "actor", "producer", "policies")
"""The columns of a state."""


def effective(changes: DataFrame) -> DataFrame:
    """Returns the events that brokers act on, with two more columns.

    ``before``: the document before the event, null if there was none. ``log``: how often the log had been replaced before.
    """
    acting = _numbered(changes).filter(F.col("topic").isNotNull() & F.col("action").isin("INSERT", "UPDATE", "DELETE", "TOMBSTONE"))
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
    known = _numbered(until(changes, as_of) if as_of else changes).filter("log = replaced")
    acting = known.filter(F.col("topic").isNotNull() & F.col("action").isin("INSERT", "UPDATE", "DELETE", "TOMBSTONE"))
    inserts = acting.filter(F.col("action") == "INSERT").limit(1).count()
    candidates = effective(known) if inserts else acting  # current brokers write no INSERT, and an aggregation is cheaper than a window
    last = candidates.groupBy(*KEY).agg(
        F.max_by(F.struct("version", "published", "action", "origin", "actor", "producer", "policies"), F.col("position")).alias("last")
    )
    present = last.filter(F.col("last.action").isin("INSERT", "UPDATE"))
    return present.select(*KEY, "last.version", "last.published", "last.actor", "last.producer", "last.policies")


def _numbered(changes: DataFrame) -> DataFrame:
    """Adds how often the log had been replaced before an event, as ``log``, and how often it has been in all, as ``replaced``."""
    replaced = changes.filter((F.col("action") == "GAP") & F.col("problem").endswith(": log replaced"))
    begins = replaced.groupBy("namespace").agg(F.collect_list("position").alias("begins"))
    joined = changes.drop("log", "replaced").join(F.broadcast(begins), "namespace", "left")
    known = joined.withColumn("begins", F.coalesce("begins", F.array()))
    before = F.filter("begins", lambda begin: begin <= F.col("position"))
    return known.withColumns({"log": F.size(before), "replaced": F.size("begins")}).drop("begins")


def until(changes: DataFrame, time: str) -> DataFrame:
    """Returns the changes that were published at a time or before it: those that a state as of the time rests on."""
    return changes.filter(F.col("published") <= F.timestamp_micros(F.lit(time_of(time))))


def before(changes: DataFrame, time: str) -> DataFrame:
    """Returns the changes that were published before a time: with ``since`` of the same time, all changes are returned once."""
    return changes.filter(F.col("published") < F.timestamp_micros(F.lit(time_of(time))))


def since(changes: DataFrame, time: str) -> DataFrame:
    """Returns the changes that were published at a time or after it."""
    return changes.filter(F.col("published") >= F.timestamp_micros(F.lit(time_of(time))))
