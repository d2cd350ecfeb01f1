"""Who changed what: each event with the fields that it changed, and the name of who made the change."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from topicpolicies.names import topic_name

from .differences import differing
from .state import KEY, effective


def actor() -> Column:
    """Returns a column that names who made a change: the actor of a sidecar's event; of a broker's event, only its producer is known."""
    broker = F.when(F.col("origin") == "broker", F.concat(F.lit("broker "), F.col("producer")))
    return F.coalesce(F.col("actor"), broker, F.lit("(not said)"))


def changed(changes: DataFrame) -> DataFrame:
    """Returns the events that changed a document, with the columns ``who`` and ``fields``; without repairs and tombstones.

    ``fields`` are those in which the document differs from the one before it in the archive. If events between the two were compacted away
    before they were archived, that is more than the event itself changed.
    """
    acting = effective(changes).withColumn("who", actor()).withColumn("fields", differing("before", "policies"))
    made = acting.filter(~F.col("origin").isin("repair", "tombstone") & (F.size("fields") > 0))
    return made.select(*KEY, "log", "position", "published", "who", "origin", "request_id", "action", "fields", "before", "policies")


def who(changes: DataFrame, *, topic: str = "", by: str = "", field: str = "") -> DataFrame:
    """Returns changes, the newest first.

    ``topic`` (by any of its names), ``by`` (an actor) and ``field``: only changes of these; empty: of all.
    """
    found = changed(changes)
    if topic:
        found = found.filter(F.col("topic") == topic_name(topic))
    if by:
        found = found.filter(F.col("who") == by)
    if field:
        found = found.filter(F.array_contains("fields", field))
    return found.select("published", "who", "topic", "scope", "action", "fields", "request_id", "position").orderBy(
        F.col("published").desc(), F.col("position").desc()
    )
