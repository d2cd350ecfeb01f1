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
import struct
from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

from ...core.errors import Kind, PolicyError
from ...core.names import DOMAINS, PolicyKey, Scope, TopicName, parse_topic
from ...core.policies.documents import FIELDS, Settings, setting_of
from ...core.policies.events import Action, Event, Stamp, StampKind
from ...core.reasons import LogState, Reason
from ..change_log import LogError
from ..stamps import MalformedStamp, from_properties, to_properties
from .document import IS_GLOBAL, Document
from .envelope import NAMES, TOPIC_POLICY, Envelope, Frame
from .schema import PULSAR_4_2_4, AvroValue, Piece, Schema, UnsupportedSchema, in_words

GLOBAL_PREFIX = "__G__"
"""The prefix of the message keys of GLOBAL policies (``TopicPoliciesService.GLOBAL_POLICIES_MSG_KEY_PREFIX``, Pulsar 4.0.6 and later)."""
EMBEDDED_CLUSTER = "standalone"
"""The local cluster's name in the embedded log, which belongs to no cluster."""
OUR_FAMILIES = frozenset(setting_of(name) for name in FIELDS)
CACHED_TOPICS = 16_384
CACHED_DOCUMENTS = 4_096
CACHED_BYTES = 4_096
"""Documents larger than this are not cached, so that the memory of the cache stays bounded."""


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


class Unreadable(ValueError):
    """A message is not an event, or one that no broker can apply. The text is the reason, for logs and metrics."""


