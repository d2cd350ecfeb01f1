"""Slices: what a reader hands over between two turns of the event loop for others."""

from __future__ import annotations

SECONDS = 0.005
"""How long one slice may take, where many entries come at once."""
_FEW = 16
"""Fewer entries than this may be handed over without a turn for others, but not"""
_IN_A_ROW = 8
"""times one after the other: under load, entries of ours come one by one."""


class Slices:
    """Knows when others are to have a turn."""

    __slots__ = ("_in_a_row",)

    def __init__(self) -> None:
        self._in_a_row = 0

    def ends(self, entries: int) -> bool:
        """So many entries were handed over at once: whether the slice ends with them."""
        self._in_a_row += 1
        if entries < _FEW and self._in_a_row < _IN_A_ROW:
            return False
        self._in_a_row = 0
        return True
