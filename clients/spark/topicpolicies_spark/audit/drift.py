"""How two states differ: those of two times, or declared documents and the live ones."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, types
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from ..documents import SPARK_TYPE
from .state import KEY


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
    for field in SPARK_TYPE.names:
        value, live = _comparable("one", field), _comparable("other", field)
        differs = ~value.eqNullSafe(live)
        fields.append(F.when(differs & value.isNotNull() if declared else differs, F.lit(field)))
    found = joined.withColumn("fields", F.array_compact(F.array(*fields)))
    if declared:
        how, differing = F.when(after.isNull(), "missing").otherwise("differs"), F.size("fields") > 0
    else:
        how = F.when(before.isNull(), "appeared").when(after.isNull(), "vanished").otherwise("changed")
        differing = (F.size("fields") > 0) | before.isNull() | after.isNull()
    return found.filter(differing).select(*KEY, how.alias("how"), "fields", "time", "who").orderBy(*KEY)


def _comparable(document: str, field: str) -> Column:
    """Returns a document's field as a column that can be compared. An unset field is null, and so is an empty list or map."""
    column, kind = F.col(f"{document}.{field}"), SPARK_TYPE[field].dataType
    if isinstance(kind, types.MapType):
        return F.when(F.size(column) > 0, F.to_json(F.array_sort(F.map_entries(column))))
    if isinstance(kind, types.ArrayType):
        return F.when(F.size(column) > 0, F.to_json(column))
    return F.to_json(column) if isinstance(kind, types.StructType) else column.cast("string")
