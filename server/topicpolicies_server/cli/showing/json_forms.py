"""Answers as JSON: Protobuf's own JSON form, with the names of the definition, as if the messages themselves were printed.

Two things differ. A mask is a list of paths, because Protobuf's JSON form of a mask can't carry the keys of maps. And the client's own
report that a watch was interrupted, for which the service has no message, is an object ``interrupted``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, TypeAlias
from urllib.parse import unquote

import typer
from google.protobuf import json_format
from google.protobuf.message import Message

from topicpolicies import (
    Bookmark,
    Changed,
    DeleteResult,
    Document,
    EffectivePolicies,
    Entry,
    Gap,
    HistoryEntry,
    HistoryGap,
    Interrupted,
    Origin,
    Reset,
    ServerInfo,
    Status,
    Synced,
    UpdateResult,
    WatchEvent,
    WatchToken,
)
from topicpolicies.errors import reason_number
from topicpolicies.history import timestamp
from topicpolicies.v1 import policies_pb2, service_pb2

from ..exits import error_json

Json: TypeAlias = dict[str, Any]


def write(document: Json) -> None:
    """Prints one JSON document on a line of its own, and flushes it."""
    typer.echo(dumps(document))


def dumps(document: Json) -> str:
    """Returns one JSON document as one line."""
    return json.dumps(document, ensure_ascii=False)


def of_message(message: Message) -> Json:
    """Returns the JSON form of a message without masks, with the field names of the definition."""
    return json_format.MessageToDict(message, preserving_proto_field_name=True)


def of_document(document: Document) -> Json:
    """Returns the form of ``PolicyDocument``."""
    return of_message(_document(document))


def of_documents(documents: Iterable[Document], token: WatchToken | None = None) -> Json:
    """Returns the form of ``GetPolicyResponse``, or with a token of ``ListPoliciesResponse``. ``documents`` is never left out."""
    told: Json = {"documents": [of_document(document) for document in documents]}
    return told if token is None else told | {"token": of_message(token.message())}


def of_update(result: UpdateResult) -> Json:
    """Returns the form of ``UpdatePolicyResponse``."""
    return of_message(
        service_pb2.UpdatePolicyResponse(
            document=_maybe(result.document),
            version=result.version,
            previous_version=result.previous_version,
            previous=_maybe(result.previous),
            outcome=service_pb2.UpdateOutcome.ValueType(result.outcome),
            request_id=result.request_id,
            replayed=result.replayed,
        )
    )


def of_deletion(result: DeleteResult) -> Json:
    """Returns the form of ``DeletePolicyResponse``."""
    return of_message(
        service_pb2.DeletePolicyResponse(
            document=_maybe(result.document),
            version=result.version,
            previous_version=result.previous_version,
            previous=_maybe(result.previous),
            outcome=service_pb2.DeleteOutcome.ValueType(result.outcome),
            request_id=result.request_id,
            replayed=result.replayed,
        )
    )


def of_effective(found: EffectivePolicies) -> Json:
    """Returns the form of ``GetEffectivePolicyResponse``."""
    sources = (
        service_pb2.FieldSource(path=path, source=service_pb2.PolicySource.ValueType(source)) for path, source in found.sources.items()
    )
    return of_message(
        service_pb2.GetEffectivePolicyResponse(
            topic=found.topic,
            policies=found.policies,
            sources=sources,
            local_version=found.local_version,
            global_version=found.global_version,
            disabled=found.disabled,
        )
    )


def of_server_info(info: ServerInfo) -> Json:
    """Returns the form of ``GetServerInfoResponse``."""
    limits = service_pb2.ServerLimits(
        message_bytes=info.limits.message_bytes,
        changes_per_stream=info.limits.changes_per_stream,
        watch_selectors=info.limits.watch_selectors,
        watches=info.limits.watches,
    )
    limits.update_timeout.FromNanoseconds(round(info.limits.update_timeout_seconds * 1e9))
    return of_message(
        service_pb2.GetServerInfoResponse(
            version=info.version,
            log=service_pb2.LogKind.ValueType(info.log),
            cluster=info.cluster,
            writer_mode=service_pb2.WriterMode.ValueType(info.writer_mode),
            features=[service_pb2.ServerFeature.ValueType(feature) for feature in sorted(info.features)],
            limits=limits,
        )
    )


def of_history_entry(entry: HistoryEntry) -> Json:
    """Returns the form of the ``WatchEvent`` with this entry, without its namespace."""
    told = of_message(
        service_pb2.HistoryEntry(
            document=_maybe(entry.document),
            previous=_maybe(entry.previous),
            kind=service_pb2.HistoryKind.ValueType(entry.kind),
            outcome=service_pb2.HistoryOutcome.ValueType(entry.outcome),
            time=timestamp(entry.time),
            partition=entry.partition,
            position=entry.position,
            stale=entry.stale,
            unexplained=entry.unexplained,
            ambiguous=entry.ambiguous,
            replicated=entry.replicated,
            problem=entry.problem,
        )
    )
    told["origin"] = _origin(entry.origin)
    if entry.changed:
        told["changed"] = list(entry.changed)
    return {"entry": told}


def of_history_gap(gap: HistoryGap) -> Json:
    """Returns the form of the ``WatchEvent`` with this gap, without its namespace."""
    message = service_pb2.HistoryGap(end_time=timestamp(gap.end), reason=service_pb2.HistoryGapReason.ValueType(gap.reason))
    if gap.start is not None:
        message.start_time.CopyFrom(timestamp(gap.start))
    return {"gap": of_message(message)}


def of_event(event: WatchEvent) -> Json:
    """Returns the form of ``WatchEvent``. A change also has ``snapshot``: whether it is a document of the snapshot, and no change."""
    if isinstance(event, Interrupted):
        retry = {"attempt": event.attempt, "retry_in_seconds": round(event.retry_in_seconds, 3)}
        error = error_json(event.error)  # in gRPC's messages addresses are quoted as in URLs
        return {"interrupted": {"error": error | {"message": unquote(error["message"])}, **retry}}
    return {"namespace": event.namespace, **_content(event)}


def _content(event: Changed | Entry | Gap | Synced | Bookmark | Status | Reset) -> Json:
    match event:
        case Changed():
            return {"change": _change(event)}
        case Entry():
            return of_history_entry(event.entry)
        case Gap():
            return of_history_gap(event.gap)
        case Synced() | Bookmark():
            kind = service_pb2.BOOKMARK_KIND_SYNCED if isinstance(event, Synced) else service_pb2.BOOKMARK_KIND_TIMER
            confirmed = timestamp(event.confirmed_time)
            return {"bookmark": of_message(service_pb2.Bookmark(kind=kind, token=event.token.message(), confirmed_time=confirmed))}
        case Status():
            state = service_pb2.NamespaceState.ValueType(event.state)
            status = service_pb2.NamespaceStatus(state=state, reason=reason_number(event.reason), message=event.message)
            return {"status": of_message(status)}
        case Reset():
            return {"reset": of_message(service_pb2.WatchReset(reason=reason_number(event.reason), message=event.message))}


def _change(event: Changed) -> Json:
    told = of_message(
        service_pb2.PolicyChange(
            document=_document(event.document),
            previous_version=event.previous_version,
            previous=_maybe(event.previous),
            partition=event.partition,
            position=event.position,
        )
    )
    if event.origin is not None:
        told["origin"] = _origin(event.origin)
    return told | {"snapshot": event.snapshot}


def _document(document: Document) -> policies_pb2.PolicyDocument:
    return policies_pb2.PolicyDocument(
        topic=document.topic,
        scope=document.scope.number,
        policies=document.policies,
        version=document.version,
        disabled=document.disabled,
    )


def _maybe(document: Document | None) -> policies_pb2.PolicyDocument | None:
    return _document(document) if document is not None else None


def _origin(origin: Origin) -> Json:
    message = service_pb2.ChangeOrigin(
        actor=origin.actor,
        actor_standing=service_pb2.ActorStanding.ValueType(origin.actor_standing),
        reason=origin.reason,
        request_id=origin.request_id,
        producer_name=origin.producer_name,
        event=origin.event,
        principal=origin.principal,
        claimed_actor=origin.claimed_actor,
        trace_parent=origin.trace_parent,
    )
    if origin.publish_time is not None:
        message.publish_time.CopyFrom(timestamp(origin.publish_time))
    told = of_message(message)
    return told if origin.update_mask is None else told | {"update_mask": list(origin.update_mask)}
