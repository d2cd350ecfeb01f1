"""The documents as of a time: for each policy key the one behind the last event that changed it.

A sidecar's history goes on if its log is replaced by another one. The documents of the former log are gone then: only what follows the gap
of the replacement counts.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from ..options import time_of
from .changes import author

KEY = ("namespace", "topic", "scope")
STATE = (*KEY, "version", "time", "who", "kind", "policies")
"""The columns of a state."""


def state(changes: DataFrame, as_of: str = "") -> DataFrame:
    """Returns the documents that exist: the key, the version, when and by whom the document was written last, and the document.

    Args:
        changes: the changes of an archive.
        as_of: an ISO time; empty: now.
    """
    known = changes.filter(f"time <= timestamp_micros({time_of(as_of)})") if as_of else changes
    replaced = known.filter((F.col("action") == "GAP") & (F.col("outcome") == "LOG_REPLACED")).groupBy("namespace")
    begins = F.broadcast(replaced.agg(F.max("position").alias("begin")))
    acting = known.filter(F.col("action").isin("UPDATE", "DELETE")).withColumn("who", author()).join(begins, "namespace", "left")
    last = F.max_by(F.struct("action", *STATE[len(KEY) :]), "position").alias("last")
    found = acting.filter(F.col("begin").isNull() | (F.col("position") >= F.col("begin"))).groupBy(*KEY).agg(last)
    return found.filter("last.action = 'UPDATE'").select(*KEY, *(f"last.{name}" for name in STATE[len(KEY) :]))
