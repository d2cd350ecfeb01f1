"""The limits of each principal at the doors of calls (``access/rations``): who is beyond his is refused, and told when to try again.

Where nobody is verified the limits hold for each address that calls come from (of IPv6 for each network of 64 bits); whoever calls over a
Unix socket is one. Whom a proxy speaks for has a ration of his own. Probes of the health are let in always: they tell whether the server
works, not what its callers do.

=============================================  =========================================================================================
a single change for which there is no token    what is done
=============================================  =========================================================================================
its turn comes within ``TURN_SECONDS``, and    it stands in line, and is let in when its turn has come: waiting callers come one after
before its caller's deadline, and fewer than   the other, not all at once in front of other principals'
``_MOST_HELD`` of its principal wait
else                                           it is refused after ``_HELD_SECONDS``, and told a turn of its own
=============================================  =========================================================================================
"""

from __future__ import annotations

import asyncio
import ipaddress
import math
from collections import deque
from collections.abc import Awaitable, Hashable
from typing import NamedTuple
from urllib.parse import unquote

from ..access import Way
from ..access.rations import MOST_KNOWN, Allowance, Beyond, Bucket, Ration, Rations, Use
from ..config import Limits
from ..core.errors import Kind, PolicyError
from ..core.reasons import Reason
from .call import Call
from .calls import Calls
from .decoding import Batch, Undecodable

_USES = {"UpdatePolicy": Use.CHANGE, "DeletePolicy": Use.CHANGE, "UpdatePolicies": Use.STREAM, "WatchPolicies": Use.WATCH}
_LET_IN = frozenset({"grpc.health.v1.Health/Check"})
_IPV6_NETWORK = 64
_HELD_SECONDS = 0.25
"""So long a refusal waits before it is told: to refuse is cheaper than to serve, but whoever repeats at once could have thousands in a
second, and all of them cost others. Tokens gather meanwhile, so whoever has to wait loses nothing by it."""
_MOST_HELD = 128
"""Calls of one principal that wait so, or for their turn; beyond them they are refused at once, for each is a call in progress."""
TURN_SECONDS = 1.0
"""So long a single change waits for its turn, at most."""


def allowance(limits: Limits) -> Allowance:
    """What each principal may use by the options."""
    return Allowance(
        calls=limits.max_calls_per_principal,
        streams=limits.max_streams_per_principal,
        watches=limits.max_watches_per_principal,
        changes_per_second=limits.max_changes_per_second_per_principal,
        in_flight_bytes=limits.max_in_flight_bytes_per_principal,
    )


def ration(calls: Calls, limits: Limits) -> Rationing | None:
    """Has calls pass the limits of their principals, behind the doors that they have, which find out who calls; None: there are none."""
    each = allowance(limits)
    if not each.limits:
        return None
    rationing = Rationing(each)
    calls.doors = (*calls.doors, rationing.let_in)
    calls.observers = (*calls.observers, rationing)
    return rationing


class _Held(NamedTuple):
    ration: Ration
    use: Use
    size: int
    pace: Pace | None


class Rationing:
    """A door and an observer of calls: what a call is given at the one it gives back when the other is told of its end."""

    def __init__(self, allowance: Allowance) -> None:
        """Nobody uses anything yet."""
        self.rations = Rations(allowance)
        """What everybody uses."""
        self._loop = asyncio.get_running_loop()
        self._held: dict[Call, _Held] = {}

    def kept(self) -> dict[str, tuple[int, int]]:
        """Of how many principals it is known what they use, and of how many at most; any thread may ask."""
        return {"principals": (len(self.rations), MOST_KNOWN)}

    def let_in(self, call: Call) -> Awaitable[None] | None:
        """A call passes (None), if that is not beyond the ration of its principal.

        Returns:
            What lets it in when its turn has come, or refuses it after a moment.

        Raises:
            PolicyError: RESOURCE_EXHAUSTED.
        """
        if call.method in _LET_IN:
            return None
        now = self._loop.time()
        use = _USES.get(call.method, Use.READ)
        ration = self.rations.of(principal(call), now)
        beyond = ration.begin(use, call.size, now)
        if beyond is None:
            pace = call.pace = Pace(ration, self._loop) if use is Use.STREAM else None
            self._held[call] = _Held(ration, use, call.size, pace)
            return None
        waits = ration.held + ration.standing < _MOST_HELD
        bucket, seconds = ration.bucket, beyond.seconds
        if bucket is not None and seconds is not None and beyond.limit == "changes_per_second":
            if waits and seconds <= TURN_SECONDS and seconds < _time_left(call):
                ration.stand(call.size)
                self._held[call] = _Held(ration, use, call.size, None)
                return _stand(ration, bucket, seconds)
            beyond = beyond._replace(seconds=bucket.told(seconds))
        if not waits:
            raise _refused(beyond)
        return _refuse_later(ration, beyond)

    def ended(self, call: Call) -> None:
        """A call has ended."""
        held = self._held.pop(call, None)
        if held is not None:
            if held.pace is not None:
                held.pace.close()
            held.ration.end(held.use, held.size)


