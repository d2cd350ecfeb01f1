"""Which fields of two documents differ, as Spark expressions over the documents' columns."""

from __future__ import annotations

from pyspark.sql import Column, types
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from ..documents import SPARK_TYPE

FIELDS: tuple[str, ...] = tuple(SPARK_TYPE.names)


def comparable(document: str, field: str) -> Column:
    """A field in a form that can be compared; what is unset and what is empty are the same. Null: unset."""
    column, kind = F.col(f"{document}.{field}"), SPARK_TYPE[field].dataType
    if isinstance(kind, types.MapType):
        return F.when(F.size(column) > 0, F.to_json(F.array_sort(F.map_entries(column))))
    if isinstance(kind, types.ArrayType):
        return F.when(F.size(column) > 0, F.to_json(column))
    return F.to_json(column) if isinstance(kind, types.StructType) else column.cast("string")


def differing(one: str, other: str, fields: tuple[str, ...] = FIELDS) -> Column:
    """The names of the fields in which two documents differ; a document that is null has none set."""
    names = [F.when(~comparable(one, field).eqNullSafe(comparable(other, field)), F.lit(field)) for field in fields]
    return F.array_compact(F.array(*names))
