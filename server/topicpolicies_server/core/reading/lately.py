"""The cells of one partition that had events lately, the longest idle first.

What the fold keeps of a key for a while after its events (``KeyState.trim``) is let go of as the log goes on, two keys with each event, so
that nobody waits. The only time is that of the events themselves, and any of them may be wrong:

==============================================  ======================================================================================
an event is published                           the time is then
==============================================  ======================================================================================
at most W after the one before, or before it    its own
more than W after the one before                still that of the one before: its own counts when the next event agrees
==============================================  ======================================================================================

So one event with a time of the future lets go of nothing early. Nor does it keep the others: a cell whose last event is in the future
goes to the end of the line, until its time comes.
"""

from __future__ import annotations

from collections import OrderedDict

from .heads import Cell

WINDOWS = 3
"""After so many windows W without an event a key is idle: twice W is of use, and clocks may differ by W."""
_AT_A_TIME = 2


class Lately:
    """The cells of one partition that are not idle; each partition is read at its own pace."""

    __slots__ = ("_cells", "_last", "_window_ms")

    def __init__(self, window_ms: int) -> None:
        """``window_ms``: W, in milliseconds."""
        self._window_ms = window_ms
        self._cells: OrderedDict[Cell, None] = OrderedDict()  # a dict is slow to find its first entry
        self._last: int | None = None
        """When the last event was published, in milliseconds since 1970, right or wrong."""

    def __len__(self) -> int:
        return len(self._cells)

    def leave(self, cell: Cell) -> None:
        """A cell goes on in another partition."""
        self._cells.pop(cell, None)

    def touch(self, cell: Cell, at: int) -> None:
        """An event of a cell was published at ``at`` (milliseconds since 1970), and has been folded."""
        last, self._last = self._last, at
        now = at if last is None or at - last <= self._window_ms else last
        cell.touched_at = at
        cell.lately = True
        cells = self._cells
        cells[cell] = None
        cells.move_to_end(cell)
        for _ in range(_AT_A_TIME):
            first = next(iter(cells))
            if first.touched_at < now - WINDOWS * self._window_ms:
                del cells[first]
                first.lately = False
                first.state.trim(now, self._window_ms)
            elif first.touched_at > now + self._window_ms:
                cells.move_to_end(first)
            else:
                return
