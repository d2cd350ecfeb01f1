"""Who changed what: the events that changed a document, as a selection of rows. The history knows what each event changed."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from topicpolicies.names import topic_name

WHO = ("time", "who", "topic", "scope", "action", "changed", "reason", "request_id", "version")
"""The columns that ``who`` returns."""


def author() -> Column:
    """Returns a column that names who made a change: the actor of a sidecar's event; of a broker's event, only its producer is known."""
    broker = F.when(F.col("kind") == "BROKER", F.concat(F.lit("broker "), F.col("producer")))
    return F.coalesce(F.col("actor"), broker, F.lit("(not said)"))


def described(changes: DataFrame) -> DataFrame:
    """Returns events with two more columns: ``who`` made the change, and the ``fields`` that ``changed`` is in; null: none."""
    quoted = F.lit("`")
    field = F.transform(
        "changed",
        lambda path: F.when(path.startswith(quoted), F.split_part(path, quoted, F.lit(2))).otherwise(F.substring_index(path, ".", 1)),
    )
    return changes.withColumns({"who": author(), "fields": F.array_distinct(field)})


def made(changes: DataFrame) -> DataFrame:
    """Returns the events that changed a document, as ``described`` returns them."""
    return described(changes.filter(F.col("action").isin("UPDATE", "DELETE") & (F.size("changed") > 0)))


def who(changes: DataFrame, *, topic: str = "", by: str = "", field: str = "") -> DataFrame:
    """Returns changes, the newest first.

    ``topic`` (by any of its names), ``by`` (an actor) and ``field``: only changes of these; empty: of all.
    """
    found = made(changes)
    if topic:
        found = found.filter(F.col("topic") == topic_name(topic))
    if by:
        found = found.filter(F.col("who") == by)
    if field:
        found = found.filter(F.array_contains("fields", field))
    return found.orderBy(F.col("time").desc(), F.col("position").desc()).select(*WHO)
