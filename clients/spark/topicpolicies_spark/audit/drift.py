"""How two states differ: those of two times, or declared documents and the live ones."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from ..documents import SPARK_TYPE
from .differences import comparable, differing
from .state import KEY


def drift(before: DataFrame, after: DataFrame) -> DataFrame:
    """Returns the documents that differ: ``how`` (``appeared``, ``vanished`` or ``changed``), and in which ``fields``.

    ``time`` and ``by`` say when the later document was written, and by whom; null for a document that vanished.
    """
    one = before.select(*KEY, F.col("policies").alias("one"))
    other = after.select(*KEY, F.col("policies").alias("other"), "time", "actor", "producer")
    joined = one.join(other, list(KEY), "full_outer").withColumn("fields", differing("one", "other"))
    how = F.when(F.col("one").isNull(), "appeared").when(F.col("other").isNull(), "vanished").otherwise("changed")
    differs = (F.size("fields") > 0) | F.col("one").isNull() | F.col("other").isNull()
    by = F.coalesce("actor", "producer")
    return joined.filter(differs).select(*KEY, how.alias("how"), "fields", "time", by.alias("by")).orderBy(*KEY)


def undeclared(wanted: DataFrame, live: DataFrame) -> DataFrame:
    """Returns the declared documents that the live ones do not match: ``live`` may have other documents, and further fields set."""
    one = wanted.select(*KEY, F.col("policies").alias("one"))
    other = live.select(*KEY, F.col("policies").alias("other"), "time", "actor", "producer")
    joined = one.join(other, list(KEY), "left")
    names = [
        F.when(comparable("one", field).isNotNull() & ~comparable("one", field).eqNullSafe(comparable("other", field)), F.lit(field))
        for field in SPARK_TYPE.names
    ]
    fields = F.array_compact(F.array(*names))
    how = F.when(F.col("other").isNull(), "missing").otherwise("differs")
    found = joined.withColumn("fields", fields).filter(F.size("fields") > 0)
    return found.select(*KEY, how.alias("how"), "fields", "time", F.coalesce("actor", "producer").alias("by")).orderBy(*KEY)
