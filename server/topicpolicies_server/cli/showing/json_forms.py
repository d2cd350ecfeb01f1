"""Answers as JSON: the messages of the service in Protobuf's own JSON form, with the names of the definition.

One thing differs: a mask is a list of paths, because Protobuf's JSON form of a mask can't carry the keys of maps.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import typer
from google.protobuf import json_format
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.message import Message

from topicpolicies.v1.policies_pb2 import PolicyDocument, TopicPolicies

Json: TypeAlias = dict[str, Any]
_WITHOUT_MASKS = TopicPolicies.DESCRIPTOR


def write(document: Json) -> None:
    """Prints one JSON document on a line of its own, and flushes it."""
    typer.echo(dumps(document))


def dumps(document: Json) -> str:
    """Returns one JSON document as one line."""
    return json.dumps(document, ensure_ascii=False)


def of_message(message: Message) -> Json:
    """Returns the JSON form of a message."""
    masks = list(_masks(message, ()))
    if masks:
        copy = type(message)()
        copy.CopyFrom(message)
        message = copy
        for mask in masks:
            _holder(message, mask[0]).ClearField(mask[0][-1])
    told = json_format.MessageToDict(message, preserving_proto_field_name=True)
    for path, paths in masks:
        at = told
        for name in path[:-1]:
            at = at[name]
        at[path[-1]] = paths
    return told


def of_documents(documents: Iterable[PolicyDocument]) -> Json:
    """Returns an object with the documents, which are never left out."""
    return {"documents": [of_message(document) for document in documents]}


def _masks(message: Message, above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """Yields the path of each mask in a message, and its content."""
    for field, value in message.ListFields():
        if isinstance(value, FieldMask):
            yield (*above, field.name), list(value.paths)
        elif field.message_type not in (None, _WITHOUT_MASKS) and not field.is_repeated:
            yield from _masks(value, (*above, field.name))


def _holder(message: Message, path: tuple[str, ...]) -> Any:
    holder: Any = message
    for name in path[:-1]:
        holder = getattr(holder, name)
    return holder
