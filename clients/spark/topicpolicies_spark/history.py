"""The history that a sidecar keeps (``ListHistory``), as rows: what was read of a namespace before its log was compacted.

Every event is there that the sidecar has followed, with the document after it. A row with the action ``GAP`` says from when to when events
may be missing, and why.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from google.protobuf.timestamp_pb2 import Timestamp

from topicpolicies.v1 import events_pb2, service_pb2
from topicpolicies_server.logs.pulsar.ids import message_id_of

from . import documents
from .options import Options
from .rows import Change
from .sidecars import Sidecar

_PAGE = 1_000
_APPLIED = (service_pb2.HISTORY_OUTCOME_APPLIED, service_pb2.HISTORY_OUTCOME_RESTATED)


def read_history(options: Options, namespace: str) -> Iterator[Change]:
    """A namespace's history, oldest first; its gaps come last.

    Raises:
        grpc.RpcError: the sidecar can't be reached, keeps no history, or refuses.
    """
    with Sidecar(options) as sidecar:
        request = sidecar.question(namespace, service_pb2.HISTORY_ORDER_OLDEST_FIRST)
        request.page_size = _PAGE
        gaps: dict[bytes, Change] = {}
        while True:
            answer = sidecar.ask(request)
            for entry in answer.entries:
                if asked_for(options, entry):
                    yield change_of(namespace, entry)
            for gap in answer.gaps:
                gaps.setdefault(gap.SerializeToString(), gap_of(namespace, gap))
            if not answer.next_page_token:
                break
            request.page_token = answer.next_page_token
        yield from gaps.values()


def asked_for(options: Options, entry: service_pb2.HistoryEntry) -> bool:
    """Whether the options ask for an entry."""
    return options.published(entry.time.ToMicroseconds()) and (not options.topics or entry.topic in options.topics)


def change_of(namespace: str, entry: service_pb2.HistoryEntry) -> Change:
    """The row of an entry."""
    kind = service_pb2.HistoryKind.Name(entry.kind).removeprefix("HISTORY_KIND_")
    try:
        place = message_id_of(entry.position)
    except ValueError:
        place = None  # the embedded log's positions are row numbers
    return Change(
        namespace=namespace,
        topic=entry.topic or None,
        scope=events_pb2.Scope.Name(entry.scope).removeprefix("SCOPE_") if entry.topic else None,
        partition=entry.partition,
        position=entry.position,
        ledger=place.ledger if place is not None else None,
        entry=place.entry if place is not None else None,
        published=entry.time.ToMicroseconds(),
        action=_action(kind, entry),
        origin=kind.lower(),
        producer=entry.producer_name,
        actor=entry.actor or None,
        request_id=entry.request_id or None,
        event_id=None,
        mask=list(entry.update_mask.paths) if entry.HasField("update_mask") else None,
        base=None,
        policies=documents.value_of(entry.after) if entry.HasField("after") else None,
        problem=entry.problem or None,
    )


def _action(kind: str, entry: service_pb2.HistoryEntry) -> str:
    """What the event did, in the words of the log: one that did not count did nothing."""
    if kind in ("UNREADABLE", "TOMBSTONE"):
        return kind
    if entry.outcome not in _APPLIED:
        return "NONE"
    return "UPDATE" if entry.HasField("after") else "DELETE"


def gap_of(namespace: str, gap: service_pb2.HistoryGap) -> Change:
    """The row of a gap."""
    reason = service_pb2.HistoryGapReason.Name(gap.reason).removeprefix("HISTORY_GAP_REASON_").lower().replace("_", " ")
    begin = _told(gap.start_time) if gap.HasField("start_time") else "the beginning"
    return Change(
        namespace=namespace, topic=None, scope=None, partition=0, position="", ledger=None, entry=None,
        published=gap.end_time.ToMicroseconds(), action="GAP", origin="history", producer="", actor=None, request_id=None, event_id=None,
        mask=None, base=None, policies=None, problem=f"events may be missing from {begin} to {_told(gap.end_time)}: {reason}",
    )  # fmt: skip


def _told(time: Timestamp) -> str:
    return datetime.fromtimestamp(time.ToMilliseconds() / 1000, UTC).isoformat(timespec="milliseconds")
