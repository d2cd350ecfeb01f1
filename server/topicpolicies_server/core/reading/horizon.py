"""From which places of a log one can go on with the heads alone: those behind which they tell of every key that has changed.

It is kept by partition, for each position ``at`` where somebody may stand:

=================================  ========  =====================================================================================
where                              goes on   why
=================================  ========  =====================================================================================
before ``since``                   no        what happened there was compacted away, or forgotten, or turned out otherwise
in a gap: behind where it began,   no        the log was not followed meanwhile, and what was compacted away of that, or forgotten,
and before where it ends                     nobody knows here: a key may have come and gone
anywhere else, also ahead          yes       every key that has changed behind it has a head
=================================  ========  =====================================================================================

Whoever stands where a gap begins, or before, goes on all the same: of the keys that there were by then an absence is found.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..policies.events import Position

MOST_GAPS = 16
"""Gaps of a partition that are kept apart; what is before an older one can't be gone on from."""


class _Partition:
    __slots__ = ("gaps", "since")

    def __init__(self, since: Position) -> None:
        self.since = since
        self.gaps: list[tuple[Position, Position]] = []
        """Where each began, and where it ends; the oldest first."""

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
    """Of all partitions of a log."""

    def __init__(self, since: Sequence[Position]) -> None:
        """``since``: behind which positions everything is known."""
        self._partitions = [_Partition(position) for position in since]

    def serves(self, positions: Sequence[Position]) -> bool:
        """Whether one can go on from a place."""
        return all(partition.serves(at) for partition, at in zip(self._partitions, positions, strict=True))

    def opened_anew(self, stood: Sequence[Position], since: Sequence[Position]) -> None:
        """The log was lost, and is followed again.

        Args:
            stood: up to which positions it was followed before; there may be fewer of them: the others are of new partitions.
            since: behind which positions everything is known that it says now.
        """
        for partition, began, ends in zip(self._partitions, stood, since, strict=False):
            partition.miss(began, ends)
        self._partitions += [_Partition(position) for position in since[len(self._partitions) :]]

    def begin(self, partition: int, since: Position) -> None:
        """Behind this position of a partition everything is known; what was told before was not as it was told."""
        self._partitions[partition].begin(since)
