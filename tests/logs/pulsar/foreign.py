"""Another writer of a change log, which uses pulsar-client's public API."""

from __future__ import annotations

import json
from typing import Any

import _pulsar
import pulsar

from tests.broker.admin import CHANGE_EVENTS, Admin, AdminError
from topicpolicies_server.core.policies.events import Event
from topicpolicies_server.logs.avro import PULSAR_4_2_4, Codec
from topicpolicies_server.logs.avro.codec import java_hash
from topicpolicies_server.logs.pulsar.client import client_log_path


class VerbatimSchema(pulsar.schema.Schema):  # type: ignore[misc]  # pulsar-client ships no types
    """An Avro schema whose values are already encoded."""

    def __init__(self) -> None:
        super().__init__(bytes, _pulsar.SchemaType.AVRO, json.loads(PULSAR_4_2_4), "PulsarEvent")

    def encode(self, obj: bytes) -> bytes:
        return obj

    def decode(self, data: bytes) -> bytes:
        return data


class ForeignWriter:
    """Another writer, which writes one event at a time."""

    def __init__(self, service_url: str, admin: Admin) -> None:
        self._admin = admin
        self._client = pulsar.Client(service_url, logger=pulsar.FileLogger(pulsar.LoggerLevel.Warn, str(client_log_path())))
        self._producers: dict[str, Any] = {}

    def write(self, namespace: str, event: Event) -> str:
        """Writes an event; returns the message's id."""
        encoded = Codec().encode(event)
        producer = self.producer(namespace, encoded.key)
        clusters = None if encoded.replication_clusters is None else list(encoded.replication_clusters)
        return str(producer.send(encoded.payload, encoded.properties, partition_key=encoded.key, replication_clusters=clusters))

    def write_raw(self, namespace: str, key: str, payload: bytes) -> None:
        """Writes bytes as they are."""
        self.producer(namespace, key).send(payload, partition_key=key)

    def close(self) -> None:
        self._client.close()

    def producer(self, namespace: str, key: str) -> Any:
        """Returns the producer of the partition that a message key belongs to."""
        try:
            partitions = self._admin.call("GET", f"persistent/{namespace}/{CHANGE_EVENTS}/partitions")["partitions"]
        except AdminError:
            partitions = 0
        topic = f"persistent://{namespace}/{CHANGE_EVENTS}" + (f"-partition-{java_hash(key) % partitions}" if partitions else "")
        if topic not in self._producers:
            self._producers[topic] = self._client.create_producer(topic, schema=VerbatimSchema())
        return self._producers[topic]
