"""Changes for tests, in the form of the archive."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from topicpolicies_spark.rows import ARROW_SCHEMA, SPARK_SCHEMA, Change

NAMESPACE = "acme/orders"


def change(number: int, topic: str, policies: dict[str, Any] | None, changed: list[str] | None = None, **more: Any) -> Change:
    """Returns event ``number`` of a history, ``number`` seconds after 1970-01-01. ``changed``: by default the fields of ``policies``."""
    actor = more.get("actor")
    values: dict[str, Any] = dict.fromkeys(Change._fields)
    values |= {
        "namespace": NAMESPACE,
        "topic": f"persistent://{NAMESPACE}/{topic}",
        "scope": "LOCAL",
        "position": f"{number:016x}",
        "version": f"v{number}",
        "time": number * 1_000_000,
        "action": "UPDATE" if policies is not None else "DELETE",
        "kind": "UPDATE" if actor else "BROKER",
        "outcome": "APPLIED",
        "producer": "standalone-0-1",
        "changed": sorted(policies or {}) if changed is None else changed or None,
        "policies": policies,
        "replicated": False,
        "unexplained": False,
        "ambiguous": False,
    }
    return Change(**(values | more))


def gap(number: int, outcome: str, **more: Any) -> Change:
    """Returns a gap of a history that ends ``number`` seconds after 1970-01-01, before the event with that number."""
    values: dict[str, Any] = dict.fromkeys(("topic", "scope", "version", "kind", "producer"))
    values |= {"action": "GAP", "outcome": outcome} | more
    return change(number, "", None, [])._replace(**values)


def frame(spark: SparkSession, changes: list[Change]) -> DataFrame:
    """Returns the changes as a DataFrame; ``previous`` is what the change before left."""
    documents: dict[tuple[str | None, ...], Any] = {}
    rows = []
    for each in changes:
        key = each.namespace, each.topic, each.scope
        rows.append(each._replace(previous=documents.get(key)))
        documents[key] = each.policies
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, ARROW_SCHEMA, strict=True)]
    return spark.createDataFrame(pa.Table.from_arrays(arrays, schema=ARROW_SCHEMA), SPARK_SCHEMA)


def fill(spark: SparkSession, archive: Path | str, changes: list[Change], batch: int = 0) -> None:
    """Writes a batch of changes into an archive, and commits it."""
    days = frame(spark, changes).withColumns({"day": F.to_date("time"), "batch": F.lit(batch)})
    days.write.mode("append").partitionBy("day", "batch").parquet(f"{archive}/changes")
    commits = Path(archive) / "checkpoint" / "commits"
    commits.mkdir(parents=True, exist_ok=True)
    (commits / str(batch)).write_text("v1\n{}")
