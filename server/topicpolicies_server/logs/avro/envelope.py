"""The bytes around the document in an event: action, kind, clusters and the topic's name, as one schema has them."""

from __future__ import annotations

from typing import NamedTuple

from ...core.names import TopicName
from ...core.policies.events import Action
from .schema import AvroType, Piece, Schema, UnsupportedSchema, kind, present_branch, varint

TOPIC_POLICY = "TOPIC_POLICY"
"""The symbol of the only kind of event (``EventType``) that changes policies."""
NAMES = ("domain", "tenant", "namespace", "topic")
"""The parts of a topic's name in ``TopicPoliciesEvent``, in the order of ``TopicName``'s fields."""
_LOCAL_NAME = NAMES[-1]
_DOCUMENT = "policies"


class DocumentFrame(NamedTuple):
    """The bytes of an event before and after its document."""

    before: bytes
    after: bytes


class NamespaceFrame(NamedTuple):
    """The bytes of an event before and after its document, for all topics of a namespace.

    The topic's local name, with its length before it, is left out: it stands between the pieces. One of the tuples has two pieces, the
    other one.
    """

    before: tuple[bytes, ...]
    after: tuple[bytes, ...]


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
        try:
            self._lay_out_event(schema, local_cluster)
            laid_out = {part for part in self._layout if isinstance(part, str)} | {field["name"] for field in _fields(schema, schema.root)}
            missing = {"actionType", "eventType", _DOCUMENT, *NAMES} - laid_out
            if missing:
                raise ValueError(f"it has no {', '.join(sorted(missing))}")
        except ValueError as error:
            raise UnsupportedSchema(f"not the schema of policy events: {error}") from error

    def document_frame(self, topic: TopicName, action: Action, *, local: bool) -> DocumentFrame:
        """The bytes around a topic's document. A LOCAL event is addressed to the local cluster, a GLOBAL one to no particular cluster."""
        parts = self._filled(topic, action, local=local)
        at = self._layout.index(_DOCUMENT)
        return DocumentFrame(b"".join(parts[:at]), b"".join(parts[at + 1 :]))

    def namespace_frame(self, topic: TopicName, action: Action, *, local: bool) -> NamespaceFrame:
        """The bytes around the documents of all topics in the namespace of ``topic``."""
        parts = self._filled(topic, action, local=local)
        at, name = self._layout.index(_DOCUMENT), self._layout.index(_LOCAL_NAME)
        before, after = b"".join(parts[:at]), b"".join(parts[at + 1 :])
        if name < at:
            return NamespaceFrame((b"".join(parts[:name]), b"".join(parts[name + 1 : at])), (after,))
        return NamespaceFrame((before,), (b"".join(parts[at + 1 : name]), b"".join(parts[name + 1 :])))

    def _filled(self, topic: TopicName, action: Action, *, local: bool) -> list[bytes]:
        """The parts of the layout as bytes; the document is empty."""
        values = {"actionType": self._actions[action], "replicateTo": self._clusters[local], _DOCUMENT: b""}
        for name, text in zip(NAMES, topic, strict=True):
            encoded = text.encode()
            values[name] = varint(len(encoded)) + encoded
        return [part if isinstance(part, bytes) else values[part] for part in self._layout]

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
