"""What the conformance suite needs of a kind of change log besides the protocol: ways to act on its storage from outside.

A backend stands for one storage (a file, a cluster) during one test. If a kind has no way to do something, its backend does not override
the method, and the tests that need it are skipped for that kind, by name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from typing import NoReturn

import pytest

from topicpolicies_server.core.policies.events import Event
from topicpolicies_server.logs.change_log import ChangeLogs, NamespaceLog


class Backend(ABC):
    """One storage of a kind of change log, new for each test."""

    name: str = ""
    proves_neighbours: bool = True
    """Whether ``follows`` is expected to be True for events that one writer appended one after the other."""
    exclusive: bool = False
    """Whether only one ``ChangeLogs`` may be started on the storage at a time."""
    large: int = 1_000_000
    """Size in bytes of a large document that the log must accept."""

    @abstractmethod
    def namespace(self, name: str = "orders") -> str:
        """Returns ``tenant/namespace`` of a namespace that has no log yet, and that exists if the kind requires it."""

    @abstractmethod
    async def start(self, *, in_flight_limit: int | None = None) -> ChangeLogs:
        """Returns a ``ChangeLogs`` of this storage, as a starting process would create it. The test closes it."""

    async def stored(self, namespace: str) -> bool:
        """Returns whether anything was created for a namespace."""
        self._has_no_way_to(f"inspect what is stored of {namespace}")

    async def write(self, namespace: str, event: Event) -> None:
        """Writes an event as a broker does, not through the logs that are open."""
        self._has_no_way_to(f"write {event.key} to {namespace} as another writer")

    async def write_unreadable(self, namespace: str) -> None:
        """Writes an entry that is not an event to some partition, while no log is open."""
        self._has_no_way_to(f"write an unreadable entry to {namespace}")

    async def compact(self, namespace: str) -> None:
        """Compacts down to the newest event of each key, while no log is open."""
        self._has_no_way_to(f"compact {namespace} on demand")

    def holding(self, log: NamespaceLog) -> AbstractContextManager[None]:
        """While entered: appends to ``log`` are accepted and get no outcome."""
        self._has_no_way_to(f"hold {log.identity}")

    def failing(self, log: NamespaceLog, *, outcome_unknown: bool) -> AbstractContextManager[None]:
        """While entered: appends to ``log`` fail with this outcome; the log can be used afterwards."""
        self._has_no_way_to(f"fail appends to {log.identity} ({outcome_unknown=})")

    async def lose(self, log: NamespaceLog) -> None:
        """Makes ``log`` report that it is lost; what is stored stays."""
        self._has_no_way_to(f"lose {log.identity}")

    def _has_no_way_to(self, what: str) -> NoReturn:
        pytest.skip(f"{self.name} has no way to {what}")
