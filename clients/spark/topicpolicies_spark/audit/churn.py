"""Topics that change too often, and fields that automations keep changing back."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from .state import KEY


def frequently_changed(rows: DataFrame, at_least: int) -> DataFrame:
    """Returns the documents with ``at_least`` changes or more, those with the most first. ``rows``: as of ``changes.made``."""
    counted = rows.groupBy(*KEY).agg(
        F.count("*").alias("changes"),
        F.count_distinct("who").alias("actors"),
        F.min("time").alias("first"),
        F.max("time").alias("last"),
    )
    return counted.filter(F.col("changes") >= at_least).orderBy(F.col("changes").desc(), *KEY)


def reverted_fields(rows: DataFrame, at_least: int) -> DataFrame:
    """Returns the fields that one actor changed back to the value from before another actor's change, ``at_least`` times or more.

    Two automations that want different values for a field show up here: each undoes the other's change, again and again.

    Args:
        rows: the changes of documents, as ``changes.made`` returns them.
        at_least: how many times changes of a field must have been undone.
    """
    before, after = (F.from_json(F.to_json(name), "map<string, string>").alias(name) for name in ("previous", "policies"))
    steps = rows.select(*KEY, "position", "time", "who", F.explode("fields").alias("field"), before, after).withColumns(
        {"before": F.col("previous")[F.col("field")], "after": F.col("policies")[F.col("field")]}
    )
    in_order = Window.partitionBy(*KEY, "field").orderBy("position")
    followed = steps.drop("previous", "policies").withColumns(
        {"other": F.lag("who").over(in_order), "earlier": F.lag("before").over(in_order)}
    )
    undone = "who <> other AND after <=> earlier AND NOT after <=> before"  # not a secret, or a field that only newer brokers know
    found = (
        followed.filter(undone)
        .groupBy(*KEY, "field")
        .agg(F.count("*").alias("times_undone"), F.sort_array(F.collect_set("who")).alias("actors"), F.max("time").alias("last"))
    )
    return found.filter(F.col("times_undone") >= at_least).orderBy(F.col("times_undone").desc(), *KEY, "field")
