"""The door that enforces the limits of each principal (``access/rations``): a call beyond them is refused, with the time of a retry.

A principal's *ration* is what it may use: calls and watches at a time, bytes in flight, and changes in a second, each of which
takes a *token* from the ration's bucket. Where callers are not verified, each address has a ration (of IPv6 each network of 64 bits); all
calls over a Unix socket share one. A call through a proxy uses the ration of the principal that the proxy speaks for, and so do that
principal's own calls, with whatever credentials: otherwise each way to call would be a ration more. Health checks always pass: they report
whether the server works, not what its callers do.

=============================================  =========================================================================================
a single change for which there is no token    what is done
=============================================  =========================================================================================
its turn comes within ``TURN_SECONDS``, and    the call waits for its turn and then passes. So waiting calls pass one after the other, not
before its deadline, and fewer than            all at once in front of other principals' calls
``_MOST_HELD`` calls of its principal wait
else                                           the call is refused after ``_HELD_SECONDS``, with a retry time of its own
=============================================  =========================================================================================

The changes of a batch are begun as fast as there are tokens for them (``batches``).
"""

from __future__ import annotations

import asyncio
import ipaddress
import math
from collections.abc import Awaitable, Hashable
from functools import partial
from typing import NamedTuple
from urllib.parse import unquote

from ..access import Way
from ..access.rations import MOST_KNOWN, Allowance, Beyond, Bucket, Ration, Rations, Use
from ..config import Limits
from ..core.errors import PolicyError, too_much
from .call import Call
from .calls import Calls
from .leaving import stays

_USES = {
    "UpdatePolicy": Use.CHANGE,
    "DeletePolicy": Use.CHANGE,
    "WatchPolicies": Use.WATCH,
    "WatchHistory": Use.WATCH,
}
_LET_IN = frozenset({"grpc.health.v1.Health/Check"})
_IPV6_NETWORK = 64
_HELD_SECONDS = 0.25
"""Seconds for which a refusal is held back. Refusing is cheaper than serving, but a caller that retries at once could cause thousands of
refusals in a second, at the cost of other callers. Tokens gather meanwhile, so a caller that has to wait loses nothing by it."""
_MOST_HELD = 128
"""Calls of one principal that may be held back or wait for their turn. Further ones are refused at once: each is a call in progress."""
TURN_SECONDS = 1.0
"""The most seconds for which a single change waits for its turn."""


def allowance(limits: Limits) -> Allowance:
    """Returns what each principal may use, by the options."""
    return Allowance(
        calls=limits.max_calls_per_principal,
        watches=limits.max_watches_per_principal,
        changes_per_second=limits.max_changes_per_second_per_principal,
        in_flight_bytes=limits.max_in_flight_bytes_per_principal,
    )


def ration(calls: Calls, limits: Limits) -> Rationing | None:
    """Adds a ``Rationing`` to calls, as the door behind the present ones, which identify callers. None: no limit is set."""
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


class Rationing:
    """A door that charges each call to its principal's ration, and an observer that gives back the charge when the call has ended."""

    def __init__(self, allowance: Allowance) -> None:
        """``allowance``: the limits of each principal. No principal uses anything yet."""
        self.rations = Rations(allowance)
        """What each principal uses."""
        self._loop = asyncio.get_running_loop()
        self._held: dict[Call, _Held] = {}

    def kept(self) -> dict[str, tuple[int, int]]:
        """Returns how many rations are kept, and how many at most, for metrics. Safe to call from any thread."""
        return {"principals": (len(self.rations), MOST_KNOWN)}

    def let_in(self, call: Call) -> Awaitable[None] | None:
        """Charges a call to its principal's ration.

        Returns:
            None: the call passes. Otherwise what is to be awaited: the turn of a change, or the refusal that is held back.

        Raises:
            PolicyError: RESOURCE_EXHAUSTED (``LIMIT_REACHED``), the call is beyond the ration, and too many calls are held back already.
        """
        if call.method in _LET_IN:
            return None
        now = self._loop.time()
        use = _USES.get(call.method, Use.READ)
        ration = self.rations.of(principal(call), now)
        beyond = ration.begin(use, call.size, now)
        if beyond is None:
            call.bucket = ration.bucket
            self._held[call] = _Held(ration, use, call.size)
            if call.size and stays(call.method):
                call.answered = partial(self._answered, call)
            return None
        waits = ration.refused_pending + ration.queued_changes < _MOST_HELD
        bucket, seconds = ration.bucket, beyond.seconds
        if bucket is not None and seconds is not None and beyond.limit == "changes_per_second":
            if waits and seconds <= TURN_SECONDS and seconds < _time_left(call):
                ration.enqueue(call.size)
                self._held[call] = _Held(ration, use, call.size)
                return _wait_for_turn(ration, bucket, seconds)
            beyond = beyond._replace(seconds=bucket.retry_delay(seconds))
        if not waits:
            raise _refused(beyond)
        return _refuse_later(ration, beyond)

    def _answered(self, call: Call) -> None:
        """Gives back the bytes of the request of a call that stays open, such as a watch: it has its first answer."""
        held = self._held.get(call)
        if held is not None:
            self._held[call] = held._replace(size=0)
            held.ration.give_back(held.size)

    def ended(self, call: Call) -> None:
        """Gives back what a call that has ended was charged."""
        held = self._held.pop(call, None)
        if held is not None:
            held.ration.end(held.use, held.size)


def principal(call: Call) -> Hashable:
    """Returns the key of the ration that a call uses: the role for which it is made, or else the address (a role is no address)."""
    caller = call.caller
    if caller.way is Way.NONE:
        return address(str(call.context.peer()))
    return (caller.role,)


def address(peer: str) -> str:
    """Returns the address of a gRPC peer without its port; of IPv6, the network of 64 bits; of a Unix socket, ``unix``."""
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


async def _wait_for_turn(ration: Ration, bucket: Bucket, seconds: float) -> None:
    """Returns when the turn of a waiting change has come. If the call is cancelled meanwhile, its token is given back."""
    ration.queued_changes += 1
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        bucket.dequeue()
        raise
    finally:
        ration.queued_changes -= 1


async def _refuse_later(ration: Ration, beyond: Beyond) -> None:
    ration.refused_pending += 1
    try:
        await asyncio.sleep(_HELD_SECONDS)
    finally:
        ration.refused_pending -= 1
    left = None if beyond.seconds is None else max(0.001, beyond.seconds - _HELD_SECONDS)
    raise _refused(beyond._replace(seconds=left))


def _refused(beyond: Beyond) -> PolicyError:
    option, problem = {
        "calls": ("max_calls_per_principal", "calls of yours are in progress, which is the limit"),
        "watches": ("max_watches_per_principal", "watches of yours are open, which is the limit: share one"),
        "in_flight_bytes": ("max_in_flight_bytes_per_principal", "bytes of requests of yours may be in flight"),
        "changes_per_second": ("max_changes_per_second_per_principal", "changes in a second is your limit"),
    }[beyond.limit]
    again = f" Try again in {beyond.seconds:.3g} s, or" if beyond.seconds is not None else " Or"
    return too_much(option, beyond.most, f"{beyond.most:,.15g} {problem}.{again} have {option} raised.", retry_seconds=beyond.seconds)
