"""The codec: an event of the core to and from a message's key, payload and properties, for one registered schema.

**Reading follows the brokers** (``SystemTopicBasedTopicPoliciesService.refreshTopicPoliciesCache``), because the raw document is what they
apply:

- A message without a value is a tombstone; the scope that it clears is the one that its *key* names.
- Otherwise the scope is the document's ``isGlobal`` (null is false), whatever the key says: brokers that know no key prefix write global
  documents under the bare name.
- An INSERT or UPDATE without a document, or an event without an action, fails in a broker and changes nothing there: it is unreadable
  here. A DELETE needs no document.
- Events of another kind than TOPIC_POLICY, and actions that we do not know, are ignored: ``Action.NONE``.
- The event's topic must be the key's. No broker writes anything else, and the log is partitioned and compacted by the key.

**Scopes and clusters.** A LOCAL event names the local cluster, both in the event and as the message's replication clusters, and so does its
tombstone; therefore a replicator does not copy it. A GLOBAL event names no cluster and goes wherever the namespace is replicated to. A
REPAIR of a GLOBAL key is GLOBAL as an event (brokers look at ``isGlobal`` and the key only), but its message is for the local cluster only:
each cluster repairs what came from it, and a replicator skips messages that are not addressed to its peer.

**Damage.** Whatever was written, ``read`` raises nothing. An event whose stamp can't be read counts as a broker's
(``logs/stamps``); ``read`` reports that beside the event.
"""

from __future__ import annotations

import enum
import json
import struct
import uuid
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import NamedTuple

from ...core.errors import Kind, PolicyError
from ...core.names import DOMAINS, PolicyKey, Scope, TopicName, parse_topic
from ...core.policies.documents import FIELDS, setting_of, varint
from ...core.policies.events import Action, Event, Stamp, StampKind
from ...core.reasons import Reason
from ..change_log import LogError
from ..stamps import MalformedStamp, from_properties, to_properties
from .document import DocumentCodec
from .schema import PULSAR_4_2_4, Json, Type, UnsupportedSchema, Value, checked

GLOBAL_PREFIX = "__G__"
"""The prefix of the message keys of GLOBAL policies (``TopicPoliciesService.GLOBAL_POLICIES_MSG_KEY_PREFIX``, Pulsar 4.0.6 and later)."""
EMBEDDED_CLUSTER = "standalone"
"""The local cluster's name in the embedded log, which belongs to no cluster."""
OUR_FAMILIES = frozenset(setting_of(name) for name in FIELDS)
CACHED_NAMESPACES = 1_024
_TOPIC_POLICY = "TOPIC_POLICY"
"""The symbol of the only kind of event (``EventType``) that changes policies."""
_NAMES = ("domain", "tenant", "namespace", "topic")
"""The parts of a topic's name in ``TopicPoliciesEvent``, in the order of ``TopicName``'s fields."""
_LOCAL, _DOCUMENT = uuid.uuid4().hex, uuid.uuid4().bytes
"""Stand for the local name of a topic, and for a document: no event contains them."""


class Dialect(enum.Enum):
    """How the brokers of a log tell scopes apart."""

    PREFIXED = "prefixed"
    """Each scope has its own message key (Pulsar 4.0.6 and later)."""
    SHARED_KEY = "shared-key"
    """Both scopes share a message key, and a tombstone clears the LOCAL one only (before 4.0.6): a GLOBAL tombstone can't be written."""
    UNKNOWN = "unknown"
    """One of the other two, and it is not known which: nothing GLOBAL can be written."""


class Encoded(NamedTuple):
    """An event as a message."""

    key: str
    payload: bytes | None
    """The message's value; None: a message without a value (a tombstone)."""
    properties: dict[str, str]
    replication_clusters: tuple[str, ...] | None
    """The clusters that the message is for; None: all to which the namespace is replicated."""


