"""Backends of the conformance suite for the memory log of the tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from tests.logs.backend import Backend
from tests.memory_log import IN_FLIGHT, Fate, Faults, MemoryLog, MemoryNamespaceLog, MemoryStorage, Outcome
from tests.memory_log.ledgered import LedgeredLog
from tests.memory_log.ledgers import LedgeredStorage
from topicpolicies_server.core.policies.events import Event
from topicpolicies_server.logs.change_log import NamespaceLog


class SwitchedFaults(Faults):
    """Gives every append the fate that is currently set."""

    def __init__(self) -> None:
        self.now = Fate()

    def fate(self, namespace: str, event: Event) -> Fate:
        del namespace, event
        return self.now


class MemoryBackend(Backend):
    def __init__(self, partitions: int) -> None:
        self.name = f"memory-{partitions}"
        self.storage: MemoryStorage = MemoryStorage(partitions=partitions)
        self.faults = SwitchedFaults()

    def namespace(self, name: str = "orders") -> str:
        return f"acme/{name}"

    async def start(self, *, in_flight_limit: int | None = None) -> MemoryLog:
        return MemoryLog(self.storage, faults=self.faults, in_flight_limit=in_flight_limit or IN_FLIGHT)

    async def stored(self, namespace: str) -> bool:
        return any(self.storage.namespace(namespace).entries)

    async def write(self, namespace: str, event: Event) -> None:
        self.storage.write(namespace, event)

    async def write_unreadable(self, namespace: str) -> None:
        self.storage.write_unreadable(namespace)

    async def compact(self, namespace: str) -> None:
        self.storage.compact(namespace)

    @contextmanager
    def holding(self, log: NamespaceLog) -> Iterator[None]:
        assert isinstance(log, MemoryNamespaceLog)
        for line in log.appends:
            line.hold()
        yield
        for line in log.appends:
            line.release()

    @contextmanager
    def failing(self, log: NamespaceLog, *, outcome_unknown: bool) -> Iterator[None]:
        del log
        self.faults.now = Fate(Outcome.UNACKNOWLEDGED if outcome_unknown else Outcome.REFUSED)
        yield
        self.faults.now = Fate()

    async def lose(self, log: NamespaceLog) -> None:
        assert isinstance(log, MemoryNamespaceLog)
        self.storage.lose(log.namespace)


@asynccontextmanager
async def three_partitions(request: pytest.FixtureRequest, directory: Path) -> AsyncIterator[Backend]:
    """A memory log with three partitions."""
    del request, directory
    yield MemoryBackend(3)


class LedgeredBackend(MemoryBackend):
    def __init__(self, partitions: int) -> None:
        super().__init__(partitions)
        self.name = f"ledgered-{partitions}"
        self._ledgers = self.storage = LedgeredStorage(partitions=partitions)

    async def start(self, *, in_flight_limit: int | None = None) -> MemoryLog:
        return LedgeredLog(self._ledgers, faults=self.faults, in_flight_limit=in_flight_limit or IN_FLIGHT)

    async def compact(self, namespace: str) -> None:
        await super().compact(namespace)
        stored = self._ledgers.namespace(namespace)
        stored.tell()
        for ledgers in stored.ledgers:
            ledgers.roll()
            ledgers.first = ledgers.place.ledger  # nothing is left in ledgers to read again


@asynccontextmanager
async def in_ledgers_of_three(request: pytest.FixtureRequest, directory: Path) -> AsyncIterator[Backend]:
    """A memory log whose entries are in ledgers of three partitions, and which is read as the Pulsar log is."""
    del request, directory
    yield LedgeredBackend(3)
