"""The bytes around the document in an event, so that the document of most events is found without decoding anything else.

They are the action, the kind, the clusters and the topic's name, as one schema has them. For all topics of a namespace, action and scope
they are the same, except for the topic's local name.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from ...core.names import MAX_NAME_LENGTH, TopicName
from ...core.policies.events import Action
from .schema import AvroType, Piece, Schema, UnsupportedSchema, kind, present_branch, varint

TOPIC_POLICY = "TOPIC_POLICY"
"""The symbol of the only kind of event (``EventType``) that changes policies."""
NAMES = ("domain", "tenant", "namespace", "topic")
"""The parts of a topic's name in ``TopicPoliciesEvent``, in the order of ``TopicName``'s fields."""
_LOCAL_NAME = NAMES[-1]
_DOCUMENT = "policies"
CACHED_NAMESPACES = 1_024


class Frame(NamedTuple):
    """The bytes of an event before and after its document, for one topic, action and scope."""

    before: bytes
    after: bytes

    def document(self, payload: bytes) -> bytes | None:
        """The bytes of the document if the payload is such an event as this codec writes it; None: the payload may be anything else."""
        before, after = self
        if payload.startswith(before) and payload.endswith(after) and len(payload) >= len(before) + len(after):
            return payload[len(before) : len(payload) - len(after)]
        return None


class Envelope:
    """Encodes the bytes around documents in one schema. Fields that we do not know are written as nothing.

    Attributes:
        document: the type of the document itself, the record ``TopicPolicies``.

    Raises:
        UnsupportedSchema: the schema lacks a field that an event needs.
    """

    def __init__(self, schema: Schema, local_cluster: str) -> None:
        self._layout: list[bytes | str] = []
        self._actions: dict[Action, bytes] = {}
        self._clusters: dict[bool, bytes] = {True: b"", False: b""}
        self.document: AvroType = None
        self._namespace = lru_cache(CACHED_NAMESPACES)(self._lay_out_namespace)
        try:
            self._lay_out_event(schema, local_cluster)
            laid_out = {part for part in self._layout if isinstance(part, str)} | {field["name"] for field in _fields(schema, schema.root)}
            missing = {"actionType", "eventType", _DOCUMENT, *NAMES} - laid_out
            if missing:
                raise ValueError(f"it has no {', '.join(sorted(missing))}")
        except ValueError as error:
            raise UnsupportedSchema(f"not the schema of policy events: {error}") from error

    def frame(self, topic: TopicName, action: Action, *, local: bool) -> Frame:
        """The bytes around a topic's document. A LOCAL event is addressed to the local cluster, a GLOBAL one to no particular cluster."""
        domain, tenant, namespace, own = topic
        before, after = self._namespace(domain, tenant, namespace, action, local)
        name = own.encode()
        written = _length(len(name)) + name
        return Frame(written.join(before), written.join(after))

    def _lay_out_namespace(self, domain: str, tenant: str, namespace: str, action: Action, local: bool) -> tuple[list[bytes], list[bytes]]:
        """The bytes before and after the documents of all topics of a namespace, each in pieces between which the topic's name belongs."""
        values = {"actionType": self._actions[action], "replicateTo": self._clusters[local]}
        for name, text in zip(NAMES, (domain, tenant, namespace), strict=False):
            values[name] = varint(len(text.encode())) + text.encode()
        sides: tuple[list[bytes], list[bytes]] = [b""], [b""]
        side = sides[0]
        for part in self._layout:
            if part == _DOCUMENT:
                side = sides[1]
            elif part == _LOCAL_NAME:
                side.append(b"")
            else:
                side[-1] += part if isinstance(part, bytes) else values[part]
        return sides

    def _lay_out_event(self, schema: Schema, local_cluster: str) -> None:
        for part in _fields(schema, schema.root):
            name, avro = part["name"], part["type"]
            if name == "topicPoliciesEvent":
                self._layout.append(_branch(avro))
                self._lay_out_topic(schema, avro)
            elif name == "actionType":
                if kind(schema.present(avro)) not in ("enum", "string"):
                    raise ValueError("its actionType is not a name")
                piece = Piece(schema, avro)
                self._actions = {action: piece(action.name) for action in Action}
                self._layout.append(name)
            elif name == "replicateTo":
                piece = Piece(schema, avro)
                self._clusters = {True: piece([local_cluster]), False: piece(schema.nothing(avro))}
                self._layout.append(name)
            else:
                self._layout.append(Piece(schema, avro)(TOPIC_POLICY if name == "eventType" else schema.absent(part)))

    def _lay_out_topic(self, schema: Schema, record: AvroType) -> None:
        for part in _fields(schema, record):
            name, avro = part["name"], part["type"]
            if name == _DOCUMENT:
                _fields(schema, avro)
                self.document = schema.record(avro)
                self._layout += [_branch(avro), name]
            elif name in NAMES and kind(schema.present(avro)) == "string":
                self._layout += [_branch(avro), name]
            else:
                self._layout.append(Piece(schema, avro)(schema.absent(part)))


def _fields(schema: Schema, avro: AvroType) -> list[AvroType]:
    record = schema.record(avro)
    if record is None:
        raise ValueError("something in it is not a record as expected")
    fields: list[AvroType] = record["fields"]
    return fields


def _branch(avro: AvroType) -> bytes:
    """The bytes before a value that is not null: the number of its branch if the type is a union, else none."""
    return varint(present_branch(avro)) if isinstance(avro, list) else b""


_length = lru_cache(MAX_NAME_LENGTH)(varint)
