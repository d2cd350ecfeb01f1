"""Read-back: proof before waiting.

An event counts once everything before it in its partition is known. Usually the reader tells. But where positions prove
that nothing stands between what was taken last and an acknowledged event of ours, waiting for the reader would be waiting for what
is known already, and the event is taken at once. The reader delivers it later all the same, and must agree.

(A stock broker wakes its readers every 10 ms, ``managedLedgerNewEntriesCheckDelayInMillis``; a publish takes 3 ms.)
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from ..policies.events import Placed, Position


class Disagreement(Exception):
    """The reader delivered something where a proof had said that there was nothing, or something else."""


class Located(Protocol):
    """What stands in a log."""

    @property
    def partition(self) -> int:
        """Where."""

    @property
    def position(self) -> Position:
        """Where in that."""


L = TypeVar("L", bound=Located)


class ReadBack:
    """Brings what is read and what is acknowledged into the one order of each partition.

    Both methods return the events that may now be taken, in order; each event of the log is returned exactly once.
    """

    __slots__ = ("_follows", "_proven", "_read", "_taken", "_waiting")

    def __init__(self, partitions: int, follows: Callable[[Position, Position], bool], start: Sequence[Position] = ()) -> None:
        """Begins at the beginning, or behind ``start``: everything up to there was taken before."""
        self._follows = follows
        self._taken: list[Position] = list(start) or [""] * partitions
        """The last position that was returned, by partition."""
        self._read: list[Position] = list(self._taken)
        """The last position that the reader delivered, by partition."""
        self._proven: list[dict[Position, str]] = [{} for _ in range(partitions)]
        """What was taken by proof and not read yet: position -> event id."""
        self._waiting: list[list[tuple[Position, Placed]]] = [[] for _ in range(partitions)]
        """Heaps of what is acknowledged but not proven."""

    @property
    def positions(self) -> Sequence[Position]:
        """The last position taken or passed, by partition; "" where there is none."""
        return self._taken

    @property
    def unread(self) -> int:
        """Events that were taken by proof and have not been read yet: how far the reader is behind."""
        return sum(map(len, self._proven))

    @property
    def waiting(self) -> int:
        """Acknowledged events that wait for the reader."""
        return sum(map(len, self._waiting))

    def is_confirmed(self, positions: Iterable[Position]) -> bool:
        """Whether the reader has delivered everything up to some positions, by partition, that was taken by proof."""
        return not any(next(iter(proven), end + "~") <= end for proven, end in zip(self._proven, positions, strict=True))

    def passed(self, positions: Iterable[Position]) -> None:
        """Everything up to here, by partition, is known: it was read, or what was not read has been superseded by what was."""
        self._taken = list(map(max, self._taken, positions))

    def acknowledged(self, events: Iterable[Placed]) -> list[Placed]:
        """Events of ours that the log has acknowledged."""
        taken: list[Placed] = []
        for placed in events:
            partition, position = placed.partition, placed.position
            last = self._taken[partition]
            if position <= last:
                continue  # the reader was faster
            if self._follows(last, position):
                self._take_proven(placed, taken)
                if self._waiting[partition]:
                    self._drain(partition, taken)
            else:
                heapq.heappush(self._waiting[partition], (position, placed))
        return taken

    def read(self, events: Iterable[Placed]) -> list[Placed]:
        """Events that the reader delivered.

        Raises:
            Disagreement: the reader contradicts a proof; the view is not to be trusted any more.
        """
        taken: list[Placed] = []
        for placed in events:
            partition, position = placed.partition, placed.position
            if position <= self._read[partition]:
                continue  # delivered twice, after a reconnect
            self._read[partition] = position
            if position <= self._taken[partition]:
                expected = self._proven[partition].pop(position, None)
                found = placed.event.stamp.event_id if placed.event is not None and placed.event.stamp is not None else None
                if expected is None or expected != found:
                    raise Disagreement(f"partition {partition}, position {position}: read {found}, proven {expected}")
                continue
            self._taken[partition] = position
            taken.append(placed)
            if self._waiting[partition]:
                self._drain(partition, taken)
        return taken

    @property
    def undisputed(self) -> bool:
        """Whether nothing is proven that was not read, and nothing waits to be: what is read is not compared with anything then."""
        return not (any(self._proven) or any(self._waiting))

    def skim(self, entries: Iterable[L]) -> list[L]:
        """The same as ``read`` where that is ``undisputed``, for entries whose event nobody has looked at.

        Raises:
            Disagreement: the reader delivered what should have come before what was taken.
        """
        taken: list[L] = []
        for entry in entries:
            partition, position = entry.partition, entry.position
            if position > self._read[partition]:
                self._read[partition] = position
                if position <= self._taken[partition]:
                    raise Disagreement(f"partition {partition}, position {position}: read behind {self._taken[partition]}")
                self._taken[partition] = position
                taken.append(entry)
        return taken

    def _take_proven(self, placed: Placed, taken: list[Placed]) -> None:
        assert placed.event is not None and placed.event.stamp is not None, "only events of ours are acknowledged"
        self._taken[placed.partition] = placed.position
        self._proven[placed.partition][placed.position] = placed.event.stamp.event_id
        taken.append(placed)

    def _drain(self, partition: int, taken: list[Placed]) -> None:
        waiting = self._waiting[partition]
        while waiting:
            position, placed = waiting[0]
            last = self._taken[partition]
            if position > last:
                if not self._follows(last, position):
                    return
                self._take_proven(placed, taken)
            heapq.heappop(waiting)
