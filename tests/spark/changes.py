"""Changes for tests, in the form of the archive."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from topicpolicies_spark.rows import ARROW_SCHEMA, SPARK_SCHEMA, Change

NAMESPACE = "acme/orders"
_DAY = 86_400_000_000
"""In microseconds."""


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
    return spark.createDataFrame(_table(changes), SPARK_SCHEMA)


def fill(archive: Path | str, changes: list[Change], batch: int = 0) -> None:
    """Writes a batch of changes into an archive as an ingest does, a file a day, and commits it."""
    rows = _table(changes)
    days = [each.time // _DAY for each in changes]
    for day in set(days):
        folder = Path(archive) / "changes" / f"day={date(1970, 1, 1) + timedelta(day)}" / f"batch={batch}"
        folder.mkdir(parents=True)
        pq.write_table(rows.filter(pa.array(each == day for each in days)), folder / "part-0.parquet")
    commits = Path(archive) / "checkpoint" / "commits"
    commits.mkdir(parents=True, exist_ok=True)
    (commits / str(batch)).write_text("v1\n{}")


def _table(changes: list[Change]) -> pa.Table:
    documents: dict[tuple[str | None, ...], Any] = {}
    rows = []
    for each in changes:
        key = each.namespace, each.topic, each.scope
        rows.append(each._replace(previous=documents.get(key)))
        documents[key] = each.policies
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, ARROW_SCHEMA, strict=True)]
    return pa.Table.from_arrays(arrays, schema=ARROW_SCHEMA)
