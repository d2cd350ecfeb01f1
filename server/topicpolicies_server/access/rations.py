"""How much of the server each principal may use: calls, streams and watches at a time, bytes in flight, changes in a second.

A call beyond its principal's ration is refused before its request is looked at. A stream of changes is slowed instead: no more of it is
read until there is room, so that its caller is held back by flow control and nothing of it is lost.

Changes are counted by a bucket, which holds a second's tokens, is refilled evenly, and gives one for each change. Streams reserve theirs in
turn, and wait for them; they leave one in the bucket, so that a call with a single change is not starved by a stream of the same principal.
Single changes for which there is none can stand in line: each has its turn, one after the other as tokens come, so that those of many
callers do not come at once in front of other principals'. For the same reason who is refused is told a turn of his own, behind that line.
All of it costs a few steps of arithmetic, and knows no clock.
"""

from __future__ import annotations

import enum
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import NamedTuple

MOST_KNOWN = 10_000
"""Principals of whom it is remembered what they used. The idlest is forgotten for another one."""
_LOOKS = 64
"""Of so many that were seen longest ago one is forgotten that has no call in progress; if all have, newcomers share one ration."""
_KEPT = 1.0
"""Tokens that streams leave in the bucket."""
_STREAM_SECONDS = 0.1
"""A stream that has to wait reserves the changes of so much time."""
_SPREAD_SECONDS = 2.0
"""Turns that are told to those who are refused are at most so much later than the first one: it is not known whether they come again."""
_LEAST_CAPACITY = 2.0
_PASSING_SECONDS = 1.0
"""When to try again what calls in progress stand against: nobody knows when they end."""
_ROUNDING = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """What each principal may use; 0: without limit."""

    calls: int = 0
    """Calls in progress, streams and watches included."""
    streams: int = 0
    """Streams of changes that are open."""
    watches: int = 0
    """Watches that are open."""
    changes_per_second: float = 0.0
    in_flight_bytes: int = 0
    """Bytes of requests that were received and not answered; one request alone may have more."""

    @property
    def limits(self) -> bool:
        """Whether it limits anything."""
        return any((self.calls, self.streams, self.watches, self.changes_per_second, self.in_flight_bytes))


class Use(enum.Enum):
    """What a call is, besides a call."""

    READ = enum.auto()
    CHANGE = enum.auto()
    """One change: a token."""
    STREAM = enum.auto()
    """Changes, which are counted as they are read."""
    WATCH = enum.auto()


class Beyond(NamedTuple):
    """A ration that does not suffice."""

    limit: str
    """Which: the name of a field of ``Allowance``."""
    most: float
    seconds: float | None
    """When to try again; None: that does not pass by itself."""


class Bucket:
    """The changes of one principal."""

    __slots__ = ("_at", "_capacity", "_level", "_rate", "_reserved", "_told")

    def __init__(self, rate: float, now: float) -> None:
        """Full. ``rate``: tokens in a second; ``now``: in seconds, as in all methods."""
        self._rate = rate
        self._capacity = self._level = max(_LEAST_CAPACITY, rate)
        """The level can be below zero: what was reserved is taken out already."""
        self._reserved = 0.0
        self._at = self._told = now

    def take(self, now: float) -> float:
        """Takes a token for a change, if there is one: 0; else, and then nothing is taken, the seconds until there is."""
        self._fill(now)
        short = 1.0 - self._level - self._reserved
        if short > _ROUNDING:
            return short / self._rate
        self._level -= 1.0
        return 0.0

    def stand(self) -> None:
        """A change stands in line, until the time that ``take`` has just named."""
        self._level -= 1.0

    def leave(self, count: int = 1) -> None:
        """Changes leave the line before their turn. Those behind them keep theirs."""
        self._level = min(self._capacity, self._level + count)

    def told(self, seconds: float) -> float:
        """Seconds after which a change that ``take`` has just refused for so many may come again: behind those who were told so before."""
        self._told = min(max(self._told + 1.0 / self._rate, self._at + seconds), self._at + seconds + _SPREAD_SECONDS)
        return self._told - self._at

    def reserve(self, wanted: int, now: float) -> tuple[int, float]:
        """Reserves tokens for changes of a stream: at least one, at most ``wanted``.

        Returns:
            How many, and the seconds after which they may be used; if those are more than 0, ``used`` is to be called then, or, where
            nobody waits for them any more, ``unused``.
        """
        self._fill(now)
        at_hand = int(self._level - _KEPT + _ROUNDING)
        count = min(wanted, at_hand if at_hand >= 1 else max(1, int(self._rate * _STREAM_SECONDS)))
        self._level -= count
        short = _KEPT - self._level
        if short <= _ROUNDING:
            return count, 0.0
        self._reserved += count
        return count, short / self._rate

    def used(self, count: int) -> None:
        """The time of what was reserved has come."""
        self._reserved -= count

    def unused(self, count: int) -> None:
        """Nobody waits any more for what was reserved, and its time has not come."""
        self._reserved -= count
        self.leave(count)

    def _fill(self, now: float) -> None:
        self._level = min(self._capacity, self._level + max(0.0, now - self._at) * self._rate)
        self._at = now


