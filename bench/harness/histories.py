"""Converts records to the histories that ``tests.validators`` judge."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from tests.simulation.traffic import flat
from tests.validators.documents import Document
from tests.validators.records import (
    ABSENT,
    NEVER,
    Answer,
    Bookmark,
    Change,
    Failure,
    Head,
    History,
    Key,
    Message,
    Outcome,
    Read,
    Status,
    Update,
    Watch,
)
from topicpolicies.v1.policies_pb2 import TopicPolicies

from .records import Record, edit_of
from .watching import AUDITOR

_SIDECAR = "sidecar"


def history_of(records: Iterable[Record], skew: float = 0.0) -> History:
    """Returns the history of some records; of a shard of the policy keys if the records are those of a shard.

    Args:
        records: calls, and the streams and messages of watches.
        skew: how many seconds the clocks of the workers' machines may be apart: two events that are closer than that count as
            simultaneous.
    """
    records = sorted(records, key=lambda each: each.start)
    heads: dict[tuple[Key, str], Head] = {}
    for each in records:
        if each.kind == "change" and each.client == AUDITOR:
            heads.setdefault((_key(each), each.version), _head(each))
    updates = [_update(each, skew) for each in records if each.kind in ("update", "delete")]
    watches = {each.stream: _watch(each) for each in records if each.kind == "watch"}
    for each in sorted(records, key=lambda each: each.sequence):
        message = _message(each)
        if message is not None:
            watches[each.stream].messages.append(message)
    return History(
        partitions=dict.fromkeys([head.key for head in heads.values()] + [update.key for update in updates], 0),
        updates=updates,
        reads=[_read(each, skew) for each in records if each.kind == "read" and each.end is not None],
        watches=list(watches.values()),
        heads=sorted(heads.values(), key=lambda head: (head.key, head.version)),
    )


@lru_cache(maxsize=1 << 16)
def _parsed(document: bytes) -> Document:
    return flat(TopicPolicies.FromString(document))


def _document(record: Record) -> Document | None:
    return None if record.document is None else _parsed(record.document)


def _key(record: Record) -> Key:
    return Key(record.topic, record.scope)


def _failure(record: Record) -> Failure | None:
    return None if record.code == "OK" else Failure(record.code, record.reason)


def _head(record: Record) -> Head:
    at = record.start if record.published is None else record.published
    return Head(_key(record), record.version, record.previous, _document(record), at, record.request_id)


def _message(record: Record) -> Message | None:
    """Returns a message of a watch; None: the record is of something else."""
    if record.kind == "change":
        return Change(record.start, _key(record), record.version, record.previous, _document(record), record.version)
    if record.kind == "bookmark":
        return _bookmark(record)
    return Status(record.start, record.code == "FAILED") if record.kind == "status" else None


def _bookmark(record: Record) -> Bookmark:
    return Bookmark(record.start, record.synced, record.log, tuple(record.positions or ()))


def _watch(record: Record) -> Watch:
    return Watch(
        client=record.client,
        sidecar=_SIDECAR,
        opened=record.start,
        every=record.every,
        topics=None,
        scopes=frozenset((1, 2)),
        token=None if record.positions is None else _bookmark(record),
        ended=NEVER if record.end is None else record.end,
        failure=_failure(record),
        drained=record.drained,
    )


def _call(record: Record, skew: float) -> dict[str, Any]:
    """Returns what is recorded of every call."""
    answered = NEVER if record.end is None else record.end + skew
    return {"client": record.client, "sidecar": _SIDECAR, "invoked": record.start, "answered": answered, "key": _key(record)}


def _read(record: Record, skew: float) -> Read:
    return Read(
        **_call(record, skew),
        at_least=record.at_least,
        version=record.version,
        document=_document(record),
        failure=_failure(record),
        final=record.final,
    )


def _update(record: Record, skew: float) -> Update:
    answer: Answer | Failure | None = None
    if record.end is not None:
        version = record.version or ("" if record.repeated else ABSENT)
        answer = _failure(record) or Answer(Outcome(record.outcome), version, record.previous, _document(record), record.repeated)
    return Update(
        **_call(record, skew),
        request_id=record.request_id,
        edit=edit_of(record.edit),
        answer=answer,
    )
