"""The records of a run, in one table: every call, every watch stream and every message of it.

Times are seconds since 1970. Columns that do not apply to a kind of record have their defaults.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any, NamedTuple, get_args, get_type_hints

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from tests.validators.documents import Edit

CALLS = ("update", "delete", "read")
"""The kinds of records that are calls."""
_BATCH = 20_000


class Record(NamedTuple):
    """One row."""

    kind: str
    """One of ``CALLS``, or of a watch: watch (a stream as a whole), change, bookmark, status."""
    phase: str
    worker: int
    client: str
    start: float
    """When the call was sent, the stream opened, or the message arrived."""
    end: float | None = None
    """When the answer came or the stream ended; null if no answer came."""
    code: str = "OK"
    """The name of gRPC's status; OK for a watch that its client ended."""
    reason: str = ""
    """The reason in the ErrorInfo."""
    topic: str = ""
    scope: int = 1
    edit: str = ""
    """What an update does to a document (``edit_text``)."""
    request_id: str = ""
    version: str = ""
    previous: str = ""
    document: bytes | None = None
    """The serialized ``TopicPolicies``; null: there is no document, or it was not sent."""
    outcome: int = 0
    repeated: bool = False
    at_least: str = ""
    final: bool = False
    """Whether a read was made at the end, after all updates."""
    stream: str = ""
    """The watch to which the record belongs."""
    sequence: int = 0
    """The record's place in its stream."""
    every: bool = False
    drained: bool = False
    """Whether a watch was open to the end."""
    synced: bool = False
    log: str = ""
    positions: Sequence[str] | None = None
    """The positions of a bookmark, or of the token from which a watch resumed; null: it began with a snapshot."""
    token: str = ""
    """The resume token of an event of a watch."""
    published: float | None = None
    """When the change was written, by the log's clock."""


_ARROW = {
    str: pa.string(),
    int: pa.int64(),
    float: pa.float64(),
    bool: pa.bool_(),
    bytes: pa.binary(),
    Sequence[str]: pa.list_(pa.string()),
}


def schema_of(row: type) -> pa.Schema:
    """Returns the Arrow schema of a ``NamedTuple``, from the types of its fields."""
    return pa.schema([pa.field(name, _arrow(hint)) for name, hint in get_type_hints(row).items()])


def _arrow(hint: Any) -> pa.DataType:
    return next(_ARROW[each] for each in (hint, *get_args(hint)) if each in _ARROW)  # a field may be None, too


SCHEMA = schema_of(Record)
SPARK_SCHEMA = from_arrow_schema(SCHEMA)


def batches(records: list[Record]) -> Iterator[pa.RecordBatch]:
    """Returns records as Arrow batches."""
    for start in range(0, len(records), _BATCH):
        columns = zip(*records[start : start + _BATCH], strict=True)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def rows(table: pa.Table) -> Iterator[Record]:
    """Yields the rows of a table that has these columns."""
    columns = [table.column(name).to_pylist() for name in SCHEMA.names]
    return map(Record._make, zip(*columns, strict=True))


def edit_text(edit: Edit) -> str:
    """Returns the effect of a change as it is recorded: the parts that are not empty, as a literal of Python."""
    return repr({each.name: value for each in fields(edit) if (value := getattr(edit, each.name))})


def edit_of(text: str) -> Edit:
    """Returns the effect of a recorded change."""
    return Edit(**ast.literal_eval(text))
