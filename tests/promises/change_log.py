"""A namespace's ``__change_events`` as it is stored in a broker, read and written message by message.

Nothing of the server is in between: messages are decoded by ``fastavro`` with the schema under which the broker has registered them.
"""

from __future__ import annotations

import contextlib
import io
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Self

import fastavro
import pulsar
from pulsar.schema import BytesSchema, Schema

from tests.broker.admin import CHANGE_EVENTS, Admin
from tests.broker.pulsar_broker import Broker

GLOBAL_PREFIX = "__G__"
"""Before the topic in the keys of GLOBAL documents."""
EMPTY: Mapping[str, Any] = {"backLogQuotaMap": {}, "isGlobal": False, "subscriptionPolicies": {}, "subscriptionTypesEnabled": []}
"""A document without policies, as brokers write it."""
_TIMEOUT_MS = 10_000
_LOOK_MS = 200


class Stored(NamedTuple):
    """One message of a log."""

    partition: int
    key: str
    event: dict[str, Any] | None
    """By the names of the broker's schema; None: a tombstone."""
    properties: dict[str, str]
    producer: str
    published_ms: int

    @property
    def topic(self) -> str:
        """The full name of the topic."""
        return self.key.removeprefix(GLOBAL_PREFIX)

    @property
    def policies(self) -> dict[str, Any]:
        """The document by the names of the broker's schema; empty if there is none."""
        return ((self.event or {}).get("topicPoliciesEvent") or {}).get("policies") or {}

    @property
    def action(self) -> str | None:
        """INSERT, UPDATE, DELETE, NONE; None of a tombstone."""
        return (self.event or {}).get("actionType")

    @property
    def by_broker(self) -> bool:
        """Whether a broker wrote the message: they set no properties, and sidecars do."""
        return not self.properties


