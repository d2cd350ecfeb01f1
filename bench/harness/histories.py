"""Converts records to the histories that ``tests.validators`` judge."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

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


class _Documents:
    """Parses each distinct document once, however often it was sent."""

    def __init__(self) -> None:
        self._known: dict[bytes, Document] = {}

    def __call__(self, document: bytes | None) -> Document | None:
        if document is None:
            return None
        known = self._known.get(document)
        if known is None:
            known = self._known[document] = flat(TopicPolicies.FromString(document))
        return known


def history_of(records: Iterable[Record], skew: float = 0.0) -> History:
    """Returns the history of some records; of a shard of the policy keys if the records are those of a shard.

    Args:
        records: calls, and the streams and messages of watches.
        skew: how many seconds the clocks of the workers' machines may be apart: two events that are closer than that count as
            simultaneous.
    """
    history, documents = History(), _Documents()
    streams: dict[str, Watch] = {}
    messages: defaultdict[str, list[tuple[int, Message]]] = defaultdict(list)
    heads: dict[tuple[Key, str], Head] = {}
    for record in sorted(records, key=lambda each: each.start):
        if record.kind == "change":
            key = _key(record)
            messages[record.stream or ""].append((record.sequence or 0, _change(record, key, documents)))
            if record.client == AUDITOR:
                heads.setdefault((key, record.version or ""), _head(record, key, documents))
        elif record.kind == "bookmark":
            mark = Bookmark(record.start, bool(record.synced), record.log or "", tuple(record.positions or ()))
            messages[record.stream or ""].append((record.sequence or 0, mark))
        elif record.kind == "status":
            messages[record.stream or ""].append((record.sequence or 0, Status(record.start, record.code == "FAILED")))
        elif record.kind == "watch":
            streams[record.stream or ""] = _watch(record)
        elif record.kind == "read":
            if record.end is not None:
                history.reads.append(_read(record, documents, skew))
        elif record.kind in ("update", "delete"):
            history.updates.append(_update(record, documents, skew))
    for stream, watch in streams.items():
        watch.messages.extend(message for _, message in sorted(messages[stream], key=lambda each: each[0]))
        history.watches.append(watch)
    history.partitions = dict.fromkeys([head.key for head in heads.values()] + [update.key for update in history.updates], 0)
    history.heads = sorted(heads.values(), key=lambda head: (head.key, head.version))
    return history


def _key(record: Record) -> Key:
    return Key(record.topic or "", record.scope or 1)


def _change(record: Record, key: Key, documents: _Documents) -> Change:
    return Change(record.start, key, record.version or "", record.previous or "", documents(record.document), record.version or "")


def _head(record: Record, key: Key, documents: _Documents) -> Head:
    at = record.published if record.published is not None else record.start
    return Head(key, record.version or "", record.previous or "", documents(record.document), at, record.request_id or "")


def _watch(record: Record) -> Watch:
    token = None
    if record.positions is not None:
        token = Bookmark(record.start, False, record.log or "", tuple(record.positions))
    return Watch(
        client=record.client,
        sidecar=_SIDECAR,
        opened=record.start,
        every=bool(record.every),
        topics=None,
        scopes=frozenset((1, 2)),
        token=token,
        ended=record.end if record.end is not None else NEVER,
        failure=None if record.code == "OK" else Failure(record.code, record.reason),
        drained=bool(record.drained),
    )


def _read(record: Record, documents: _Documents, skew: float) -> Read:
    return Read(
        client=record.client,
        sidecar=_SIDECAR,
        invoked=record.start,
        answered=(record.end or 0.0) + skew,
        key=_key(record),
        at_least=record.at_least or "",
        version=record.version or "",
        document=documents(record.document),
        failure=None if record.code == "OK" else Failure(record.code, record.reason),
        final=bool(record.final),
    )


def _update(record: Record, documents: _Documents, skew: float) -> Update:
    answer: Answer | Failure | None = None
    if record.end is not None and record.code == "OK":
        document = documents(record.document)
        version = record.version or (ABSENT if not record.repeated else "")
        answer = Answer(Outcome(record.outcome), version, record.previous or "", document, bool(record.repeated))
    elif record.end is not None:
        answer = Failure(record.code, record.reason)
    return Update(
        client=record.client,
        sidecar=_SIDECAR,
        invoked=record.start,
        answered=NEVER if record.end is None else record.end + skew,
        key=_key(record),
        request_id=record.request_id or "",
        edit=edit_of(record.edit or "{}"),
        batch=record.stream or "",
        sequence=record.sequence or 0,
        answer=answer,
    )
