"""The order of the log: its reader delivers events, and it acknowledges ours; each is taken once, when all events before it were taken.

The reader delivers events in order, but a stock broker wakes its readers only every 10 ms (``managedLedgerNewEntriesCheckDelayInMillis``).
Positions can prove the order sooner: if nothing can stand between the last event that was taken and an acknowledged event of ours, that
event is taken at once. It still is on its way back to us: the reader delivers it later, and must agree. An acknowledged event that nothing
proves waits for the reader.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence

from ..policies.events import Placed, Position


class Disagreement(Exception):
    """The reader delivered an event where a proof had said that there was none, or another one."""


class LogOrder:
    """Merges the events that the reader delivers and those that the log acknowledges into one order for each partition.

    ``acknowledged`` and ``read`` return the events that may now be taken, in order; each event of the log is returned once.
    """

    __slots__ = ("_follows", "_proven", "_read", "_waiting", "positions")

    def __init__(self, partitions: int, follows: Callable[[Position, Position], bool], start: Sequence[Position] = ()) -> None:
        """Begins at the beginning of the log, or after ``start``: all events up to there were taken before.

        ``follows``: returns whether, by their positions, nothing can stand between a position and a later one.
        """
        self._follows = follows
        self.positions: list[Position] = list(start) or [""] * partitions
        """The last position that was taken or passed, by partition; "" where there is none."""
        self._read: list[Position] = list(self.positions)
        """The last position that the reader delivered, by partition."""
        self._proven: list[dict[Position, str]] = [{} for _ in range(partitions)]
        """Events that were taken by proof and not read yet, by partition: position -> event id."""
        self._waiting: list[list[tuple[Position, Placed]]] = [[] for _ in range(partitions)]
        """Events that are acknowledged but not proven, by partition, each a heap by position."""

    @property
    def unread(self) -> int:
        """How many events were taken by proof and have not been read yet: how far the reader is behind."""
        return sum(map(len, self._proven))

    @property
    def waiting(self) -> int:
        """How many acknowledged events wait for the reader."""
        return sum(map(len, self._waiting))

    def is_read(self, positions: Iterable[Position]) -> bool:
        """Returns whether the reader has delivered all events that were taken by proof up to some positions, by partition."""
        return not any(next(iter(proven), end + "~") <= end for proven, end in zip(self._proven, positions, strict=True))

    def passed(self, positions: Iterable[Position]) -> None:
        """Notes that all events up to some positions, by partition, are known: they were read, or superseded by events that were."""
        self.positions = list(map(max, self.positions, positions))

    def acknowledged(self, events: Iterable[Placed]) -> list[Placed]:
        """Takes events of ours that the log has acknowledged. Returns the events that may now be taken into the view."""
        taken: list[Placed] = []
        for placed in events:
            partition, position = placed.partition, placed.position
            last = self.positions[partition]
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
        """Takes events that the reader delivered. Returns those that may now be taken into the view.

        Raises:
            Disagreement: the reader contradicts a proof; the view must not be trusted any more.
        """
        taken: list[Placed] = []
        for placed in events:
            partition, position = placed.partition, placed.position
            if position <= self._read[partition]:
                continue  # delivered twice, after a reconnect
            self._read[partition] = position
            if position <= self.positions[partition]:
                expected = self._proven[partition].pop(position, None)
                found = placed.event.stamp.event_id if placed.event is not None and placed.event.stamp is not None else None
                if expected is None or expected != found:
                    raise Disagreement(f"partition {partition}, position {position}: read {found}, proven {expected}")
                continue
            self.positions[partition] = position
            taken.append(placed)
            if self._waiting[partition]:
                self._drain(partition, taken)
        return taken

    def _take_proven(self, placed: Placed, taken: list[Placed]) -> None:
        assert placed.event is not None and placed.event.stamp is not None, "only events of ours are acknowledged"
        self.positions[placed.partition] = placed.position
        self._proven[placed.partition][placed.position] = placed.event.stamp.event_id
        taken.append(placed)

    def _drain(self, partition: int, taken: list[Placed]) -> None:
        waiting = self._waiting[partition]
        while waiting:
            position, placed = waiting[0]
            last = self.positions[partition]
            if position > last:
                if not self._follows(last, position):
                    return
                self._take_proven(placed, taken)
            heapq.heappop(waiting)