class ChangeLog:
    """The log of one namespace. Blocking and thread-safe."""

    def __init__(self, broker: Broker, namespace: str, *, definition: str = "") -> None:
        """Connects.

        Args:
            broker: the broker.
            namespace: ``tenant/namespace``.
            definition: the Avro schema to write with, which is registered; "": the newest that the broker has registered.
        """
        self.namespace = namespace
        self._admin = broker.admin()
        self._client = pulsar.Client(broker.service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
        self._topics = [f"persistent://{topic}" for topic in self._admin.partitions_of(f"{namespace}/{CHANGE_EVENTS}")]
        self._definition = definition
        self._schemas: dict[int, Any] = {}
        self._producers: dict[str, Any] = {}
        self._lock = threading.Lock()

    @property
    def definition(self) -> str:
        """The newest schema that the broker has registered, as JSON."""
        return str(self._admin.call("GET", f"schemas/{self.namespace}/{CHANGE_EVENTS}/schema")["data"])

    def stored(self, *, compacted: bool = False) -> list[Stored]:
        """Returns the present messages, partition by partition; ``compacted``: as a reader of the compacted log gets them."""
        found: list[Stored] = []
        for partition, topic in enumerate(self._topics):
            reader = self._reader(topic, compacted=compacted)
            while reader.has_message_available():
                found.append(self._read(partition, reader.read_next(_TIMEOUT_MS)))
            reader.close()
        return found

    @contextlib.contextmanager
    def followed(self, take: Callable[[Stored], None], compacted: bool = False) -> Iterator[None]:
        """Passes all messages to ``take``: the present ones before the context is entered, later ones in a thread for each partition."""
        readers = [self._reader(topic, compacted=compacted) for topic in self._topics]
        for partition, reader in enumerate(readers):
            while reader.has_message_available():
                take(self._read(partition, reader.read_next(_TIMEOUT_MS)))
        over = threading.Event()

        def follow(partition: int, reader: Any) -> None:
            while not over.is_set():
                with contextlib.suppress(pulsar.Timeout):
                    take(self._read(partition, reader.read_next(_LOOK_MS)))

        threads = [threading.Thread(target=follow, args=each, daemon=True) for each in enumerate(readers)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            over.set()
            for thread in threads:
                thread.join()

    def write(self, topic: str, policies: Mapping[str, Any] | None, *, of_global: bool = False, action: str = "UPDATE") -> None:
        """Appends an event as a broker does: a document by the names of the schema, or a tombstone."""
        key = GLOBAL_PREFIX + topic if of_global else topic
        clusters = None if of_global else ["standalone"]
        event = None
        if policies is not None:
            event = self.event(topic, {**EMPTY, **policies, "isGlobal": of_global}, actionType=action, replicateTo=clusters)
        self.write_event(key, event, clusters)

    def event(self, topic: str, policies: Mapping[str, Any] | None, **members: Any) -> dict[str, Any]:
        """Returns an event; ``members`` replace those of an update."""
        tenant, namespace, local = topic.removeprefix("persistent://").split("/", 2)
        about = {"domain": "persistent", "tenant": tenant, "namespace": namespace, "topic": local, "policies": policies}
        return {"actionType": "UPDATE", "eventType": "TOPIC_POLICY", "replicateTo": None, "topicPoliciesEvent": about, **members}

    def write_event(
        self,
        key: str,
        event: Mapping[str, Any] | None,
        clusters: Sequence[str] | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """Appends an event as it is; None: a tombstone."""
        schema, producer = self._writing(key)
        content = None
        if event is not None:
            written = io.BytesIO()
            fastavro.schemaless_writer(written, schema, event)
            content = written.getvalue()
        producer.send(content, properties, partition_key=key, replication_clusters=None if clusters is None else list(clusters))

    def headers(self) -> list[dict[str, str]]:
        """Returns, of an unpartitioned log, what the admin API tells of each message: its headers, by their names."""
        log = f"persistent/{self.namespace}/{CHANGE_EVENTS}"
        count = self._admin.call("GET", f"{log}/internalStats")["entriesAddedCounter"]
        return [
            self._admin.headers(f"{log}/examinemessage", initialPosition="earliest", messagePosition=str(position))
            for position in range(1, count + 1)
        ]

    def close(self) -> None:
        """Disconnects."""
        self._client.close()
        self._admin.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _reader(self, topic: str, *, compacted: bool) -> Any:
        return self._client.create_reader(topic, pulsar.MessageId.earliest, schema=BytesSchema(), is_read_compacted=compacted)

    def _read(self, partition: int, message: Any) -> Stored:
        event = None
        if not message._message.has_null_value():
            found: Any = fastavro.schemaless_reader(io.BytesIO(message.data()), self._schema(message._message.int_schema_version()), None)
            event = found
        return Stored(partition, message.partition_key(), event, message.properties(), message.producer_name(), message.publish_timestamp())

    def _schema(self, version: int) -> Any:
        with self._lock:
            if version not in self._schemas:
                path = f"schemas/{self.namespace}/{CHANGE_EVENTS}/schema/{version}"
                self._schemas[version] = fastavro.parse_schema(json.loads(self._admin.call("GET", path)["data"]))
            return self._schemas[version]

    def _writing(self, key: str) -> tuple[Any, Any]:
        """Returns the schema to write with, and the producer of the partition of a key, as Java routes it."""
        with self._lock:
            if not self._producers:
                self._definition = self._definition or self.definition
                self._written = fastavro.parse_schema(json.loads(self._definition))
            topic = self._topics[(_java_hash(key) & 0x7FFFFFFF) % len(self._topics)]
            if topic not in self._producers:
                schema = EncodedSchema(self._definition)
                self._producers[topic] = self._client.create_producer(topic, schema=schema, batching_enabled=False)
            return self._written, self._producers[topic]


class EncodedSchema(Schema):  # type: ignore[misc]
    """An Avro schema whose values are bytes already."""

    def __init__(self, definition: str) -> None:
        self._schema_info = pulsar._pulsar.SchemaInfo(pulsar._pulsar.SchemaType.AVRO, "PulsarEvent", definition)

    def encode(self, obj: bytes) -> bytes:
        return obj

    def decode(self, data: bytes) -> Any:
        return data


def _java_hash(text: str) -> int:
    number = 0
    for unit in memoryview(text.encode("utf-16-le")).cast("H"):
        number = (31 * number + unit) & 0xFFFFFFFF
    return number


def admin_path(topic: str) -> str:
    """Returns a topic's path in the admin API."""
    return f"persistent/{topic.removeprefix('persistent://')}"


__all__ = ["CHANGE_EVENTS", "EMPTY", "GLOBAL_PREFIX", "Admin", "ChangeLog", "Stored", "admin_path"]
