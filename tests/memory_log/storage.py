"""The storage of a simulated cluster: the events of its namespaces, which producers may write them, and what others do to them.

A partition that has one writer at a time (PIP-68) has one *seat*. A producer takes the seat if it is free, or queues for it. While a
producer has the seat, the storage takes events only from that producer. A producer that has left a seat never gets any seat again.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Protocol

from tests.logs.routing import partition_of
from topicpolicies_server.core.errors import Kind
from topicpolicies_server.core.policies.events import Event, Placed, Position
from topicpolicies_server.core.reasons import LogState, Reason
from topicpolicies_server.logs.change_log import LogError
from topicpolicies_server.logs.sqlite import file as rows


class Producer:
    """One process's exclusive producer of one partition.

    Attributes:
        name: the name of the writer in its entries.
        partition: the partition that it writes.
    """

    def __init__(self, name: str, partition: int) -> None:
        """Has no seat yet."""
        self.name = name
        self.partition = partition


class _Waiting(NamedTuple):
    producer: Producer
    seated: Callable[[], None]


class Seat:
    """The right to write one partition."""

    def __init__(self) -> None:
        """The seat is free."""
        self.holder: Producer | None = None
        """The producer that has the seat."""
        self._line: deque[_Waiting] = deque()

    def take(self, producer: Producer) -> bool:
        """Gives the seat to a producer if it is free. Returns whether the producer has it now."""
        if self.holder is None:
            self.holder = producer
        return self.holder is producer

    def wait(self, producer: Producer, seated: Callable[[], None]) -> None:
        """Queues a producer; when it gets the seat, after those that have it or wait for it have left, calls ``seated``."""
        self._line.append(_Waiting(producer, seated))
        self._seat_next()

    def leave(self, producer: Producer) -> bool:
        """Takes the seat, or the place in the queue, from a producer. Returns whether it had either."""
        if self.holder is producer:
            self.holder = None
            self._seat_next()
            return True
        before = len(self._line)
        self._line = deque(each for each in self._line if each.producer is not producer)
        return len(self._line) < before

    def _seat_next(self) -> None:
        if self.holder is None and self._line:
            producer, seated = self._line.popleft()
            self.holder = producer
            seated()


class Follower(Protocol):
    """An open log of a stored namespace."""

    def show(self, placed: Placed) -> None:
        """Takes an entry that was stored."""

    def lose(self, error: LogError) -> None:
        """Ends the log: it can't be followed any more."""


