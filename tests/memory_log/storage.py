"""The storage of the memory log with seats: each partition may have one exclusive producer."""

from __future__ import annotations

from typing import Any

from topicpolicies_server.core.errors import Kind
from topicpolicies_server.core.policies.events import Event, Placed
from topicpolicies_server.core.reasons import LogState
from topicpolicies_server.logs.change_log import LogError
from topicpolicies_server.logs.memory import storage
from topicpolicies_server.logs.routing import partition_of

from .seats import Seat


class StoredNamespace(storage.StoredNamespace):
    """The stored events of one namespace, and which producers may write them."""

    def __init__(self, name: str, partitions: int, identity: str) -> None:
        super().__init__(name, partitions, identity)
        self.seats = [Seat() for _ in range(partitions)]
        """By partition: the seat of its exclusive producer, if it has one."""


class MemoryStorage(storage.MemoryStorage):
    """The stored events of all namespaces."""

    def __init__(self, **options: Any) -> None:
        """Makes an empty storage; the options are those of the product's."""
        super().__init__(**options)
        self._terms = 0

    def namespace(self, name: str) -> StoredNamespace:
        """Returns what is stored of a namespace; creates an empty one if it is new."""
        stored = super().namespace(name)
        assert isinstance(stored, StoredNamespace)
        return stored

    def leader_name(self, cluster: str, address: str) -> str:
        """Returns a new name for the producers of a term, in the form that ``logs/producer_names`` parses."""
        self._terms += 1
        return f"topicpolicies/{cluster}/{self._terms:x}/{address}"

    def write(self, namespace: str, event: Event, *, producer: str = "broker") -> Placed:
        """Stores an event of another writer.

        Raises:
            LogError: a process has the exclusive producer of the partition.
        """
        stored = self.namespace(namespace)
        if stored.seats[partition_of(event.key, stored.partitions)].holder is not None:
            raise LogError(LogState.FENCED, "Another process holds the exclusive producer.", kind=Kind.FAILED_PRECONDITION)
        return super().write(namespace, event, producer=producer)

    def _made(self, name: str, partitions: int, identity: str) -> StoredNamespace:
        return StoredNamespace(name, partitions, identity)

    def write_unreadable(self, namespace: str, *, partition: int = 0, problem: str = "not an event") -> Placed:
        """Stores an entry that can't be read."""
        return self.namespace(namespace).store(partition, None, self.now(), "broker", problem)

    def recreate(self, namespace: str) -> None:
        """Deletes what is stored of a namespace, and begins a new log with a new identity in its place."""
        self.lose(namespace)
        self._namespaces.pop(namespace, None)
        self._generations[namespace] = self._generations.get(namespace, 1) + 1
