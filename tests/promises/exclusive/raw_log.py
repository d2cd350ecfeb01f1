"""A change log as it is stored, message by message: which producer wrote what. The term of a leader is the term of its producer."""

from __future__ import annotations

import itertools
import threading
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import pulsar
from pulsar.schema import BytesSchema

LEADER = "topicpolicies/"
"""The beginning of a leader's producer name, ``topicpolicies/CLUSTER/ID/ADDRESS``."""


class Intruder(NamedTuple):
    """A message of a producer after which another one had written already."""

    partition: str
    number: int
    producer: str
    term: str
    """The producer that had written last."""


class RawLog:
    """Reads every message of a log as it is written, before a compaction can erase it."""

    def __init__(self, service_url: str, namespace: str, partitions: int) -> None:
        """Connects, which creates the log if there is none; ``partitions`` is 0 for a plain log."""
        self.producers: dict[str, list[str]] = defaultdict(list)
        """The producers of the messages by partition, in order."""
        self._lock = threading.Lock()
        self._client = pulsar.Client(service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
        topic = f"persistent://{namespace}/__change_events"
        self._partitions = [f"{topic}-partition-{number}" for number in range(partitions)] or [topic]
        for name in self._partitions:
            self._client.create_reader(name, pulsar.MessageId.earliest, schema=BytesSchema(), reader_listener=self._note)

    @property
    def leader(self) -> str:
        """The address of the newest leader; empty before the first."""
        terms = self.terms(self._partitions[0])
        return leader_of(terms[-1]) if terms else ""

    def terms(self, partition: str) -> list[str]:
        """Returns the producers of leaders that have written into a partition, in order; one that came again is there again."""
        with self._lock:
            return [producer for producer, _ in itertools.groupby(self.producers[partition]) if producer.startswith(LEADER)]

    @property
    def partitions(self) -> Sequence[str]:
        """The topics of the partitions; the exclusive producer of the first one is the seat of the leader."""
        return self._partitions

    def stored(self) -> list[tuple[str, list[str]]]:
        """Returns the producers of all messages, by partition."""
        with self._lock:
            return [(partition, list(self.producers[partition])) for partition in self._partitions]

    def close(self) -> None:
        """Disconnects."""
        self._client.close()

    def _note(self, reader: Any, message: Any) -> None:
        del reader
        with self._lock:
            self.producers[message.topic_name()].append(message.producer_name())


def leader_of(producer: str) -> str:
    """Returns the address of a leader, by the name of its producer."""
    return producer.split("/", 3)[3]


def intruders(stored: Iterable[tuple[str, Sequence[str]]]) -> list[Intruder]:
    """Returns the messages of a producer after which another one had written: its term was over."""
    found = []
    for partition, producers in stored:
        over: set[str] = set()
        term = ""
        for number, producer in enumerate(producers):
            if producer in over:
                found.append(Intruder(partition, number, producer, term))
            elif producer != term:
                over.add(term)
                term = producer
    return found
