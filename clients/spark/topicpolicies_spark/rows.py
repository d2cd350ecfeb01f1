"""The rows of the data source: one for each event of a change log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import types

from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies_server.core.names import Scope
from topicpolicies_server.core.policies import secrets
from topicpolicies_server.core.policies.events import Event
from topicpolicies_server.logs.pulsar.ids import MessageId, position_of

from . import documents

_BATCH_ROWS = 2_000
_BATCH_CHARACTERS = 16 << 20
"""A batch ends behind the row with which its documents, as texts, have so many characters: documents can have megabytes."""
_LATEST_MS = 253_402_300_799_999
"""The end of the year 9999, in milliseconds since 1970: no database and no language has later times in common."""


class Change(NamedTuple):
    """One row; the fields are the columns."""

    namespace: str
    topic: str | None
    """The topic's full name; null if the entry could not be read, and for a gap."""
    scope: str | None
    """LOCAL or GLOBAL."""
    partition: int
    position: str
    """The event's position in the log, or in the history: for one key, string order is log order. For a gap that of what comes next."""
    version: str | None
    """The version of the document after the event; null for a gap and for an entry that can't be read."""
    ledger: int | None
    entry: int | None
    """Null, like ``ledger``, in a history."""
    published: int
    """Microseconds since 1970, by the log's clock; a time after the year 9999 is the last one of that year, and ``problem`` tells it."""
    action: str
    """INSERT, UPDATE, DELETE, TOMBSTONE or NONE; UNREADABLE for an entry that can't be read; GAP where a history may miss events."""
    origin: str
    """``broker``, or the kind of a sidecar's event: ``update``, ``delete``, ``tombstone`` or ``repair``; ``history`` for a gap."""
    producer: str
    actor: str | None
    """Who made the change; null: not named."""
    request_id: str | None
    event_id: str | None
    mask: list[str] | None
    """The mask of a sidecar's event; null for a broker's event in the log. In a history a broker's has what it was taken to change."""
    base: str | None
    """The event that a sidecar's event was computed from: its version, or its id if it was in flight. Null in a history."""
    policies: dict[str, Any] | None
    """The whole document as its writer wrote it, in a history the document after the event; without secrets. Null: there is none."""
    problem: str | None
    """What is wrong with the entry, or what a gap may miss; null: nothing."""


SPARK_SCHEMA = types.StructType(
    [
        types.StructField("namespace", types.StringType()),
        types.StructField("topic", types.StringType()),
        types.StructField("scope", types.StringType()),
        types.StructField("partition", types.IntegerType()),
        types.StructField("position", types.StringType()),
        types.StructField("version", types.StringType()),
        types.StructField("ledger", types.LongType()),
        types.StructField("entry", types.LongType()),
        types.StructField("published", types.TimestampType()),
        types.StructField("action", types.StringType()),
        types.StructField("origin", types.StringType()),
        types.StructField("producer", types.StringType()),
        types.StructField("actor", types.StringType()),
        types.StructField("request_id", types.StringType()),
        types.StructField("event_id", types.StringType()),
        types.StructField("mask", types.ArrayType(types.StringType())),
        types.StructField("base", types.StringType()),
        types.StructField("policies", documents.SPARK_TYPE),
        types.StructField("problem", types.StringType()),
    ]
)
_ARROW = {
    "partition": pa.int32(),
    "ledger": pa.int64(),
    "entry": pa.int64(),
    "published": pa.timestamp("us", tz="UTC"),
    "mask": pa.list_(pa.string()),
    "policies": documents.ARROW_TYPE,
}
ARROW_SCHEMA = pa.schema([pa.field(name, _ARROW.get(name, pa.string())) for name in Change._fields])


def change_of(
    namespace: str, partition: int, place: MessageId, published_ms: int, producer: str, event: Event | None, problem: str
) -> Change:
    """Returns the row of an entry of the log. ``event``: None if the entry could not be read; ``problem`` then says why."""
    stamp = event.stamp if event is not None else None
    document = event.document if event is not None else None
    if published_ms > _LATEST_MS:  # producers choose the time themselves, among 64 bits
        problem = "; ".join(filter(None, (problem, f"its publish time, {published_ms} ms since 1970, is after the year 9999")))
        published_ms = _LATEST_MS
    action = "UNREADABLE"
    if event is not None:
        action = event.action.name if event.document is not None or event.action.name != "DELETE" else "TOMBSTONE"
    return Change(
        namespace=namespace,
        topic=event.key.topic if event is not None else None,
        scope=Scope(event.key.scope).name if event is not None else None,
        partition=partition,
        position=position_of(place),
        version=position_of(place) if event is not None else None,
        ledger=place.ledger,
        entry=place.entry,
        published=published_ms * 1_000,
        action=action,
        origin=stamp.kind.value if stamp is not None else "broker",
        producer=producer,
        actor=stamp.actor or None if stamp is not None else None,
        request_id=stamp.request_id or None if stamp is not None else None,
        event_id=stamp.event_id if stamp is not None else None,
        mask=list(stamp.mask) if stamp is not None else None,
        base=stamp.base or None if stamp is not None else None,
        policies=documents.value_of(TopicPolicies.FromString(secrets.wire(document))) if document is not None else None,
        problem=problem or None,
    )


def batches(changes: Iterable[Change]) -> Iterator[pa.RecordBatch]:
    """Converts rows to Arrow, in batches that are limited in rows and in size."""
    waiting: list[Change] = []
    characters = 0
    for change in changes:
        waiting.append(change)
        characters += len(str(change.policies))
        if len(waiting) == _BATCH_ROWS or characters >= _BATCH_CHARACTERS:
            yield _batch(waiting)
            waiting, characters = [], 0
    if waiting:
        yield _batch(waiting)


def _batch(changes: list[Change]) -> pa.RecordBatch:
    columns = zip(*changes, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, ARROW_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=ARROW_SCHEMA)
