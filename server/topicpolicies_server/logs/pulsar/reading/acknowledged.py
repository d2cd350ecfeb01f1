"""Events of ours that brokers have acknowledged, until they are read: what is read there need not be decoded again.

Whoever appends an event has it, and an acknowledgement says where it stands. So when a message is read there, its id tells whether it is
that event; if it is not, or if nothing is kept of its place, it is decoded.

========  ==============================================================  =======  ================================================
a place   what happens                                                    next     what is done
========  ==============================================================  =======  ================================================
NOTHING   its acknowledgement comes, before it is read                    KEPT     the event is kept, unless ``MOST`` are
NOTHING   its acknowledgement comes, after it was read, or out of order   NOTHING  nothing: it was decoded, or will be
NOTHING   it is read                                                      NOTHING  it is decoded
KEPT      it is read                                                      NOTHING  the event is given back
KEPT      a later place is read                                           NOTHING  the event is let go of
========  ==============================================================  =======  ================================================
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from ....core.policies.events import Event, Placed, Position

MOST = 1_024
"""Events of one partition that are kept: by so many the reader may be behind. Those that come behind them are decoded."""


class Acknowledged:
    """Events of one partition that were acknowledged and have not been read."""

    __slots__ = ("_kept", "_last", "_most")

    def __init__(self, most: int = MOST) -> None:
        """Nothing is kept. ``most``: how many events may be."""
        self._most = most
        self._kept: deque[tuple[Position, Event]] = deque()
        self._last: Position = ""
        """The last place that was read, or of which an event was kept."""

    def __len__(self) -> int:
        return len(self._kept)

    def note(self, events: Iterable[Placed]) -> None:
        """Events were acknowledged, in the order of the log."""
        for placed in events:
            if placed.event is not None and placed.position > self._last and len(self._kept) < self._most:
                self._kept.append((placed.position, placed.event))
                self._last = placed.position

    def read(self, position: Position) -> Event | None:
        """What was acknowledged at a place that is read now; None: nothing is known of it. Places are read in the order of the log."""
        kept = self._kept
        while kept and kept[0][0] <= position:
            at, event = kept.popleft()
            if at == position:
                return event
        self._last = max(self._last, position)
        return None