class Ration:
    """What one principal uses.

    The bytes of a stream's message, where those in flight are limited:

    =========  ========================================  =========  ================================================================
    state      event                                     next       what is done
    =========  ========================================  =========  ================================================================
    (comes)    nobody is in line, and there is room      IN FLIGHT  they are counted
    (comes)    else                                      IN LINE    nothing
    IN LINE    it is the first, and there is room        IN FLIGHT  they are counted, and whoever waits is told
    IN LINE    ``leave``: its stream has ended           over       those behind it are let in as far as there is room
    IN FLIGHT  ``give_back``                             over       they are counted no more; the first in line are let in as above
    =========  ========================================  =========  ================================================================

    So each message is let in by one step, whatever stands in line: not all of them look whenever there is room for one.
    """

    __slots__ = ("_allowance", "_line", "bucket", "bytes", "calls", "held", "standing", "streams", "watches")

    def __init__(self, allowance: Allowance, now: float) -> None:
        """Nothing."""
        self._allowance = allowance
        self._line: OrderedDict[Callable[[], None], int] = OrderedDict()
        """Who is told, and of how many bytes; the first comes first."""
        self.calls = self.streams = self.watches = self.bytes = 0
        self.held = 0
        """Calls that are refused, and not told so yet."""
        self.standing = 0
        """Changes that stand in line; they are among the calls."""
        self.bucket = Bucket(allowance.changes_per_second, now) if allowance.changes_per_second else None

    def begin(self, use: Use, size: int, now: float) -> Beyond | None:
        """A call begins, unless that is beyond the ration: then nothing is used. ``size``: bytes of its request."""
        most = self._allowance
        if most.calls and self.calls >= most.calls:
            return Beyond("calls", most.calls, _PASSING_SECONDS)
        if use is Use.STREAM and most.streams and self.streams >= most.streams:
            return Beyond("streams", most.streams, None)
        if use is Use.WATCH and most.watches and self.watches >= most.watches:
            return Beyond("watches", most.watches, None)
        if not self.has_room(size):
            return Beyond("in_flight_bytes", most.in_flight_bytes, _PASSING_SECONDS)
        if use is Use.CHANGE and self.bucket is not None and (seconds := self.bucket.take(now)):
            return Beyond("changes_per_second", most.changes_per_second, seconds)
        self._begun(use, size)
        return None

    def stand(self, size: int) -> None:
        """A single change that was just found beyond the rate begins, and stands in line."""
        assert self.bucket is not None, "there is a rate that it is beyond"
        self.bucket.stand()
        self._begun(Use.CHANGE, size)

    def _begun(self, use: Use, size: int) -> None:
        self.calls += 1
        self.streams += use is Use.STREAM
        self.watches += use is Use.WATCH
        self.bytes += size

    def end(self, use: Use, size: int) -> None:
        """A call that began has ended."""
        self.calls -= 1
        self.streams -= use is Use.STREAM
        self.watches -= use is Use.WATCH
        self.give_back(size)

    def has_room(self, size: int) -> bool:
        """Whether so many more bytes may be in flight."""
        most = self._allowance.in_flight_bytes
        return not most or not self.bytes or not size or self.bytes + size <= most

    def enter(self, size: int, tell: Callable[[], None]) -> bool:
        """Bytes of a stream come: True, they are in flight; False, they are in line, and it is told, once, when they are in flight."""
        if (self._line and size) or not self.has_room(size):
            self._line[tell] = size
            return False
        self.bytes += size
        return True

    def leave(self, tell: Callable[[], None]) -> None:
        """Bytes leave the line: nobody is told of them."""
        del self._line[tell]
        self._let_in()

    def give_back(self, size: int) -> None:
        """So many bytes are not in flight any more."""
        self.bytes -= size
        if self._line:
            self._let_in()

    @property
    def in_line(self) -> int:
        """Messages of streams that wait for room."""
        return len(self._line)

    def _let_in(self) -> None:
        while self._line:
            tell, size = next(iter(self._line.items()))
            if not self.has_room(size):
                return
            self._line.popitem(last=False)
            self.bytes += size
            tell()


class Rations:
    """What all principals use, as far as that is remembered."""

    def __init__(self, allowance: Allowance, most: int = MOST_KNOWN) -> None:
        """``allowance``: of each of them; ``most``: who are remembered."""
        self._allowance = allowance
        self._most = most
        self._known: OrderedDict[Hashable, Ration] = OrderedDict()
        """Who was seen longest ago comes first."""
        self._others: Ration | None = None

    def __len__(self) -> int:
        return len(self._known)

    def of(self, who: Hashable, now: float) -> Ration:
        """The ration of a principal, who is seen now."""
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
            if not (ration.calls or ration.held):
                del self._known[who]
                return True
            if count >= _LOOKS:
                break
        return False
