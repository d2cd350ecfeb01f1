"""Who changed what: the events that changed a document, as a selection of rows. The history knows what each event changed."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from topicpolicies.names import topic_name

WHO = ("time", "who", "standing", "topic", "scope", "action", "changed", "before", "after", "reason", "request_id", "version")
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

    ``topic`` (by any of its names), ``by`` (an actor) and ``field`` (a path, and what is in it): only changes of these; empty: of all.
    ``before`` and ``after`` are the values of the fields that changed, objects as JSON.
    """
    found = made(changes)
    if topic:
        found = found.filter(F.col("topic") == topic_name(topic))
    if by:
        found = found.filter(F.col("who") == by)
    if field:
        within = F.lit(f"{field}.")
        found = found.filter(
            F.exists("changed", lambda path: (path == field) | path.startswith(within) | within.startswith(F.concat(path, F.lit("."))))
        )
    for column, name in (("previous", "before"), ("policies", "after")):
        values = F.from_json(F.to_json(column), "map<string, string>")
        found = found.withColumn(name, F.map_filter(values, lambda each, _: F.array_contains("fields", each)))
    return found.orderBy(F.col("time").desc(), F.col("position").desc()).select(*WHO)