class Pace:
    """How fast a stream of changes may go on."""

    def __init__(self, ration: Ration, loop: asyncio.AbstractEventLoop) -> None:
        """``ration``: of whoever sends it."""
        self._ration = ration
        self._loop = loop
        self._messages: deque[list[int]] = deque()
        """Of each message that was read the results that are to come, and its bytes. Results are counted, whatever their order: so many of
        the oldest are taken to be answered."""

    async def came(self, message: Batch) -> None:
        """A message was read: returns when there is room for its bytes."""
        changes = message.changes
        if not changes:
            return
        size = sum(each.ByteSize() for each in changes if not isinstance(each, Undecodable))
        room = asyncio.Event()
        tell = room.set
        if not self._ration.enter(size, tell):
            try:
                await room.wait()
            except asyncio.CancelledError:
                if room.is_set():
                    self._ration.give_back(size)
                else:
                    self._ration.leave(tell)
                raise
        self._messages.append([len(changes), size])

    async def granted(self, wanted: int) -> int:
        """How many of so many changes may be begun; returns when they may."""
        bucket = self._ration.bucket
        if bucket is None:
            return wanted
        count, seconds = bucket.reserve(wanted, self._loop.time())
        if seconds:
            try:
                await asyncio.sleep(seconds)
            except asyncio.CancelledError:
                bucket.unused(count)
                raise
            bucket.used(count)
        return count

    def unused(self, count: int) -> None:
        """So many changes that might have been begun are not."""
        if self._ration.bucket is not None:
            self._ration.bucket.leave(count)

    def told(self, count: int) -> None:
        """So many results were written."""
        while count and self._messages:
            first = self._messages[0]
            done = min(count, first[0])
            first[0] -= done
            count -= done
            if not first[0]:
                self._messages.popleft()
                self._ration.give_back(first[1])

    def close(self) -> None:
        """The stream has ended."""
        while self._messages:
            self._ration.give_back(self._messages.popleft()[1])


def principal(call: Call) -> Hashable:
    """Whose ration a call uses."""
    caller = call.caller
    if caller.way is Way.NONE:
        return address(str(call.context.peer()))
    return caller.way, caller.principal, caller.speaks_for


def address(peer: str) -> str:
    """Where a call comes from, without the port; of IPv6 the network."""
    family, _, where = unquote(peer).partition(":")
    host = where.rpartition(":")[0].strip("[]").partition("%")[0]
    if family == "ipv6":
        try:
            found = ipaddress.IPv6Address(host)
        except ValueError:
            return peer
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        return str(ipaddress.IPv6Network((found, _IPV6_NETWORK), strict=False))
    return host if family == "ipv4" else family


def _time_left(call: Call) -> float:
    left = call.time_left()
    return math.inf if left is None else left


async def _stand(ration: Ration, bucket: Bucket, seconds: float) -> None:
    """Returns when the turn of a change that stands in line has come; one that is given up meanwhile leaves it."""
    ration.standing += 1
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        bucket.leave()
        raise
    finally:
        ration.standing -= 1


async def _refuse_later(ration: Ration, beyond: Beyond) -> None:
    ration.held += 1
    try:
        await asyncio.sleep(_HELD_SECONDS)
    finally:
        ration.held -= 1
    left = None if beyond.seconds is None else max(0.001, beyond.seconds - _HELD_SECONDS)
    raise _refused(beyond._replace(seconds=left))


def _refused(beyond: Beyond) -> PolicyError:
    option, problem = {
        "calls": ("max_calls_per_principal", "calls of yours are in progress, which is the most"),
        "streams": ("max_streams_per_principal", "streams of changes of yours are open, which is the most: use those you have"),
        "watches": ("max_watches_per_principal", "watches of yours are open, which is the most: share one"),
        "in_flight_bytes": ("max_in_flight_bytes_per_principal", "bytes of requests of yours may be in flight"),
        "changes_per_second": ("max_changes_per_second_per_principal", "changes are what you may make in a second"),
    }[beyond.limit]
    again = f" Try again in {beyond.seconds:.3g} s, or" if beyond.seconds is not None else " Or"
    return PolicyError(
        Kind.RESOURCE_EXHAUSTED,
        Reason.PRINCIPAL_LIMIT,
        f"{beyond.most:,.15g} {problem}.{again} have {option} raised.",
        metadata={"limit": option, "most": f"{beyond.most:.15g}"},
        retry_seconds=beyond.seconds,
    )
