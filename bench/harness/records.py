"""The records of a run, in one table: every call, every watch stream and every message of it.

Times are seconds of the run's clock (``plan.Clock``). Columns that do not apply to a kind of record are null.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

_BATCH = 20_000


class Record(NamedTuple):
    """One row."""

    kind: str
    """Calls: update, delete, read, echo, rest. Watches: watch (a stream as a whole), change, bookmark, status. From the history: head."""
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
    topic: str | None = None
    scope: int | None = None
    mask: Sequence[str] | None = None
    edit: str | None = None
    """What an update does to a document (``traffic.edit_json``)."""
    request_id: str | None = None
    version: str | None = None
    previous: str | None = None
    document: bytes | None = None
    """The serialized ``TopicPolicies``; null: there is no document, or it was not sent."""
    outcome: int | None = None
    repeated: bool | None = None
    at_least: str | None = None
    final: bool | None = None
    """Whether a read was made at the end, after all updates."""
    stream: str | None = None
    """The watch, or the sequence of batches, to which the record belongs."""
    sequence: int | None = None
    """The record's place in its stream."""
    every: bool | None = None
    drained: bool | None = None
    """Whether a watch was open to the end."""
    synced: bool | None = None
    log: str | None = None
    positions: Sequence[str] | None = None
    """The positions of a bookmark, or of the token from which a watch resumed."""
    token: str | None = None
    """The resume token of an event of a watch."""
    published: float | None = None
    """When the change was written, by the log's clock."""


SCHEMA = pa.schema(
    [
        pa.field("kind", pa.string()),
        pa.field("phase", pa.string()),
        pa.field("worker", pa.int32()),
        pa.field("client", pa.string()),
        pa.field("start", pa.float64()),
        pa.field("end", pa.float64()),
        pa.field("code", pa.string()),
        pa.field("reason", pa.string()),
        pa.field("topic", pa.string()),
        pa.field("scope", pa.int32()),
        pa.field("mask", pa.list_(pa.string())),
        pa.field("edit", pa.string()),
        pa.field("request_id", pa.string()),
        pa.field("version", pa.string()),
        pa.field("previous", pa.string()),
        pa.field("document", pa.binary()),
        pa.field("outcome", pa.int32()),
        pa.field("repeated", pa.bool_()),
        pa.field("at_least", pa.string()),
        pa.field("final", pa.bool_()),
        pa.field("stream", pa.string()),
        pa.field("sequence", pa.int64()),
        pa.field("every", pa.bool_()),
        pa.field("drained", pa.bool_()),
        pa.field("synced", pa.bool_()),
        pa.field("log", pa.string()),
        pa.field("positions", pa.list_(pa.string())),
        pa.field("token", pa.string()),
        pa.field("published", pa.float64()),
    ]
)
SPARK_SCHEMA = (
    "kind string, phase string, worker int, client string, start double, `end` double, code string, reason string, topic string, scope int,"
    " mask array<string>, edit string, request_id string, version string, previous string, document binary, outcome int, repeated boolean,"
    " at_least string, final boolean, stream string, sequence bigint, every boolean, drained boolean, synced boolean, log string,"
    " positions array<string>, token string, published double"
)


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