class Codec:
    """Encodes and decodes events in one registered schema, which may be older or newer than ours.

    A message is read by the codec of the schema that it was written with; the log's newest schema is used for writing. Fields that the
    schema has and we do not know are kept in the document (``EXTRA_PREFIX``). A document with something that the schema has no place for is
    refused, not truncated.

    Attributes:
        definition: the schema as the broker's registry has it.
        known: the families that the schema knows, including those that we do not know; None if they are exactly ours.

    Raises:
        UnsupportedSchema: the definition is not a schema of policy events.
    """

    def __init__(
        self,
        definition: str = PULSAR_4_2_4,
        *,
        local_cluster: str = EMBEDDED_CLUSTER,
        dialect: Dialect = Dialect.PREFIXED,
    ) -> None:
        self.definition = definition
        self._dialect = dialect
        self._clusters = (local_cluster,)
        self._schema = checked(definition)
        self._template = lru_cache(CACHED_NAMESPACES)(self._make_template)
        try:
            event = self._schema.record
            topic = _record(event, "topicPoliciesEvent", ("actionType", "eventType"))
            self._topic = {name: field.nothing for name, field in topic.fields.items()}
            policies = _record(topic, "policies", _NAMES)
            self._document = DocumentCodec(self._schema.part(policies, self._schema.named[policies.name]))
            self._templates = self._schema.part(event, _replaced(self._schema.definition, policies.name))
            """The schema of events in which ``_DOCUMENT`` stands for the document."""
            self._make_template("persistent://a/b", is_global=False, action=Action.UPDATE)
            self._nothing = self._schema.write({**event.nothing, "actionType": Action.NONE.name})
        except Exception as error:  # an unforeseen schema can fail in any way: refuse the schema
            raise UnsupportedSchema(f"not the schema of policy events: {type(error).__name__}: {error}") from error
        self.known = None if self._document.families == OUR_FAMILIES else self._document.families

    def encode(self, event: Event) -> Encoded:
        """Encodes an event as a message.

        Raises:
            LogError: the dialect or the schema can't express the event, or its stamp is too large.
        """
        topic, scope = event.key
        is_global = scope == Scope.GLOBAL
        stamp = event.stamp
        if is_global and self._dialect is not Dialect.PREFIXED:
            self._refuse_what_cannot_be_told(event)
        key = GLOBAL_PREFIX + topic if is_global and self._dialect is Dialect.PREFIXED else topic
        at_home = not is_global or (stamp is not None and stamp.kind is StampKind.REPAIR)
        payload = None
        if event.document is not None:
            try:
                document = self._document.encode(event.document, is_global)
            except ValueError as error:
                raise LogError(
                    Reason.NOT_EXPRESSIBLE,
                    f"The schema of the log's brokers can't hold the document: {error}.",
                    kind=Kind.FAILED_PRECONDITION,
                ) from error
            before, after = self._around(topic, is_global, event.action)
            payload = b"".join((before, document, after))
        return Encoded(key, payload, {} if stamp is None else to_properties(stamp), self._clusters if at_home else None)

    def nothing(self) -> bytes:
        """The payload of an event of no kind, which changes nothing: brokers skip it (``SystemTopicBasedTopicPoliciesService``)."""
        return self._nothing

    def read(self, key: str, payload: bytes | None, properties: Mapping[str, str]) -> tuple[Event | None, str]:
        """Decodes a message to its event and a problem, "" if there is none. The event is None if the message is unreadable."""
        try:
            return self._decode(key, payload, properties)
        except (ValueError, TypeError) as error:
            return None, str(error)

    def _decode(self, key: str, payload: bytes | None, properties: Mapping[str, str]) -> tuple[Event, str]:
        """Decodes a message as ``read`` does. ValueError, TypeError: it is unreadable; the text is for logs and metrics."""
        policy_key = _key_of(key)
        stamp: Stamp | None = None
        problem = ""
        try:
            stamp = from_properties(properties)
        except MalformedStamp as error:
            problem = f"treated as a broker's event because its stamp is damaged: {error}"
        if payload is None:
            return Event(policy_key, Action.DELETE, None, stamp, self.known), problem
        # Most events are UPDATEs whose bytes around the document are as we write them: then only the document is decoded.
        is_global = policy_key.scope is Scope.GLOBAL
        before, after = self._around(policy_key.topic, is_global, Action.UPDATE)
        end = len(payload) - len(after)
        if len(before) <= end and payload.startswith(before) and payload.endswith(after):
            with suppress(ValueError, TypeError):  # decoding the whole event tells what is wrong
                document, flag = self._document.decode(payload[len(before) : end])
                if flag == is_global:
                    return Event(policy_key, Action.UPDATE, document, stamp, self.known), problem
        return self._decode_whole(policy_key, payload, stamp), problem

    def _decode_whole(self, policy_key: PolicyKey, payload: bytes, stamp: Stamp | None) -> Event:
        record = self._schema.read(payload)
        action, scope, document = Action.NONE, policy_key.scope, None
        if record["eventType"] == _TOPIC_POLICY:
            if record["actionType"] is None:
                raise ValueError("it has no action")
            action = Action.__members__.get(record["actionType"], Action.NONE)
        if action is not Action.NONE:
            policies = _policies_of(record["topicPoliciesEvent"], policy_key.topic)
            if policies is not None:
                document, is_global = self._document.of(policies)
                scope = Scope.GLOBAL if is_global else Scope.LOCAL
            elif action is not Action.DELETE:
                raise ValueError("it has no policies")
        named = tuple(record.get("replicateTo") or ())
        usual = named == (self._clusters if scope is Scope.LOCAL else ())
        key = PolicyKey(policy_key.topic, scope)
        return Event(key, action, document, stamp, self.known, clusters=None if usual else named)

    def _around(self, topic: str, is_global: bool, action: Action) -> tuple[bytes, bytes]:
        """Returns the bytes before and after the document in an event about a topic."""
        namespace, _, local = topic.rpartition("/")
        before, _, after = self._template(namespace, is_global, action).replace(_LOCAL_TEXT, _text(local)).partition(_DOCUMENT)
        return before, after

    def _make_template(self, namespace: str, is_global: bool, action: Action) -> bytes:
        """Returns an event about a topic of a namespace, with ``_LOCAL`` for its local name and ``_DOCUMENT`` for its document."""
        domain, _, rest = namespace.partition("://")
        names = dict(zip(_NAMES, (domain, *rest.split("/"), _LOCAL), strict=True))
        topic_event = {**self._topic, **names, "policies": _DOCUMENT}
        event = {"actionType": action.name, "eventType": _TOPIC_POLICY, "topicPoliciesEvent": topic_event}
        if not is_global and "replicateTo" in self._schema.record.fields:
            event["replicateTo"] = list(self._clusters)
        return self._templates.write({**self._schema.record.nothing, **event})

    def _refuse_what_cannot_be_told(self, event: Event) -> None:
        restates = event.stamp is not None and event.stamp.kind is StampKind.REPAIR
        if self._dialect is Dialect.SHARED_KEY and event.document is not None and not restates:
            return
        raise LogError(
            Reason.NOT_EXPRESSIBLE,
            "As far as is known, these brokers can't do this to a GLOBAL document without changing the LOCAL one. "
            "Upgrade them to 4.0.6 or later.",
            kind=Kind.FAILED_PRECONDITION,
        )