class _Header(NamedTuple):
    """What follows from a message's key alone."""

    key: PolicyKey
    update: Frame
    """The bytes around the document of an UPDATE."""


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
        definition: str | Mapping[str, Any] = PULSAR_4_2_4,
        *,
        local_cluster: str = EMBEDDED_CLUSTER,
        dialect: Dialect = Dialect.PREFIXED,
    ) -> None:
        self.definition = definition
        self._dialect = dialect
        self._clusters = (local_cluster,)
        try:
            self._schema = Schema(definition)
            self._envelope = Envelope(self._schema, local_cluster)
            self._document = Document(self._schema, self._envelope.document)
            self._nothing = self._write_nothing()
        except UnsupportedSchema:
            raise
        except Exception as error:  # an unforeseen schema can make fastavro fail in any way: refuse the schema
            raise UnsupportedSchema(f"its values can't be written: {in_words(error)}") from error
        self.known = None if self._document.families == OUR_FAMILIES else self._document.families
        self._frame = lru_cache(CACHED_TOPICS)(self._make_frame)
        self._header = lru_cache(CACHED_TOPICS)(self._make_header)
        self._remembered = lru_cache(CACHED_DOCUMENTS)(self._read_document)

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
        key, (before, after) = self._frame(topic, is_global, event.action)
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
            payload = b"".join((before, document, after))
        return Encoded(key, payload, {} if stamp is None else to_properties(stamp), self._clusters if at_home else None)

    def nothing(self) -> bytes:
        """The payload of an event of no kind, which changes nothing: brokers skip it (``SystemTopicBasedTopicPoliciesService``)."""
        return self._nothing

    def _write_nothing(self) -> bytes:
        value = {**self._schema.nothing(self._schema.root), "actionType": Action.NONE.name}
        return Piece(self._schema, self._schema.root)(value)

    def read(self, key: str, payload: bytes | None, properties: Mapping[str, str]) -> tuple[Event | None, str]:
        """Decodes a message to its event and a problem, "" if there is none. The event is None if the message is unreadable."""
        try:
            return self._decode(key, payload, properties)
        except Unreadable as error:
            return None, str(error)

    def _decode(self, key: str, payload: bytes | None, properties: Mapping[str, str]) -> tuple[Event, str]:
        header = self._header(key)
        policy_key = header.key
        stamp: Stamp | None = None
        problem = ""
        try:
            stamp = from_properties(properties)
        except MalformedStamp as error:
            problem = f"treated as a broker's event because its stamp is damaged: {error}"
        if payload is None:
            return Event(policy_key, Action.DELETE, None, stamp, self.known), problem
        # Most events are UPDATEs whose bytes around the document are as we write them, and many topics have the same document. Then only
        # the document is decoded, and equal documents only once.
        body = header.update.document(payload)
        if body is not None:
            try:
                document, flag = self._remembered(body) if len(body) <= CACHED_BYTES else self._read_document(body)
            except (ValueError, TypeError):
                pass  # Decoding the whole event below tells what is wrong.
            else:
                if flag == (policy_key.scope is Scope.GLOBAL):
                    return Event(policy_key, Action.UPDATE, document, stamp, self.known), problem
        return self._decode_whole(policy_key, payload, stamp), problem

    def _decode_whole(self, policy_key: PolicyKey, payload: bytes, stamp: Stamp | None) -> Event:
        try:
            record = self._schema.read(payload)
        except ValueError as error:
            raise Unreadable(f"not an event of its schema: {error}") from error
        action, scope, document = Action.NONE, policy_key.scope, None
        if record["eventType"] == TOPIC_POLICY:
            if record["actionType"] is None:
                raise Unreadable("it has no action")
            action = Action.__members__.get(record["actionType"], Action.NONE)
        if action is not Action.NONE:
            policies = _policies_of(record["topicPoliciesEvent"], policy_key.topic)
            if policies is not None:
                scope, document = Scope.GLOBAL if policies[IS_GLOBAL] else Scope.LOCAL, self._settings(policies)
            elif action is not Action.DELETE:
                raise Unreadable("it has no policies")
        return Event(PolicyKey(policy_key.topic, scope), action, document, stamp, self.known, clusters=self._unusual(record, scope))

    def _unusual(self, record: AvroValue, scope: Scope) -> tuple[str, ...] | None:
        """Returns the clusters that an event names; None: those that an event of this scope usually names."""
        named = record.get("replicateTo") or ()
        clusters = tuple(name for name in named if isinstance(name, str))
        return None if clusters == (self._clusters if scope is Scope.LOCAL else ()) else clusters

    def _read_document(self, body: bytes) -> tuple[Settings, bool]:
        settings, is_global = self._document.read(body)
        return MappingProxyType(settings), is_global

    def _settings(self, policies: AvroValue) -> Settings:
        try:
            return MappingProxyType(self._document.decode(policies))
        except (ValueError, TypeError) as error:
            raise Unreadable(f"a value is out of range: {error}") from error

    def _make_frame(self, topic: str, is_global: bool, action: Action) -> tuple[str, Frame]:
        """The message key of a topic's events, and the bytes around the document."""
        prefix = GLOBAL_PREFIX if is_global and self._dialect is Dialect.PREFIXED else ""
        return prefix + topic, self._envelope.frame(parse_topic(topic), action, local=not is_global)

    def _make_header(self, key: str) -> _Header:
        is_global = key.startswith(GLOBAL_PREFIX)
        full = key.removeprefix(GLOBAL_PREFIX)
        try:
            name = parse_topic(full)
        except PolicyError as error:
            domain, separator, _ = full.partition("://")
            if separator and domain not in DOMAINS:  # without the name: there may be many, and equal problems are logged once
                raise Unreadable(f'its topic is of the domain "{domain}", which is not supported') from error
            raise Unreadable(f"its key is not a topic: {error}") from error
        policy_key = PolicyKey(str(name), Scope.GLOBAL if is_global else Scope.LOCAL)
        return _Header(policy_key, self._envelope.frame(name, Action.UPDATE, local=not is_global))

    def _refuse_what_cannot_be_told(self, event: Event) -> None:
        restates = event.stamp is not None and event.stamp.kind is StampKind.REPAIR
        if self._dialect is Dialect.SHARED_KEY and event.document is not None and not restates:
            return
        what = "write a GLOBAL document"
        if self._dialect is Dialect.SHARED_KEY:
            what = "repair a GLOBAL document" if restates else "delete a GLOBAL document"
        raise LogError(
            LogState.DIALECT,
            f"As far as is known, these brokers can't {what} without changing the LOCAL one. Upgrade them to 4.0.6 or later.",
            kind=Kind.FAILED_PRECONDITION,
        )


def _policies_of(topic_event: AvroValue, topic: str) -> AvroValue:
    """The document in an event, which has to be about ``topic``; None if it has none."""
    if topic_event is None:
        raise Unreadable("it has no topic")
    names = [topic_event[name] for name in NAMES]
    if None in names:
        raise Unreadable("its topic's name is incomplete")
    try:
        named = str(parse_topic(str(TopicName(*names))))
    except PolicyError as error:
        raise Unreadable(f"its topic is not valid: {error}") from error
    if named != topic:
        raise Unreadable("its topic is not its key's")
    return topic_event["policies"]


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
