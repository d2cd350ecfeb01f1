"""Events of this process that brokers have acknowledged, kept until they are read back, so that they need not be decoded.

The acknowledgement of an append says where the event stands. When the message at that place is read, its event id tells whether it is the
event that was appended here; if it is not, or if no event is kept for the place, the message is decoded.

========  ==============================================================  =======  ================================================
place     event                                                           next     action
========  ==============================================================  =======  ================================================
NOTHING   acknowledged before it is read                                  KEPT     keep the event, unless ``MOST`` are kept
NOTHING   acknowledged after it was read, or out of order                 NOTHING  none: it was decoded, or will be
NOTHING   read                                                            NOTHING  decode the message
KEPT      read                                                            NOTHING  return the event
KEPT      a later place is read                                           NOTHING  drop the event
========  ==============================================================  =======  ================================================
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from ....core.policies.events import Event, Placed, Position

MOST = 1_024
"""How many events of one partition are kept, which is how far the reader may lag. Events beyond that are decoded when they are read."""


class Acknowledged:
    """Events of one partition that were acknowledged and not read yet."""

    __slots__ = ("_kept", "_last", "_most")

    def __init__(self, most: int = MOST) -> None:
        """Keeps nothing yet. ``most``: how many events may be kept."""
        self._most = most
        self._kept: deque[tuple[Position, Event]] = deque()
        self._last: Position = ""
        """The last place that was read, or for which an event was kept."""

    def __len__(self) -> int:
        return len(self._kept)

    def note(self, events: Iterable[Placed]) -> None:
        """Takes events that were acknowledged, in the order of the log."""
        for placed in events:
            if placed.event is not None and placed.position > self._last and len(self._kept) < self._most:
                self._kept.append((placed.position, placed.event))
                self._last = placed.position

    def read(self, position: Position) -> Event | None:
        """Returns the event that was acknowledged at a place, which is now read; None: none is kept. Places are read in log order."""
        kept = self._kept
        while kept and kept[0][0] <= position:
            at, event = kept.popleft()
            if at == position:
                return event
        self._last = max(self._last, position)
        return None