def _record(around: Type, name: str, beside: Iterable[str]) -> Type:
    """Returns the record that is a field of another record, which must have ``beside`` too: fields of texts or symbols."""
    kinds = {field: each.kind for field, each in around.fields.items()}
    lacking = [field for field in beside if kinds.get(field) not in ("enum", "string")]
    if kinds.get(name) != "record" or lacking:
        raise ValueError(f"it has no {name}, or no {', '.join(lacking)}")
    return around.fields[name]


def _text(text: str) -> bytes:
    """Returns a string in Avro: its length, zigzag, before it."""
    content = text.encode()
    return varint(len(content) << 1) + content


_LOCAL_TEXT = _text(_LOCAL)


def _key_of(message_key: str) -> PolicyKey:
    full = message_key.removeprefix(GLOBAL_PREFIX)
    try:
        name = parse_topic(full)
    except PolicyError as error:  # without the name: there may be many, and equal problems are logged once
        domain, separator, _ = full.partition("://")
        why = (
            f'its topic is of the domain "{domain}", which is not supported'
            if separator and domain not in DOMAINS
            else "its key is not a topic"
        )
        raise ValueError(why) from error
    return PolicyKey(str(name), Scope.GLOBAL if message_key.startswith(GLOBAL_PREFIX) else Scope.LOCAL)


def _replaced(definition: Json, name: str) -> Json:
    """Returns a schema with the type of ``_DOCUMENT`` in place of the record of a name."""
    simple, stand_in = name.rpartition(".")[2], {"type": "fixed", "name": name, "size": len(_DOCUMENT)}

    def replaced(part: dict[str, Json]) -> dict[str, Json]:
        return stand_in if part.get("name") == simple and "fields" in part else part

    return json.loads(json.dumps(definition), object_hook=replaced)


def _policies_of(topic_event: Value, topic: str) -> Mapping[str, Value] | None:
    """Returns the document in an event, which has to be about ``topic``; None if it has none."""
    if topic_event is None:
        raise ValueError("it has no topic")
    names = [topic_event[name] for name in _NAMES]
    if None in names:
        raise ValueError("its topic's name is incomplete")
    try:
        named = str(parse_topic(str(TopicName(*names))))
    except PolicyError as error:
        raise ValueError(f"its topic is not valid: {error}") from error
    if named != topic:
        raise ValueError("its topic is not its key's")
    policies: Mapping[str, Value] | None = topic_event["policies"]
    return policies


def java_hash(text: str) -> int:
    """Java's ``String.hashCode`` without its sign bit (Pulsar's ``JavaStringHash``): over UTF-16 code units, modulo 2**31.

    Brokers expect all events of a topic in one partition, and choose it by this hash of the message key, as Pulsar's Java client does
    (``RoundRobinPartitionMessageRouterImpl``). Every other writer of the log must choose the same one.
    """
    if text.isascii():
        units: Iterable[int] = text.encode()
    else:
        units = (unit for (unit,) in struct.iter_unpack("<H", text.encode("utf-16-le", "surrogatepass")))
    value = 0
    for unit in units:
        value = (value * 31 + unit) & 0x7FFFFFFF
    return value
