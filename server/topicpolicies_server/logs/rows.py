"""What the logs without a broker have in common: one partition, one writer, and positions that are row numbers without gaps.

The order of such positions as strings is the order of the numbers, and adjacent rows can be recognized.
"""

from __future__ import annotations

from ..core.names import PolicyKey
from ..core.policies.events import Position
from .avro.codec import EMBEDDED_CLUSTER
from .change_log import ANYBODY, Leadership


def position_of(row: int) -> Position:
    """The position of a row (1 to 16**15 - 1): its hexadecimal digits, after one hexadecimal digit that says how many they are."""
    digits = f"{row:x}"
    return f"{len(digits):x}{digits}"


def row_of(position: Position) -> int:
    """The row number of a position; 0, which is before every row, for the empty string.

    Raises:
        ValueError: the text is not a position that ``position_of`` makes.
    """
    if not position:
        return 0
    row = int(position[1:], 16)
    if position_of(row) != position or row == 0:
        raise ValueError(f'"{position}" is not the position of a row')
    return row


def directly_follows(earlier: Position, later: Position) -> bool:
    """Whether two positions are those of adjacent rows; ``earlier`` may be "" for the beginning."""
    try:
        return position_of(row_of(earlier) + 1) == later
    except ValueError:
        return False


class Brokerless:
    """The members of ``change_log.NamespaceLog`` that are the same in every log without a broker."""

    @property
    def partitions(self) -> int:
        """One."""
        return 1

    @property
    def shared(self) -> bool:
        """False: only this process writes."""
        return False

    @property
    def cluster(self) -> str:
        """The name that the embedded log's events have for the cluster."""
        return EMBEDDED_CLUSTER

    @property
    def in_place(self) -> bool:
        """False: no broker writes to this log."""
        return False

    @property
    def leadership(self) -> Leadership:
        """``ANYBODY``: there is no leader to elect."""
        return ANYBODY

    def contend(self) -> None:
        """Does nothing: see ``leadership``."""

    def partition_of(self, key: PolicyKey) -> int:
        """0: there is one partition."""
        del key
        return 0

    def follows(self, earlier: Position, later: Position) -> bool:
        """Whether the row numbers are adjacent: rows are numbered without gaps."""
        return directly_follows(earlier, later)
