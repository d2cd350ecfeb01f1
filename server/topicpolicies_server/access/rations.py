"""How much of the server each principal may use: concurrent calls, watches, bytes in flight, and changes per second.

A call beyond its principal's ration (``Ration``) is refused before its request is looked at.

Changes are limited by a token bucket, which holds a second's tokens and is refilled evenly; each change takes one. Batches reserve tokens,
one after the other, and wait for them. They leave one in the bucket, so that they do not starve the same principal's calls with a single
change. Such calls can wait in a queue for their tokens: each has its turn, one after the other, so that many callers' changes do not come
at once before those of other principals. For the same reason a call that is refused gets a retry delay of its own, behind that queue. All
of this costs a few arithmetic operations, and uses no clock: callers pass the time.
"""

from __future__ import annotations

import enum
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import NamedTuple

MOST_KNOWN = 10_000
"""How many principals are known at most. The idlest is forgotten for a new one."""
_LOOKS = 64
"""How many of the principals that were seen longest ago are searched for one without calls in progress, which is forgotten; if there is
none, new principals share one ration."""
_KEPT = 1.0
"""Tokens that batches leave in the bucket."""
_BATCH_SECONDS = 0.1
"""A batch that has to wait reserves at most as many tokens as come in this time, but at least one."""
_SPREAD_SECONDS = 2.0
"""By how much retry delays of refused calls are spread at most: it is not known whether their callers come again."""
_LEAST_CAPACITY = 2.0
_PASSING_SECONDS = 1.0
"""The retry delay of a call that is refused because of calls in progress, whose ends are not known."""
_ROUNDING = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """The limits of each principal; 0: no limit."""

    calls: int = 0
    """Calls in progress, watches included."""
    watches: int = 0
    """Open watches."""
    changes_per_second: float = 0.0
    in_flight_bytes: int = 0
    """Bytes of requests that were received and not answered; a single request may have more."""

    @property
    def limits(self) -> bool:
        """Whether there is any limit."""
        return any((self.calls, self.watches, self.changes_per_second, self.in_flight_bytes))


class Use(enum.Enum):
    """The kind of a call, for its limits."""

    READ = enum.auto()
    CHANGE = enum.auto()
    """A call with one change, which takes a token."""
    WATCH = enum.auto()


class Beyond(NamedTuple):
    """A limit that a call exceeds."""

    limit: str
    """The name of the limit: a field of ``Allowance``."""
    most: float
    seconds: float | None
    """The seconds after which the caller may try again; None: waiting does not help."""


class Bucket:
    """The token bucket of one principal's changes."""

    __slots__ = ("_at", "_capacity", "_last_retry", "_level", "_rate", "_reserved")

    def __init__(self, rate: float, now: float) -> None:
        """Creates a full bucket. ``rate``: tokens per second; ``now``: in seconds, as in all methods."""
        self._rate = rate
        self._capacity = self._level = max(_LEAST_CAPACITY, rate)
        """The tokens in the bucket. Can be below zero: reserved tokens are taken out at once."""
        self._reserved = 0.0
        self._at = self._last_retry = now

    def take(self, now: float) -> float:
        """Takes a token for a change and returns 0; if there is none, takes nothing and returns the seconds until there is."""
        self._fill(now)
        short = 1.0 - self._level - self._reserved
        if short > _ROUNDING:
            return short / self._rate
        self._level -= 1.0
        return 0.0

    def enqueue(self) -> None:
        """Puts a change into the queue: its turn is at the time that ``take`` has just returned."""
        self._level -= 1.0

    def dequeue(self, count: int = 1) -> None:
        """Removes changes from the queue before their turn. Those behind them keep their turns."""
        self._level = min(self._capacity, self._level + count)

    def retry_delay(self, seconds: float) -> float:
        """Returns the seconds after which a change that ``take`` has just refused may come again: after those that were refused before.

        Args:
            seconds: what ``take`` returned.
        """
        self._last_retry = min(max(self._last_retry + 1.0 / self._rate, self._at + seconds), self._at + seconds + _SPREAD_SECONDS)
        return self._last_retry - self._at

    def reserve(self, wanted: int, now: float) -> tuple[int, float]:
        """Reserves tokens for changes of a batch: at least one, at most ``wanted``.

        Returns:
            How many tokens, and the seconds after which they may be used. If these are more than 0, the caller must call ``used`` then, or
            ``unused`` if the batch ends before.
        """
        self._fill(now)
        at_hand = int(self._level - _KEPT + _ROUNDING)
        count = min(wanted, at_hand if at_hand >= 1 else max(1, int(self._rate * _BATCH_SECONDS)))
        self._level -= count
        short = _KEPT - self._level
        if short <= _ROUNDING:
            return count, 0.0
        self._reserved += count
        return count, short / self._rate

    def used(self, count: int) -> None:
        """Notes that the time of reserved tokens has come."""
        self._reserved -= count

    def unused(self, count: int) -> None:
        """Gives reserved tokens back, because the batch ended before their time."""
        self._reserved -= count
        self.dequeue(count)

    def _fill(self, now: float) -> None:
        self._level = min(self._capacity, self._level + max(0.0, now - self._at) * self._rate)
        self._at = now


