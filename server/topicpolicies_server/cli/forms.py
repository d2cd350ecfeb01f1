"""Answers as JSON and YAML: the messages of the service in Protobuf's own JSON form, with the names of the definition.

One thing differs from Protobuf's form: a mask is a list of paths, because Protobuf's JSON form of a mask can't carry the keys of maps.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

from google.protobuf import json_format
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.message import Message

from topicpolicies.v1.policies_pb2 import SCOPE_GLOBAL, PolicyDocument, TopicPolicies

from ..declared.values import plain

Json: TypeAlias = dict[str, Any]
_ENDLESS = 1 << 30
"""The width of lines of YAML: a text that the library breaks into several is not always read as it was."""
_NEXT_LINE = "\x85"
_NOT_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""Characters that JSON may contain literally, and YAML may not."""


def dumps(document: Json) -> str:
    """Returns one JSON document as one line."""
    return json.dumps(document, ensure_ascii=False)


def yaml(document: Any, *, begin: bool = True) -> str:
    """Returns a document as YAML 1.2, without the last line's end. ``begin``: whether ``---`` stands before it."""
    from ruamel.yaml import YAML  # noqa: PLC0415 - for few commands only
    from ruamel.yaml.representer import RoundTripRepresenter  # noqa: PLC0415

    class Representer(RoundTripRepresenter):
        """Writes texts so that they are read as they were: U+0085 counts as a line's end where it stands as it is."""

        def represent_str(self, data: str) -> Any:
            return self.represent_scalar("tag:yaml.org,2002:str", data, style='"' if _NEXT_LINE in data else None)

    Representer.add_representer(str, Representer.represent_str)
    writer = YAML(typ="rt", pure=True)
    writer.Representer = Representer
    writer.default_flow_style = False
    writer.explicit_start = begin
    writer.width = _ENDLESS
    writer.indent(mapping=2, sequence=4, offset=2)
    text = io.StringIO()
    writer.dump(document, text)
    return text.getvalue().removesuffix("\n")


def of_message(message: Message) -> Json:
    """Returns the JSON form of a message."""
    bare = type(message)()
    bare.CopyFrom(message)
    masks = list(_take_masks(bare, ()))
    told = json_format.MessageToDict(bare, preserving_proto_field_name=True)
    for path, paths in masks:
        at = told
        for name in path[:-1]:
            at = at[name]
        at[path[-1]] = paths
    return told


def of_documents(documents: Iterable[PolicyDocument]) -> Json:
    """Returns an object with the documents, which are never left out."""
    return {"documents": [of_message(document) for document in documents]}


def _take_masks(message: Message, above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """Clears each mask in a message, and yields its path and content."""
    for field, value in message.ListFields():
        if isinstance(value, FieldMask):
            yield (*above, field.name), list(value.paths)
            message.ClearField(field.name)
        elif field.message_type not in (None, TopicPolicies.DESCRIPTOR) and not field.is_repeated:
            yield from _take_masks(value, (*above, field.name))


def declaring(documents: Iterable[PolicyDocument], namespaces: Iterable[str], *, as_json: bool) -> str:
    """Returns the file that declares documents as they are: YAML, or one line of JSON that is also YAML."""
    entries = []
    for document in documents:
        if document.HasField("policies"):
            scope = {"scope": "global"} if document.scope == SCOPE_GLOBAL else {}
            entries.append({"topic": document.topic} | scope | {"set": plain(document.policies, units=not as_json)})
    file = {"version": 1, "namespaces": list(namespaces), "policies": entries}
    if not as_json:
        return yaml(file, begin=False) + "\n"
    return _NOT_YAML.sub(lambda found: f"\\u{ord(found[0]):04x}", dumps(file)) + "\n"
