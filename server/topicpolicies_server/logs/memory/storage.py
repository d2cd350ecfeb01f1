"""What a cluster keeps of its namespaces' events, and what happens to it without us."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from ...core.policies.events import Event, Placed, Position
from ...core.reasons import Reason
from .. import rows
from ..change_log import LogError
from ..routing import partition_of


class Follower(Protocol):
    """Somebody who has a stored namespace open."""

    def show(self, placed: Placed) -> None:
        """Takes an entry that was stored."""

    def lose(self, error: LogError) -> None:
        """Ends: the log can't be followed any more."""


class StoredNamespace:
    """The stored events of one namespace and the opened logs that follow them."""

    def __init__(self, name: str, partitions: int, identity: str) -> None:
        self.name = name
        self.partitions = partitions
        self.identity = identity
        self.entries: list[list[Placed]] = [[] for _ in range(partitions)]
        self.followers: list[Follower] = []
        self.compacted: list[Position] = [""] * partitions
        """Up to where compaction went, by partition: behind it nothing is missing."""
        self.ends: list[Position] = [""] * partitions
        """Where each partition ends."""
        self._next_row = [1] * partitions

    def store(self, partition: int, event: Event | None, published_at: int, producer: str, problem: str = "") -> Placed:
        """Gives an event the next place of a partition, and shows it to all who follow."""
        placed = Placed(partition, self._next_place(partition), event, published_at, producer, problem)
        self._keep(placed)
        for follower in list(self.followers):
            follower.show(placed)
        return placed

    def _next_place(self, partition: int) -> Position:
        """Where the next event of a partition stands."""
        return rows.position_of(self._next_row[partition])

    def _keep(self, placed: Placed) -> None:
        """Adds an event at its partition's next place."""
        self._next_row[placed.partition] += 1
        self.entries[placed.partition].append(placed)
        self.ends[placed.partition] = placed.position

    def skip(self, partition: int, count: int) -> None:
        """Leaves out places, as a new ledger or a marker does: what comes next is not known to follow what was before."""
        self._next_row[partition] += count

    def compact(self, kept_from: int | None, *, deletions_kept: bool = False) -> None:
        """Forgets what newer events of the same key supersede, and deleted keys, among what was published before ``kept_from``.

        Of the announcements of leaders the newest is kept. The time is in ms; None means all. What was published then or later stays, so
        that what is left of a key is the end of its story, without a gap. ``deletions_kept``: deleted keys are not forgotten, as the
        embedded log does not for a day.
        """
        for partition, entries in enumerate(self.entries):
            old = [placed for placed in entries if kept_from is None or placed.published_at < kept_from]
            if old:
                newest = {placed.event.key: placed for placed in old if placed.event is not None}
                left = [each for each in newest.values() if deletions_kept or (each.event is not None and each.event.document is not None)]
                left += [placed for placed in old if placed.event is None and not placed.problem][-1:]
                self.entries[partition] = sorted(left, key=lambda placed: placed.position) + entries[len(old) :]
                self.compacted[partition] = max(self.compacted[partition], old[-1].position)


class MemoryStorage:
    """What is stored of all namespaces, and what happens to it without us."""

    def __init__(
        self,
        *,
        partitions: int = 1,
        name: str = "memory",
        now: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        """Makes an empty storage; ``name`` is part of the logs' identities, ``now`` tells milliseconds since 1970."""
        if partitions < 1:
            raise ValueError("a log has at least one partition")
        self.now = now
        self._partitions = partitions
        self._name = name
        self._generations: dict[str, int] = {}
        self._namespaces: dict[str, StoredNamespace] = {}

    def namespace(self, name: str) -> StoredNamespace:
        """What is stored of a namespace; nothing yet, if it is new."""
        stored = self._namespaces.get(name)
        if stored is None:
            generation = self._generations.setdefault(name, 1)
            stored = self._made(name, self._partitions, f"{self._name}/{name}/{generation}")
            self._namespaces[name] = stored
        return stored

    def _made(self, name: str, partitions: int, identity: str) -> StoredNamespace:
        return StoredNamespace(name, partitions, identity)

    def namespaces(self) -> list[str]:
        """The namespaces that were used, in order."""
        return sorted(self._namespaces)

    def write(self, namespace: str, event: Event, *, producer: str = "broker") -> Placed:
        """Stores an event of somebody else's."""
        stored = self.namespace(namespace)
        return stored.store(partition_of(event.key, stored.partitions), event, self.now(), producer)

    def skip(self, namespace: str, *, partition: int = 0, count: int = 1) -> None:
        """Leaves out places (see ``StoredNamespace.skip``)."""
        self.namespace(namespace).skip(partition, count)

    def compact(self, namespace: str, *, keep_younger_than: int | None = None, deletions_kept: bool = False) -> None:
        """Forgets what newer events of the same key supersede, but for what was published in the last so many ms, and deleted keys."""
        kept_from = None if keep_younger_than is None else self.now() - keep_younger_than
        self.namespace(namespace).compact(kept_from, deletions_kept=deletions_kept)

    def lose(self, namespace: str, *, reason: Reason = Reason.LOG_LOST) -> None:
        """Ends all opened logs of a namespace; what is stored stays."""
        stored = self.namespace(namespace)
        for follower in list(stored.followers):
            follower.lose(LogError(reason, f"The change log of {namespace} can't be followed any more. Open it again."))
