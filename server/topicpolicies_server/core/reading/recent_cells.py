"""The cells of one partition that had events lately, the longest idle first; and the time, as far as the events' clocks agree on it.

What the fold keeps of a key for a while after its events (``KeyState.trim``) is dropped as the log goes on, for at most two keys with each
event, so that no event takes long. The only time here is that of the events, each by the clock of its producer. Any of these clocks may be
wrong, though a wrong clock runs as fast as a right one. So the time becomes an event's own at once if that is at most W ahead of it, or
behind it. A time further ahead is only a *claim* of the event's producer, and the time stands still meanwhile:

=======  =============================================================  =======  =====================================================
state    an event arrives, with a time                                  next     the time is then
=======  =============================================================  =======  =====================================================
SURE     at most W ahead of the time here, or behind it                 SURE     the event's
SURE     further ahead                                                  CLAIMED  as before; the event's producer has a claim
CLAIMED  at most W ahead of the time here, or behind it                 SURE     the event's: all claims were wrong, or came too early
CLAIMED  further ahead, at most W from the last time of another claim   SURE     the earlier of these two: two clocks agree
CLAIMED  further ahead, by a producer whose claim spans so much time    SURE     the event's: even if that clock is wrong, that much
         that cells without events since its beginning are idle                  time has passed
CLAIMED  further ahead, by a producer without a name that has a claim:  SURE     the event's: there is no other clock
         in a log that one process writes alone
CLAIMED  further ahead otherwise                                        CLAIMED  as before; the event's producer has a claim, which
                                                                                 begins anew after each event of another claim that is
                                                                                 more than W behind it: that event's key is not idle
=======  =============================================================  =======  =====================================================

So events with times in the future make no cell idle too early, however many one producer writes. Nor do they keep other cells from becoming
idle: a cell whose last event is in the future goes to the end of the line until its time comes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import NamedTuple

WINDOWS = 3
"""How many windows W a key is without an event when it counts as idle: its state is of use for twice W, and clocks may differ by W."""
_AT_A_TIME = 2


_CLAIMS = 16
"""How many producers' claims are kept; of more, the one furthest ahead is dropped."""


class _Claim(NamedTuple):
    """A producer's claim that the time is far ahead of what it is here."""

    since: int
    """The time of the event with which the claim begins."""
    last: int
    """The time of the producer's last event."""


class EventClock:
    """The time of one partition, by its events. In milliseconds since 1970."""

    __slots__ = ("_claims", "_now", "_window_ms")

    def __init__(self, window_ms: int) -> None:
        """Begins without events. ``window_ms``: W, in milliseconds."""
        self._window_ms = window_ms
        self._now: int | None = None
        self._claims: dict[str, _Claim] = {}
        """Claims by producer, in the order of the producers' last events; without claims the state is SURE."""

    @property
    def now(self) -> int | None:
        """The time; None: there was no event."""
        return self._now

    def begin(self, now: int) -> None:
        """Sets the time, and drops all claims."""
        self._now = now
        self._claims.clear()

    def after(self, at: int, producer: str) -> int:
        """Takes an event of ``producer`` that was published at ``at``; returns the time after it."""
        if self._now is None or at - self._now <= self._window_ms:
            self._now = at
            if self._claims:
                self._claims.clear()
            return at
        since = at
        for other, claim in self._claims.items():
            if other == producer:
                since = claim.since
            elif abs(at - claim.last) <= self._window_ms:
                self._now = min(at, claim.last)
                self._claims.clear()
                return self._now
            elif at > claim.last:  # if that event came after this producer's last one, its claim begins anew
                since = at
        if at - since > WINDOWS * self._window_ms or (not producer and producer in self._claims):
            self._now = at
            self._claims.clear()
        else:
            self._claims.pop(producer, None)
            self._claims[producer] = _Claim(since, at)
            if len(self._claims) > _CLAIMS:
                del self._claims[max(self._claims, key=lambda name: self._claims[name].last)]
        return self._now


class RecentCells:
    """The cells of one partition that are not idle, by name. Each partition has its own, because each is read at its own pace."""

    __slots__ = ("_cells", "_clock", "_window_ms")

    def __init__(self, window_ms: int) -> None:
        """Begins without cells. ``window_ms``: W, in milliseconds."""
        self._window_ms = window_ms
        self._cells: OrderedDict[str, int] = OrderedDict()  # finding the first entry of a dict is slow
        """When the last event of each cell was published, in milliseconds since 1970."""
        self._clock = EventClock(window_ms)

    def __len__(self) -> int:
        return len(self._cells)

    @property
    def now(self) -> int | None:
        """The time by the partition's events; None: there was none."""
        return self._clock.now

    def begin(self, cells: Iterable[tuple[str, int]], now: int) -> None:
        """Sets the time, and adds cells that had events lately with the times of their last events, the longest idle first."""
        self._cells.update(cells)
        self._clock.begin(now)

    def __contains__(self, name: object) -> bool:
        return name in self._cells

    def leave(self, name: str) -> None:
        """Removes a cell whose next event stands in another partition."""
        self._cells.pop(name, None)

    def rest(self, name: str) -> None:
        """Removes a cell that has nothing to be dropped when it becomes idle."""
        self._cells.pop(name, None)

    def touch(self, name: str, at: int, producer: str) -> tuple[int, list[str]]:
        """Notes that an event of a cell was folded, which ``producer`` published at ``at`` (milliseconds since 1970).

        Returns:
            The time, and the names of cells that have become idle, which are removed.
        """
        now = self._clock.after(at, producer)
        cells = self._cells
        cells[name] = at
        cells.move_to_end(name)
        idle: list[str] = []
        for _ in range(_AT_A_TIME):
            first, touched_at = next(iter(cells.items()))
            is_idle = touched_at < now - WINDOWS * self._window_ms
            if not is_idle and touched_at <= now + self._window_ms:
                break
            if is_idle:
                del cells[first]
                idle.append(first)
            else:
                cells.move_to_end(first)
        return now, idle
