"""The rows of the data source: one for each event of a change log, as a sidecar's history has it, and one for each gap of the history."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC
from functools import cache
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from topicpolicies.v1.events_pb2 import ActorStanding
from topicpolicies.v1.history_pb2 import HistoryEntry, HistoryGap, HistoryGapReason, HistoryKind, HistoryOutcome
from topicpolicies.v1.policies_pb2 import Scope
from topicpolicies.values import enum_name

from . import documents

_name = cache(enum_name)
_BATCH_ROWS = 2_000
_BATCH_CHARACTERS = 16 << 20
"""A batch ends behind the row with which its documents, as texts, have so many characters: documents can have megabytes."""


class Change(NamedTuple):
    """One row; the fields are the columns. Null: not known, or there is none."""

    namespace: str
    topic: str | None
    """The topic's full name; null if the entry could not be read, and for a gap."""
    scope: str | None
    """LOCAL or GLOBAL."""
    position: str
    """Where the history stands behind the event: string order is the order of the history. For a gap that of what comes next."""
    version: str | None
    """The version of the document after the event."""
    time: int
    """When the event happened, in microseconds since 1970; for a gap, its end."""
    action: str
    """What became of the document: UPDATE, DELETE (there is none any more), or NONE if the event changed nothing, as a repair, a tombstone
    and a change whose precondition failed. UNREADABLE for an entry that can't be read, GAP where the history may miss events."""
    kind: str | None
    """Who wrote the event: BROKER, or the kind of a sidecar's event: UPDATE, DELETE, TOMBSTONE or REPAIR."""
    outcome: str
    """APPLIED, REJECTED, SKIPPED, DUPLICATE, RESTATED or IGNORED; of a gap why events may be missing, such as COMPACTED."""
    actor: str | None
    """Who made the change."""
    standing: str | None
    """What is known of the actor: AUTHENTICATED or UNAUTHENTICATED."""
    principal: str | None
    """Whose credentials were verified: the actor's, or those of a proxy that called for the actor."""
    claimed_actor: str | None
    """The name that an authenticated caller gave itself."""
    reason: str | None
    """Why the change was made."""
    request_id: str | None
    producer: str | None
    """The producer that wrote the event: of a broker's event, all that is known of its author."""
    mask: list[str] | None
    """What the event was to change; of a broker's event, what it was taken to change."""
    changed: list[str] | None
    """What the event changed: the paths in which ``previous`` and ``policies`` differ; null if it changed nothing."""
    previous_version: str | None
    previous: dict[str, Any] | None
    """The document before the event."""
    policies: dict[str, Any] | None
    """The document after the event, without secrets."""
    replicated: bool
    """Whether the event came from another cluster."""
    unexplained: bool
    """Whether no recent document explains a broker's event."""
    ambiguous: bool
    """Whether two recent documents explain a broker's event differently."""
    problem: str | None
    """Why the entry could not be read, or what a gap may miss."""


_TYPES: dict[str, pa.DataType] = {
    "time": pa.timestamp("us", tz="UTC"),
    "mask": pa.list_(pa.string()),
    "changed": pa.list_(pa.string()),
    "previous": documents.ARROW_TYPE,
    "policies": documents.ARROW_TYPE,
    **dict.fromkeys(("replicated", "unexplained", "ambiguous"), pa.bool_()),
}
ARROW_SCHEMA = pa.schema([pa.field(name, _TYPES.get(name, pa.string())) for name in Change._fields])
SPARK_SCHEMA = from_arrow_schema(ARROW_SCHEMA)


def of_entry(namespace: str, position: str, entry: HistoryEntry) -> Change:
    """Returns the row of an event."""
    document, origin, known = entry.document, entry.origin, entry.HasField("document")
    return Change(
        namespace=namespace,
        topic=document.topic if known else None,
        scope=_name(Scope.DESCRIPTOR, document.scope) if known else None,
        position=position,
        version=document.version if known else None,
        time=entry.time.ToMicroseconds(),
        action=_action(entry),
        kind=None if entry.kind == HistoryKind.HISTORY_KIND_UNREADABLE else _name(HistoryKind.DESCRIPTOR, entry.kind),
        outcome=_name(HistoryOutcome.DESCRIPTOR, entry.outcome),
        actor=origin.actor or None,
        standing=_name(ActorStanding.DESCRIPTOR, origin.actor_standing) if origin.actor else None,
        principal=origin.principal or None,
        claimed_actor=origin.claimed_actor or None,
        reason=origin.reason or None,
        request_id=origin.request_id or None,
        producer=origin.producer_name or None,
        mask=list(origin.update_mask.paths) if origin.HasField("update_mask") else None,
        changed=list(entry.changed.paths) if entry.changed.paths else None,
        previous_version=entry.previous.version if entry.HasField("previous") else None,
        previous=documents.value_of(entry.previous.policies) if entry.previous.HasField("policies") else None,
        policies=documents.value_of(document.policies) if document.HasField("policies") else None,
        replicated=entry.replicated,
        unexplained=entry.unexplained,
        ambiguous=entry.ambiguous,
        problem=entry.problem or None,
    )


def _action(entry: HistoryEntry) -> str:
    if entry.kind == HistoryKind.HISTORY_KIND_UNREADABLE:
        return "UNREADABLE"
    if entry.outcome != HistoryOutcome.HISTORY_OUTCOME_APPLIED:
        return "NONE"
    return "UPDATE" if entry.document.HasField("policies") else "DELETE"


def of_gap(namespace: str, position: str, gap: HistoryGap) -> Change:
    """Returns the row of a gap."""
    reason = _name(HistoryGapReason.DESCRIPTOR, gap.reason)
    begin, end = (time.ToDatetime(UTC).isoformat(timespec="milliseconds") for time in (gap.start_time, gap.end_time))
    begin = begin if gap.HasField("start_time") else "the beginning"
    nothing: dict[str, Any] = dict.fromkeys(Change._fields)
    return Change(**nothing)._replace(
        namespace=namespace,
        position=position,
        time=gap.end_time.ToMicroseconds(),
        action="GAP",
        outcome=reason,
        replicated=False,
        unexplained=False,
        ambiguous=False,
        problem=f"events may be missing from {begin} to {end}: {reason.lower().replace('_', ' ')}",
    )


def batches(changes: Iterable[Change]) -> Iterator[pa.RecordBatch]:
    """Converts rows to Arrow, in batches that are limited in rows and in size."""
    waiting: list[Change] = []
    characters = 0
    for change in changes:
        waiting.append(change)
        characters += len(str(change.policies)) + len(str(change.previous))
        if len(waiting) == _BATCH_ROWS or characters >= _BATCH_CHARACTERS:
            yield _batch(waiting)
            waiting, characters = [], 0
    if waiting:
        yield _batch(waiting)


def _batch(changes: list[Change]) -> pa.RecordBatch:
    columns = zip(*changes, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, ARROW_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=ARROW_SCHEMA)