class StoredNamespace:
    """The stored events of one namespace, the open logs that follow them, and which producers may write them."""

    def __init__(self, name: str, partitions: int, identity: str) -> None:
        self.name = name
        self.partitions = partitions
        self.identity = identity
        self.entries: list[list[Placed]] = [[] for _ in range(partitions)]
        self.followers: list[Follower] = []
        self.compacted: list[Position] = [""] * partitions
        """The position up to which each partition was compacted: behind it nothing is missing."""
        self.ends: list[Position] = [""] * partitions
        """The position of the newest entry that each partition ever had."""
        self.seats = [Seat() for _ in range(partitions)]
        """By partition: the seat of its exclusive producer, if it has one."""
        self._next_row = [1] * partitions

    def store(self, partition: int, event: Event | None, published_at: int, producer: str, problem: str = "") -> Placed:
        """Stores an event at the next position of a partition, and sends the entry to all followers."""
        placed = Placed(partition, self._next_place(partition), event, published_at, producer, problem)
        self._keep(placed)
        for follower in list(self.followers):
            follower.show(placed)
        return placed

    def _next_place(self, partition: int) -> Position:
        """The position that the next entry of a partition gets."""
        return rows.position_of(self._next_row[partition])

    def _keep(self, placed: Placed) -> None:
        """Adds an entry at its partition's next position."""
        self._next_row[placed.partition] += 1
        self.entries[placed.partition].append(placed)
        self.ends[placed.partition] = placed.position

    def skip(self, partition: int, count: int) -> None:
        """Skips ``count`` positions, as a new ledger or a marker does: the next entry is not known to follow the one before."""
        self._next_row[partition] += count

    def compact(self, kept_from: int | None, *, deletions_kept: bool = False) -> None:
        """Removes superseded events and deleted keys. Of the announcements of leaders the newest is kept.

        Args:
            kept_from: entries published at this time (ms since 1970) or later stay, so that what is left of a key is the end of its history
                without a gap; None: no entry is too young.
            deletions_kept: whether the tombstones of deleted keys stay, as in the embedded log for a day.
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
    """The stored events of all namespaces, with methods for what others do to them: writes, compactions, interruptions."""

    def __init__(self, *, partitions: int = 1, now: Callable[[], int] = lambda: time.time_ns() // 1_000_000) -> None:
        """Makes an empty storage.

        ``partitions``: of each namespace's log; ``now``: the clock, in milliseconds since 1970.
        """
        self.now = now
        self._partitions = partitions
        self._generations: dict[str, int] = {}
        self._namespaces: dict[str, StoredNamespace] = {}
        self._terms = 0
        self.in_place = False
        """Whether its brokers change the documents in their caches in place (see ``change_log.NamespaceLog.in_place``)."""

    def namespace(self, name: str) -> StoredNamespace:
        """The stored events of a namespace; creates an empty one if it is new."""
        stored = self._namespaces.get(name)
        if stored is None:
            generation = self._generations.setdefault(name, 1)
            stored = self._made(name, self._partitions, f"memory/{name}/{generation}")
            self._namespaces[name] = stored
        return stored

    def _made(self, name: str, partitions: int, identity: str) -> StoredNamespace:
        return StoredNamespace(name, partitions, identity)

    def namespaces(self) -> list[str]:
        """The names of the namespaces that were used, sorted."""
        return sorted(self._namespaces)

    def leader_name(self, cluster: str, address: str) -> str:
        """Returns a new name for the producers of a term, in the form that ``logs/leadership`` parses."""
        self._terms += 1
        return f"topicpolicies/{cluster}/{self._terms:x}/{address}"

    def write(self, namespace: str, event: Event, *, producer: str = "broker") -> Placed:
        """Stores an event of another writer, such as a broker.

        Raises:
            LogError: a process has the exclusive producer of the partition.
        """
        stored = self.namespace(namespace)
        partition = partition_of(event.key, stored.partitions)
        if stored.seats[partition].holder is not None:
            raise LogError(LogState.FENCED, "Another process holds the exclusive producer.", kind=Kind.FAILED_PRECONDITION)
        return stored.store(partition, event, self.now(), producer)

    def write_unreadable(self, namespace: str, *, partition: int = 0) -> None:
        """Stores an entry that can't be read."""
        self.namespace(namespace).store(partition, None, self.now(), "broker", "not an event")

    def skip(self, namespace: str, *, partition: int = 0, count: int = 1) -> None:
        """Skips positions (see ``StoredNamespace.skip``)."""
        self.namespace(namespace).skip(partition, count)

    def compact(self, namespace: str, *, keep_younger_than: int | None = None, deletions_kept: bool = False) -> None:
        """Compacts a namespace, except its entries of the last ``keep_younger_than`` ms (see ``StoredNamespace.compact``)."""
        kept_from = None if keep_younger_than is None else self.now() - keep_younger_than
        self.namespace(namespace).compact(kept_from, deletions_kept=deletions_kept)

    def lose(self, namespace: str, *, why: Reason | LogState = LogState.LOST) -> None:
        """Ends all open logs of a namespace; the stored events stay."""
        stored = self.namespace(namespace)
        for follower in list(stored.followers):
            follower.lose(LogError(why, f"The change log of {namespace} can't be followed any more. Open it again."))

    def recreate(self, namespace: str) -> None:
        """Deletes what is stored of a namespace, and begins a new log with a new identity in its place."""
        self.lose(namespace)
        self._namespaces.pop(namespace, None)
        self._generations[namespace] = self._generations.get(namespace, 1) + 1
