"""Topics that change too often, and fields that automations keep changing back."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from .differences import FIELDS, comparable
from .state import KEY


def frequently_changed(made: DataFrame, at_least: int) -> DataFrame:
    """Returns the documents with ``at_least`` changes or more, those with the most first. ``made``: as of ``attribution.changed``."""
    counted = made.groupBy(*KEY).agg(
        F.count("*").alias("changes"),
        F.count_distinct("who").alias("actors"),
        F.min("published").alias("first"),
        F.max("published").alias("last"),
    )
    return counted.filter(F.col("changes") >= at_least).orderBy(F.col("changes").desc(), *KEY)


def reverted_fields(made: DataFrame, at_least: int) -> DataFrame:
    """Returns the fields that one actor changed back to the value from before another actor's change, ``at_least`` times or more.

    Two automations that want different values for a field show up here: each undoes the other's change, again and again.

    Args:
        made: the changes of documents, as ``attribution.changed`` returns them.
        at_least: how many times changes of a field must have been undone.
    """
    values = F.array(*[F.struct(F.lit(field).alias("field"), comparable("policies", field).alias("value")) for field in FIELDS])
    exploded = made.select(*KEY, "log", "position", "published", "who", "fields", F.explode(values).alias("each"))
    steps = exploded.filter(F.array_contains("fields", F.col("each.field"))).select(
        *KEY, "log", "position", "published", "who", F.col("each.field").alias("field"), F.col("each.value").alias("value")
    )
    in_order = Window.partitionBy(*KEY, "log", "field").orderBy("position")
    followed = (
        steps.withColumn("other", F.lag("who").over(in_order))
        .withColumn("earlier", F.lag("value", 2).over(in_order))
        .withColumn("number", F.row_number().over(in_order))
    )
    undone = (F.col("number") > 2) & (F.col("who") != F.col("other")) & F.col("value").eqNullSafe(F.col("earlier"))
    found = (
        followed.filter(undone)
        .groupBy(*KEY, "field")
        .agg(F.count("*").alias("times_undone"), F.sort_array(F.collect_set("who")).alias("actors"), F.max("published").alias("last"))
    )
    return found.filter(F.col("times_undone") >= at_least).orderBy(F.col("times_undone").desc(), *KEY, "field")
