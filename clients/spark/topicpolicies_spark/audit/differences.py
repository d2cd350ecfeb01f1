"""Spark expressions for the fields in which two documents differ."""

from __future__ import annotations

from pyspark.sql import Column, types
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from ..documents import SPARK_TYPE

FIELDS: tuple[str, ...] = tuple(SPARK_TYPE.names)


def comparable(document: str, field: str) -> Column:
    """Returns a document's field as a column that can be compared. An unset field is null, and so is an empty list or map.

    ``document``: the name of the document's column.
    """
    column, kind = F.col(f"{document}.{field}"), SPARK_TYPE[field].dataType
    if isinstance(kind, types.MapType):
        return F.when(F.size(column) > 0, F.to_json(F.array_sort(F.map_entries(column))))
    if isinstance(kind, types.ArrayType):
        return F.when(F.size(column) > 0, F.to_json(column))
    return F.to_json(column) if isinstance(kind, types.StructType) else column.cast("string")


def differing(one: str, other: str, fields: tuple[str, ...] = FIELDS) -> Column:
    """Returns the names of the fields in which two documents differ, as a column; in a document that is null, no field is set.

    ``one``, ``other``: the names of the documents' columns.
    """
    names = [F.when(~comparable(one, field).eqNullSafe(comparable(other, field)), F.lit(field)) for field in fields]
    return F.array_compact(F.array(*names))
