"""Changes for tests, in the form of the archive."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from topicpolicies_spark.rows import ARROW_SCHEMA, SPARK_SCHEMA, Change

NAMESPACE = "acme/orders"


def change(number: int, topic: str, policies: dict[str, Any] | None, **more: Any) -> Change:
    """Returns the event ``number`` of its log, published ``number`` seconds after 1970-01-01."""
    actor = more.get("actor")
    values: dict[str, Any] = {
        "namespace": NAMESPACE,
        "topic": f"persistent://{NAMESPACE}/{topic}",
        "scope": "LOCAL",
        "partition": 0,
        "position": f"b10{chr(ord('a') + len(str(number)) - 1)}{number}",
        "ledger": 10,
        "entry": number,
        "published": number * 1_000_000,
        "action": "UPDATE" if policies is not None else "TOMBSTONE",
        "origin": "update" if actor else "broker",
        "producer": "standalone-0-1",
        "actor": None,
        "request_id": None,
        "event_id": None,
        "mask": None,
        "base": None,
        "policies": policies,
        "problem": None,
    }
    values |= more
    return Change(**({"version": values["position"]} | values))


def frame(spark: SparkSession, changes: list[Change]) -> DataFrame:
    """Returns the changes as a DataFrame."""
    columns = zip(*changes, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, ARROW_SCHEMA, strict=True)]
    return spark.createDataFrame(pa.Table.from_arrays(arrays, schema=ARROW_SCHEMA), SPARK_SCHEMA)
