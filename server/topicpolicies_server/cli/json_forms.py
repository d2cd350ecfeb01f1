"""Answers as JSON: Protobuf's own JSON form, with the names of the definition, as if the messages themselves were printed."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, TypeAlias

import typer
from google.protobuf import json_format
from google.protobuf.message import Message

from topicpolicies import (
    Bookmark,
    Changed,
    Deleted,
    Deletion,
    Document,
    HistoryEntry,
    HistoryGap,
    Interrupted,
    NamespaceLoading,
    NamespaceUnavailable,
    Origin,
    Restarted,
    Synced,
    UpdateResult,
    WatchEvent,
)
from topicpolicies.v1 import service_pb2

from .exits import error_json

Json: TypeAlias = dict[str, Any]


def write(document: Json) -> None:
    """Prints one document on a line of its own, at once."""
    typer.echo(dumps(document))


def dumps(document: Json) -> str:
    """One document as one line."""
    return json.dumps(document, ensure_ascii=False)


def of_message(message: Message) -> Json:
    """A message, by the definition's own field names."""
    return json_format.MessageToDict(message, preserving_proto_field_name=True)


def of_document(document: Document) -> Json:
    """As ``GetPolicyResponse``; ``exists`` is always there."""
    message = service_pb2.GetPolicyResponse(
        topic=document.topic, scope=document.scope.number, exists=document.exists, policies=document.policies, version=document.version
    )
    return of_message(message) | {"exists": document.exists}


def of_documents(documents: Iterable[Document]) -> Json:
    """As ``ListPoliciesResponse`` of a single page."""
    return {"entries": [of_document(document) for document in documents]}


def of_history_entry(entry: HistoryEntry) -> Json:
    """As ``HistoryEntry``, with the masks as lists of paths."""
    told = of_message(entry.message)
    for name, paths in (("update_mask", entry.update_mask), ("changed", entry.changed)):
        told.pop(name, None)
        if paths:
            told[name] = list(paths)
    return {"entry": told}


def of_history_gap(gap: HistoryGap) -> Json:
    """As ``HistoryGap``."""
    told = {"end_time": gap.end.isoformat(), "reason": gap.reason.name}
    return {"gap": told if gap.start is None else {"start_time": gap.start.isoformat()} | told}


def of_update(result: UpdateResult) -> Json:
    """As ``UpdatePolicyResponse``."""
    return of_message(
        service_pb2.UpdatePolicyResponse(
            topic=result.topic,
            scope=result.scope.number,
            policies=result.policies,
            version=result.version,
            previous_version=result.previous_version,
            outcome=service_pb2.UpdateOutcome.ValueType(result.outcome.value),
            request_id=result.request_id,
            repeated=result.repeated,
        )
    )


def of_deletion(deletion: Deletion) -> Json:
    """As ``DeletePolicyResponse``, with errors as commands tell them."""
    message = service_pb2.DeletePolicyResponse(topic=deletion.topic, request_id=deletion.request_id)
    for result in deletion.scopes.values():
        message.results.add(
            scope=result.scope.number,
            outcome=service_pb2.DeleteOutcome.ValueType(result.outcome.value),
            version=result.version,
            previous_version=result.previous_version,
            repeated=result.repeated,
        )
    told = of_message(message)
    for entry, result in zip(told["results"], deletion.scopes.values(), strict=True):
        if result.error is not None:
            entry["error"] = error_json(result.error)
    return told


def of_event(event: WatchEvent) -> Json:
    """As ``WatchPoliciesResponse``; what the client itself has to say is ``restarted`` and ``interrupted``.

    A mask is a list of paths: Protobuf's JSON form of one can't carry the keys of maps.
    """
    response = service_pb2.WatchPoliciesResponse()
    match event:
        case Changed() | Deleted():
            told = of_message(_change(event)) | {"exists": isinstance(event, Changed), "snapshot": event.snapshot}
            if event.origin.update_mask is not None:
                told.setdefault("origin", {})["update_mask"] = list(event.origin.update_mask)
            return {"change": told}
        case Synced() | Bookmark():
            kind = service_pb2.BOOKMARK_KIND_SYNCED if isinstance(event, Synced) else service_pb2.BOOKMARK_KIND_TIMER
            response.bookmark.CopyFrom(service_pb2.Bookmark(namespace=event.namespace, kind=kind, token=event.token.message()))
        case NamespaceLoading() | NamespaceUnavailable():
            failed = isinstance(event, NamespaceUnavailable)
            state = service_pb2.NAMESPACE_STATE_FAILED if failed else service_pb2.NAMESPACE_STATE_LOADING
            reason = event.reason if isinstance(event, NamespaceUnavailable) else ""
            status = service_pb2.NamespaceStatus(namespace=event.namespace, state=state, message=event.message, reason=reason)
            response.status.CopyFrom(status)
        case Restarted():
            return {"restarted": {"namespace": event.namespace, "reason": event.reason}}
        case Interrupted():
            retry = {"attempt": event.attempt, "retry_in_seconds": round(event.retry_in_seconds, 3)}
            return {"interrupted": {"error": error_json(event.error), **retry}}
    return of_message(response)


def _change(event: Changed | Deleted) -> service_pb2.PolicyChange:
    return service_pb2.PolicyChange(
        namespace=event.namespace,
        topic=event.topic,
        scope=event.scope.number,
        exists=isinstance(event, Changed),
        policies=event.policies if isinstance(event, Changed) else None,
        version=event.version,
        previous_version=event.previous_version,
        partition=event.partition,
        position=event.position,
        origin=_origin(event.origin),
    )


def _origin(origin: Origin) -> service_pb2.ChangeOrigin:
    message = service_pb2.ChangeOrigin(
        actor=origin.actor, request_id=origin.request_id, producer_name=origin.producer_name, event=origin.event
    )
    if origin.publish_time is not None:
        message.publish_time.FromDatetime(origin.publish_time)
    return message