class Ration:
    """What one principal uses."""

    __slots__ = ("_allowance", "bucket", "bytes", "calls", "queued_changes", "refused_pending", "watches")

    def __init__(self, allowance: Allowance, now: float) -> None:
        """Creates a ration of which nothing is used."""
        self._allowance = allowance
        self.calls = self.watches = self.bytes = 0
        self.refused_pending = 0
        """How many calls are refused, and have not been answered yet."""
        self.queued_changes = 0
        """How many single changes wait in the queue of the bucket; they are among the calls."""
        self.bucket = Bucket(allowance.changes_per_second, now) if allowance.changes_per_second else None

    def begin(self, use: Use, size: int, now: float) -> Beyond | None:
        """Begins a call, and counts it, unless it exceeds a limit: then returns that. ``size``: bytes of the call's request."""
        most = self._allowance
        if most.calls and self.calls >= most.calls:
            return Beyond("calls", most.calls, _PASSING_SECONDS)
        if use is Use.WATCH and most.watches and self.watches >= most.watches:
            return Beyond("watches", most.watches, None)
        if not self.has_room(size):
            return Beyond("in_flight_bytes", most.in_flight_bytes, _PASSING_SECONDS)
        if use is Use.CHANGE and self.bucket is not None and (seconds := self.bucket.take(now)):
            return Beyond("changes_per_second", most.changes_per_second, seconds)
        self._begun(use, size)
        return None

    def enqueue(self, size: int) -> None:
        """Begins a single change that has just exceeded the rate, and queues it."""
        assert self.bucket is not None, "there is a rate that it is beyond"
        self.bucket.enqueue()
        self._begun(Use.CHANGE, size)

    def _begun(self, use: Use, size: int) -> None:
        self.calls += 1
        self.watches += use is Use.WATCH
        self.bytes += size

    def end(self, use: Use, size: int) -> None:
        """Ends a call that began."""
        self.calls -= 1
        self.watches -= use is Use.WATCH
        self.give_back(size)

    def has_room(self, size: int) -> bool:
        """Whether ``size`` more bytes may be in flight."""
        most = self._allowance.in_flight_bytes
        return not most or not self.bytes or not size or self.bytes + size <= most

    def give_back(self, size: int) -> None:
        """Counts bytes as not in flight any more."""
        self.bytes -= size


class Rations:
    """The rations of all principals that are remembered."""

    def __init__(self, allowance: Allowance, most: int = MOST_KNOWN) -> None:
        """``allowance``: the limits of each principal; ``most``: how many principals are remembered."""
        self._allowance = allowance
        self._most = most
        self._known: OrderedDict[Hashable, Ration] = OrderedDict()
        """By principal; the one that was seen longest ago comes first."""
        self._others: Ration | None = None

    def __len__(self) -> int:
        return len(self._known)

    def of(self, who: Hashable, now: float) -> Ration:
        """Returns the ration of a principal, and marks the principal as seen last."""
        ration = self._known.get(who)
        if ration is not None:
            self._known.move_to_end(who)
            return ration
        if len(self._known) >= self._most and not self._forget_one():
            if self._others is None:
                self._others = Ration(self._allowance, now)
            return self._others
        ration = self._known[who] = Ration(self._allowance, now)
        return ration

    def _forget_one(self) -> bool:
        for count, (who, ration) in enumerate(self._known.items()):
            if not (ration.calls or ration.refused_pending):
                del self._known[who]
                return True
            if count >= _LOOKS:
                break
        return False
