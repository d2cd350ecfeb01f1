"""A change log as it is stored, message by message, and the leader in whose term each message was written."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import pulsar
from pulsar.schema import BytesSchema

ANNOUNCEMENT = "tp-leader"


class Message(NamedTuple):
    """The writer of a message."""

    producer: str
    announces: bool
    """Whether the message announces that its producer leads."""


class Intruder(NamedTuple):
    """A message that a producer wrote outside its own term."""

    partition: str
    number: int
    producer: str
    term: str
    """The producer whose term it was; empty before the first term."""


class RawLog:
    """Reads every message of a log as it is written, before a compaction can erase it."""

    def __init__(self, service_url: str, namespace: str, partitions: int) -> None:
        """Connects, which creates the log if there is none; ``partitions`` is 0 for a plain log."""
        self.messages: dict[str, list[Message]] = defaultdict(list)
        """The messages by partition, in order."""
        self._lock = threading.Lock()
        self._client = pulsar.Client(service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
        topic = f"persistent://{namespace}/__change_events"
        self._partitions = [f"{topic}-partition-{number}" for number in range(partitions)] or [topic]
        for name in self._partitions:
            self._client.create_reader(name, pulsar.MessageId.earliest, schema=BytesSchema(), reader_listener=self._note)

    @property
    def leader(self) -> str:
        """The address that the newest leader announced; empty before the first."""
        terms = self.terms(self._partitions[0])
        return terms[-1].split("/", 3)[3] if terms else ""

    def terms(self, partition: str) -> list[str]:
        """Returns the producers that announced themselves in a partition, in order."""
        with self._lock:
            return [message.producer for message in self.messages[partition] if message.announces]

    @property
    def partitions(self) -> Sequence[str]:
        """The topics of the partitions; the exclusive producer of the first one is the seat of the leader."""
        return self._partitions

    def close(self) -> None:
        """Disconnects."""
        self._client.close()

    def _note(self, reader: Any, message: Any) -> None:
        del reader
        partition = message.topic_name()
        with self._lock:
            self.messages[partition].append(Message(message.producer_name(), ANNOUNCEMENT in message.properties()))


def intruders(messages: Iterable[tuple[str, Sequence[Message]]]) -> list[Intruder]:
    """Returns the messages that come after the announcement of another producer than their own, or before any announcement."""
    found = []
    for partition, entries in messages:
        term = ""
        for number, message in enumerate(entries):
            if message.announces:
                term = message.producer
            elif message.producer != term:
                found.append(Intruder(partition, number, message.producer, term))
    return found
