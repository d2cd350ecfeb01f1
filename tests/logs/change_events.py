"""A namespace's ``__change_events`` for tests: messages are written and read one by one, with nothing in between but the codec.

This is neither the sidecar's change log nor a broker, so tests can compare both with it.
"""

from __future__ import annotations

from types import TracebackType
from typing import NamedTuple, Self

import pulsar
from pulsar.schema import BytesSchema

from tests.broker.admin import CHANGE_EVENTS
from tests.logs.samples import event_of
from tests.promises.change_log import EncodedSchema
from topicpolicies_server.core.policies.events import Event
from topicpolicies_server.logs.avro import PULSAR_4_2_4, Codec, Encoded

_TIMEOUT_MS = 10_000


class Entry(NamedTuple):
    """One message of the log."""

    key: str
    payload: bytes | None
    properties: dict[str, str]
    producer: str

    def event(self, codec: Codec | None = None) -> Event:
        """Returns the event of the message.

        Raises:
            Unreadable: the message can't be read.
        """
        return event_of(codec or Codec(), self.key, self.payload, self.properties)


class ChangeEvents:
    """The log of one namespace whose system topic has no partitions. Blocking."""

    def __init__(self, service_url: str, namespace: str, *, definition: str = PULSAR_4_2_4) -> None:
        """Connects, which creates the topic if it does not exist.

        Args:
            service_url: the service URL of the broker.
            namespace: ``tenant/namespace``.
            definition: the Avro schema that is registered and written with.
        """
        topic = f"persistent://{namespace}/{CHANGE_EVENTS}"
        self.namespace = namespace
        self.codec = Codec(definition)
        self._client = pulsar.Client(service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
        self._producer = self._client.create_producer(topic, schema=EncodedSchema(definition), batching_enabled=False)
        self._reader = self._client.create_reader(topic, pulsar.MessageId.earliest, schema=BytesSchema())

    def write(self, event: Event) -> Encoded:
        """Appends an event."""
        message = self.codec.encode(event)
        self.write_message(message)
        return message

    def write_message(self, message: Encoded) -> None:
        """Appends a message as it is."""
        clusters = None if message.replication_clusters is None else list(message.replication_clusters)
        self._producer.send(message.payload, partition_key=message.key, properties=message.properties, replication_clusters=clusters)

    def read(self) -> list[Entry]:
        """Returns the messages since the last call, or since the beginning."""
        entries = []
        while self._reader.has_message_available():
            message = self._reader.read_next(_TIMEOUT_MS)
            payload = None if message._message.has_null_value() else message.data()
            entries.append(Entry(message.partition_key(), payload, message.properties(), message.producer_name()))
        return entries

    def close(self) -> None:
        """Closes the connection."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
