"""The questions that are asked of an archive. The history knows what each event changed, so an answer is a selection of its rows.

- ``who`` changed what, and ``state``: the documents as of a time.
- ``drift``: how two states differ.
- ``frequently_changed`` topics, and ``reverted_fields``, which automations keep changing back.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window, types
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from topicpolicies.names import topic_name

from ..documents import SPARK_TYPE
from ..options import time_of

KEY = ("namespace", "topic", "scope")
STATE = (*KEY, "version", "time", "who", "kind", "policies")
"""The columns of a state."""
WHO = ("time", "who", "standing", "topic", "scope", "action", "changed", "before", "after", "reason", "request_id", "version")
"""The columns that ``who`` returns."""


def described(changes: DataFrame) -> DataFrame:
    """Returns events with two more columns: ``who`` made the change, and the ``fields`` that ``changed`` is in; null: none.

    Of a broker's event only the producer is known.
    """
    broker = F.when(F.col("kind") == "BROKER", F.concat(F.lit("broker "), F.col("producer")))
    author = F.coalesce(F.col("actor"), broker, F.lit("(not said)"))
    quoted = F.lit("`")
    field = F.transform(
        "changed",
        lambda path: F.when(path.startswith(quoted), F.split_part(path, quoted, F.lit(2))).otherwise(F.substring_index(path, ".", 1)),
    )
    return changes.withColumns({"who": author, "fields": F.array_distinct(field)})


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
        found = found.withColumn(name, F.map_filter(_values(column), lambda each, _: F.array_contains("fields", each)))
    return found.orderBy(F.col("time").desc(), F.col("position").desc()).select(*WHO)


def state(changes: DataFrame, as_of: str = "") -> DataFrame:
    """Returns the documents that exist: the key, the version, when and by whom the document was written last, and the document.

    A sidecar's history goes on if its log is replaced by another one. The documents of the former log are gone then: only what follows the
    gap of the replacement counts. Where a document's changes were compacted away before the archive began, a repair may be all that is left
    to tell it.

    Args:
        changes: the changes of an archive.
        as_of: an ISO time; empty: now.
    """
    known = changes.filter(f"time <= timestamp_micros({time_of(as_of)})") if as_of else changes
    replaced = known.filter((F.col("action") == "GAP") & (F.col("outcome") == "LOG_REPLACED")).groupBy("namespace")
    begins = F.broadcast(replaced.agg(F.max("position").alias("begin")))
    changing = F.col("action").isin("UPDATE", "DELETE")
    telling = described(known.filter(changing | (F.col("outcome") == "RESTATED"))).join(begins, "namespace", "left")
    last = F.max_by(F.struct(*STATE[len(KEY) :]), F.struct(changing, "position")).alias("last")
    found = telling.filter(F.col("begin").isNull() | (F.col("position") >= F.col("begin"))).groupBy(*KEY).agg(last)
    return found.filter("last.policies IS NOT NULL").select(*KEY, *(f"last.{name}" for name in STATE[len(KEY) :]))


def drift(one: DataFrame, other: DataFrame, *, declared: bool = False) -> DataFrame:
    """Returns the documents that differ, with ``how`` and in which ``fields`` they do.

    ``time`` and ``who`` say when the other document was written, and by whom; null if there is none.

    Args:
        one: the earlier state, or what is declared.
        other: the later state.
        declared: whether ``one`` is declared: then ``how`` is ``missing`` or ``differs``, and the other state may have more documents and
            more fields set. Else ``how`` is ``appeared``, ``vanished`` or ``changed``.
    """
    before, after = F.col("one"), F.col("other")
    joined = one.select(*KEY, F.col("policies").alias("one")).join(
        other.select(*KEY, F.col("policies").alias("other"), "time", "who"), list(KEY), "left" if declared else "full_outer"
    )
    fields = []
    for field in SPARK_TYPE:
        value, live = (_comparable(F.col(f"{document}.{field.name}"), field.dataType) for document in ("one", "other"))
        differs = ~value.eqNullSafe(live)
        fields.append(F.when(differs & value.isNotNull() if declared else differs, F.lit(field.name)))
    found = joined.withColumn("fields", F.array_compact(F.array(*fields)))
    if declared:
        how, differing = F.when(after.isNull(), "missing").otherwise("differs"), F.size("fields") > 0
    else:
        how = F.when(before.isNull(), "appeared").when(after.isNull(), "vanished").otherwise("changed")
        differing = (F.size("fields") > 0) | before.isNull() | after.isNull()
    return found.filter(differing).select(*KEY, how.alias("how"), "fields", "time", "who").orderBy(*KEY)


def frequently_changed(rows: DataFrame, at_least: int) -> DataFrame:
    """Returns the documents with ``at_least`` changes or more, those with the most first. ``rows``: as of ``made``."""
    counted = rows.groupBy(*KEY).agg(
        F.count("*").alias("changes"),
        F.count_distinct("who").alias("actors"),
        F.min("time").alias("first"),
        F.max("time").alias("last"),
    )
    return counted.filter(F.col("changes") >= at_least).orderBy(F.col("changes").desc(), *KEY)


def reverted_fields(rows: DataFrame, at_least: int) -> DataFrame:
    """Returns the fields that one actor changed back to the value from before another actor's change, ``at_least`` times or more.

    Two automations that want different values for a field show up here: each undoes the other's change, again and again. ``rows``: as of
    ``made``.
    """
    fields = F.explode("fields").alias("field")
    documents = _values("previous").alias("previous"), _values("policies").alias("policies")
    steps = rows.select(*KEY, "position", "time", "who", fields, *documents).withColumns(
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


def _values(document: str) -> Column:
    """Returns the fields of a document as a map of texts: objects are JSON."""
    return F.from_json(F.to_json(document), "map<string, string>")


def _comparable(value: Column, kind: types.DataType) -> Column:
    """Returns a field of a document so that it can be compared. An unset field is null, and so is an empty list or map."""
    if isinstance(kind, types.MapType):
        return F.when(F.size(value) > 0, F.to_json(F.array_sort(F.map_entries(value))))
    if isinstance(kind, types.ArrayType):
        return F.when(F.size(value) > 0, F.to_json(value))
    return F.to_json(value) if isinstance(kind, types.StructType) else value.cast("string")
