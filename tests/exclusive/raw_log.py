"""A change log as it is stored, message by message, and whose turn it was to write each."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import pulsar
from pulsar.schema import BytesSchema

ANNOUNCEMENT = "tp-leader"


class Message(NamedTuple):
    """What a message tells of its writer."""

    producer: str
    announces: bool
    """Whether it is the first of its producer's term."""


class Intruder(NamedTuple):
    """A message that a producer wrote when it was not its turn."""

    partition: str
    number: int
    producer: str
    term: str
    """Whose turn it was; empty: nobody's."""


class RawLog:
    """Reads every message of a log while it is written, before compaction takes any away."""

    def __init__(self, service_url: str, namespace: str, partitions: int) -> None:
        """Connects, which creates a log that is not there; ``partitions`` is 0 for a plain one."""
        self.messages: dict[str, list[Message]] = defaultdict(list)
        """By partition, in order."""
        self._lock = threading.Lock()
        self._client = pulsar.Client(service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
        topic = f"persistent://{namespace}/__change_events"
        self._partitions = [f"{topic}-partition-{number}" for number in range(partitions)] or [topic]
        for name in self._partitions:
            self._client.create_reader(name, pulsar.MessageId.earliest, schema=BytesSchema(), reader_listener=self._note)

    @property
    def leader(self) -> str:
        """Where the newest leader said that it is; empty before the first."""
        terms = self.terms(self._partitions[0])
        return terms[-1].split("/", 3)[3] if terms else ""

    def terms(self, partition: str) -> list[str]:
        """The producers that announced themselves in a partition, in order."""
        with self._lock:
            return [message.producer for message in self.messages[partition] if message.announces]

    @property
    def partitions(self) -> Sequence[str]:
        """The topics that hold the messages; the first one's exclusive producer is the lock."""
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
    """The messages that stand behind the announcement of another producer than their own, by partition."""
    found = []
    for partition, entries in messages:
        term = ""
        for number, message in enumerate(entries):
            if message.announces:
                term = message.producer
            elif message.producer != term:
                found.append(Intruder(partition, number, message.producer, term))
    return found
