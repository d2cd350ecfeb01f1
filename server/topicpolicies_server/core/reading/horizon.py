"""From which places of a log a watcher can resume with the view's heads alone: those after which every key that changed has a head.

This is decided by partition, for the position ``at`` of the watcher's token:

=================================  =======  ======================================================================================
``at``                             resumes  why
=================================  =======  ======================================================================================
before ``since``                   no       events there were compacted away, or deletions forgotten, or heads were corrected
in a gap: after where the gap      no       the log was not followed there, and some events may be compacted away or forgotten: a
began, and before where it ends             key may have come and gone without a trace here
anywhere else, also ahead          yes      every key that has changed after ``at`` has a head
=================================  =======  ======================================================================================

A watcher that stands where a gap begins, or before, can resume: each key that it may know, and that vanished in the gap, has an absence.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..policies.events import Position

MOST_GAPS = 16
"""How many gaps of a partition are kept; of more, the oldest is dropped, and ``since`` moves to its end."""


class _Partition:
    __slots__ = ("gaps", "since")

    def __init__(self, since: Position) -> None:
        self.since = since
        self.gaps: list[tuple[Position, Position]] = []
        """The positions where each gap began and where it ends; the oldest first."""

    def serves(self, at: Position) -> bool:
        return at >= self.since and not any(began < at < ends for began, ends in self.gaps)

    def begin(self, since: Position) -> None:
        self.since = max(self.since, since)

    def miss(self, began: Position, ends: Position) -> None:
        if began < ends:
            self.gaps.append((began, ends))
            if len(self.gaps) > MOST_GAPS:
                self.begin(self.gaps.pop(0)[1])


class Horizon:
    """The places from which watchers can resume, for all partitions of a log."""

    def __init__(self, since: Sequence[Position]) -> None:
        """``since``: by partition, the position after which every key that changed has a head."""
        self._partitions = [_Partition(position) for position in since]

    def serves(self, positions: Sequence[Position]) -> bool:
        """Returns whether a watcher can resume from a place."""
        return all(partition.serves(at) for partition, at in zip(self._partitions, positions, strict=True))

    def opened_anew(self, stood: Sequence[Position], since: Sequence[Position]) -> None:
        """Notes the gaps that arise when the log was lost and is followed again.

        Args:
            stood: the positions up to which the log was followed before; fewer than in ``since`` if there are new partitions.
            since: the positions after which every key that changed has a head again.
        """
        for partition, began, ends in zip(self._partitions, stood, since, strict=False):
            partition.miss(began, ends)
        self._partitions += [_Partition(position) for position in since[len(self._partitions) :]]

    def begin(self, partition: int, since: Position) -> None:
        """Sets ``since`` of a partition after a correction: heads that watchers were sent before this position may have been wrong."""
        self._partitions[partition].begin(since)
