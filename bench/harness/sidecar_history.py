"""Restores, from the sidecar's own history, the changes that an auditor missed.

A watch in mode EVERY continues from the history if it is behind. If it is reset all the same, it receives a snapshot, and only the history
knows the changes between, if it has every event. The streams are judged as they were; this only completes the list of changes with which
everything else is compared.
"""

from __future__ import annotations

import grpc

from topicpolicies.v1 import history_pb2
from topicpolicies.v1.history_pb2_grpc import PolicyHistoryServiceStub

from .calls import WorkerContext, policies_of
from .records import Record

_PAGE = 1_000
_CHANGING = frozenset({history_pb2.HISTORY_KIND_UPDATE, history_pb2.HISTORY_KIND_DELETE, history_pb2.HISTORY_KIND_BROKER})


async def record_history(context: WorkerContext, channel: grpc.aio.Channel, name: str) -> None:
    """Records every change of the run's topics as the history tells it.

    Args:
        context: takes the records, of the kind ``head``.
        channel: to the sidecar.
        name: the client to which the records are attributed.

    Raises:
        RuntimeError: the history lacks events, too.
        grpc.aio.AioRpcError: the sidecar keeps no history, or does not answer.
    """
    plan = context.plan
    stub = PolicyHistoryServiceStub(channel)
    request = history_pb2.ListHistoryRequest(namespace=plan.namespace, oldest_first=True, page_size=_PAGE)
    while True:
        page = await stub.ListHistory(request, timeout=60)
        if any(gap.reason == history_pb2.HISTORY_GAP_REASON_OVERRUN for gap in page.gaps):
            raise RuntimeError("Neither the auditor nor the history could keep up: nothing can be proven of this run.")
        mine = [entry for entry in page.entries if _changed(entry) and entry.document.topic.startswith(plan.mine)]
        context.records += [_head(context, name, entry) for entry in mine]
        if not page.next_page_token:
            return
        request.page_token = page.next_page_token


def _changed(entry: history_pb2.HistoryEntry) -> bool:
    return (
        entry.kind in _CHANGING and entry.outcome == history_pb2.HISTORY_OUTCOME_APPLIED and entry.document.version > entry.previous.version
    )


def _head(context: WorkerContext, name: str, entry: history_pb2.HistoryEntry) -> Record:
    document, published = entry.document, entry.origin.publish_time
    return Record(
        "head", "", context.worker, name, context.now(), topic=document.topic, scope=int(document.scope),
        request_id=entry.origin.request_id, version=document.version, previous=entry.previous.version, document=policies_of(document),
        published=published.seconds + published.nanos / 1e9,
    )  # fmt: skip
