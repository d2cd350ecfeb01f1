"""The cells of one partition that had events lately, the longest idle first.

What the fold keeps of a key for a while after its events (``KeyState.trim``) is let go of as the log goes on, two keys with each event, so
that nobody waits. The only time is that of the events themselves, each by the clock of its producer, and any of them may be wrong, though
a wrong clock goes on as fast as a right one. So time comes to an event's own at once if that is at most W ahead, or behind; further ahead
it is only claimed by the event's producer, and stands still meanwhile:

=======  =============================================================  =======  =====================================================
state    an event is published                                          next     the time is then
=======  =============================================================  =======  =====================================================
SURE     at most W ahead of the time, or behind it                      SURE     the event's
SURE     further ahead                                                  CLAIMED  as before; its producer has a claim
CLAIMED  at most W ahead of the time, or behind it                      SURE     the event's: all claims were wrong, or came too early
CLAIMED  further ahead, at most W from the last one of another claim    SURE     the earlier one's: two clocks agree
CLAIMED  further ahead, by a producer that has claimed it for so long   SURE     the event's: whatever its clock says, so long it was
         that what had events before is idle
CLAIMED  further ahead, by a producer without a name that has a claim:  SURE     the event's: there is no other clock
         of a log that one process writes alone
CLAIMED  further ahead otherwise                                        CLAIMED  as before; its producer has a claim, which begins
                                                                                 anew behind each event of another one that it is
                                                                                 more than W ahead of: that key is not idle
=======  =============================================================  =======  =====================================================

So events with times of the future let go of nothing early, however many one producer writes. Nor do they keep the others: a cell whose
last event is in the future goes to the end of the line, until its time comes. And so does one whose next events are there already and will
be folded later than those of other cells (``unfolded``): what they were computed from may be long ago by then, but was not as they came.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Container, Iterable
from typing import NamedTuple

WINDOWS = 3
"""After so many windows W without an event a key is idle: twice W is of use, and clocks may differ by W."""
_AT_A_TIME = 2


_CLAIMS = 16
"""Producers whose claims are kept; of more the furthest ahead goes."""


class _Claim(NamedTuple):
    """What a producer says of the time, far ahead of it."""

    since: int
    """The time of the event that it begins with."""
    last: int
    """The time of the producer's last event."""


class Time:
    """The time of one partition, by its events. In milliseconds since 1970."""

    __slots__ = ("_claims", "_now", "_window_ms")

    def __init__(self, window_ms: int) -> None:
        """Of a partition without events. ``window_ms``: W, in milliseconds."""
        self._window_ms = window_ms
        self._now: int | None = None
        self._claims: dict[str, _Claim] = {}
        """By producer, in the order of their last events; SURE if there is none."""

    @property
    def now(self) -> int | None:
        """The time; None: there was no event."""
        return self._now

    def begin(self, now: int) -> None:
        """It is as late as this, and nobody claims anything else."""
        self._now = now
        self._claims.clear()

    def after(self, at: int, producer: str) -> int:
        """The time after an event of ``producer`` that was published at ``at``."""
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
            elif at > claim.last:  # an event since its own last one, if there was one before
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


class Lately:
    """The cells of one partition that are not idle, by their names; each partition is read at its own pace."""

    __slots__ = ("_awaited", "_cells", "_time", "_window_ms")

    def __init__(self, window_ms: int, awaited: Container[str] = ()) -> None:
        """No cells.

        Args:
            window_ms: W, in milliseconds.
            awaited: topics whose next events are there already, and are not folded yet: their cells do not become idle.
        """
        self._window_ms = window_ms
        self._awaited = awaited
        self._cells: OrderedDict[str, int] = OrderedDict()  # a dict is slow to find its first entry
        """When the last event of each was published, in milliseconds since 1970."""
        self._time = Time(window_ms)

    def __len__(self) -> int:
        return len(self._cells)

    @property
    def now(self) -> int | None:
        """The time by the partition's events; None: there was none."""
        return self._time.now

    def begin(self, cells: Iterable[tuple[str, int]], now: int) -> None:
        """Goes on at a time with the cells that had events lately, and when those were published; the longest idle first."""
        self._cells.update(cells)
        self._time.begin(now)

    def __contains__(self, name: object) -> bool:
        return name in self._cells

    def leave(self, name: str) -> None:
        """A cell goes on in another partition."""
        self._cells.pop(name, None)

    def rest(self, name: str) -> None:
        """A cell keeps nothing that could be let go of."""
        self._cells.pop(name, None)

    def touch(self, name: str, at: int, producer: str) -> tuple[int, list[str]]:
        """An event of a cell was published by ``producer`` at ``at`` (milliseconds since 1970), and has been folded.

        Returns:
            The time, and the cells that have become idle.
        """
        now = self._time.after(at, producer)
        cells = self._cells
        cells[name] = at
        cells.move_to_end(name)
        idle: list[str] = []
        for _ in range(_AT_A_TIME):
            first, touched_at = next(iter(cells.items()))
            is_idle = touched_at < now - WINDOWS * self._window_ms
            if not is_idle and touched_at <= now + self._window_ms:
                break
            if is_idle and not self._is_awaited(first):
                del cells[first]
                idle.append(first)
            else:
                cells.move_to_end(first)
        return now, idle

    def _is_awaited(self, name: str) -> bool:
        awaited = self._awaited
        return name in awaited or name[1:] in awaited  # one sign more is before the topic for all clusters
