"""Positions made of row numbers: their order as strings is the order of the numbers, and adjacent rows can be recognized."""

from __future__ import annotations

from ..core.policies.events import Position

MAX_ROW = 16**15 - 1
"""The highest row number that a position can hold."""


def position_of(row: int) -> Position:
    """The position of a row (1 to ``MAX_ROW``): its hexadecimal digits, after one hexadecimal digit that says how many they are."""
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
