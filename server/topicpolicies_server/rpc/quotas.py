"""What each principal may use: calls and watches at a time, and changes in a second.

Changes are limited by a token bucket, which holds a second's tokens and is refilled evenly; each change takes one. A batch is begun when
there is one token, and takes one for each of its changes: so the next change waits until all of them have come. A change waits for
``_LONGEST_WAIT`` at most, a batch until its deadline. Any other call beyond a limit is refused, with the time of a retry.

Where callers are not authenticated, each address has a quota; all calls over a Unix socket share one. A call through a proxy uses the quota
of the principal that the proxy speaks for, and so do that principal's own calls, with whatever credentials: otherwise each way to call
would be a quota more. Health checks always pass: they report whether the server works.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Hashable
from urllib.parse import unquote

from ..access import Caller, Way
from ..config import Limits
from ..core.errors import PolicyError, too_much

MOST_KNOWN = 10_000
"""How many principals are remembered. The one that was seen longest ago, of those without calls in progress, is forgotten for a new one."""
_LONGEST_WAIT = 1.0
_RETRY_SECONDS = 1.0
"""The time of a retry after a refusal because of calls in progress, whose ends are not known."""
_SINGLE_CHANGES = ("UpdatePolicy", "DeletePolicy")
_WATCHES = ("WatchPolicies", "WatchHistory")
_FREE = "grpc.health.v1.Health/Check"


class Usage:
    """What one principal uses at present."""

    def __init__(self, rate: float, now: float) -> None:
        """Nothing is used. ``rate``: changes in a second; 0: no limit. ``now``: by ``time.monotonic``."""
        self.calls = self.watches = 0
        self._rate = rate
        self._most = self._level = max(2.0, rate)
        """The tokens in the bucket. Below zero, so many are taken that have not come yet."""
        self._at = now

    def changes(self, count: int, seconds: float | None) -> float:
        """Charges changes that are begun together; returns the seconds after which they may begin, at most ``seconds`` (None: any number).

        ``count``: how many; less than zero gives back what was charged.

        Raises:
            PolicyError: RESOURCE_EXHAUSTED (``LIMIT_REACHED``), they would have to wait longer.
        """
        if not self._rate:
            return 0.0
        now = time.monotonic()
        self._level = min(self._most, self._level + (now - self._at) * self._rate)
        self._at = now
        wait = max(0.0, 1.0 - self._level) / self._rate
        if seconds is not None and wait > seconds:
            raise _refused("max_changes_per_second_per_principal", self._rate, "changes in a second is your limit", wait)
        self._level -= count
        return wait


class Quotas:
    """What all principals use. It belongs to one event loop."""

    def __init__(self, limits: Limits) -> None:
        """``limits``: those of each principal are enforced."""
        self._limits = limits
        self._known: OrderedDict[Hashable, Usage] = OrderedDict()
        """By principal; the one that was seen longest ago comes first."""

    def charge(self, who: Hashable, method: str, left: float | None) -> tuple[Usage | None, float]:
        """Charges a call to its principal, until ``release``. ``left``: seconds until the caller's deadline; None: there is none.

        Returns what the principal uses now (None: the call is not charged), and the seconds after which the call may go on.

        Raises:
            PolicyError: RESOURCE_EXHAUSTED (``LIMIT_REACHED``), the principal is at a limit.
        """
        if method == _FREE:
            return None, 0.0
        limits, now = self._limits, time.monotonic()
        usage = self._usage(who, now)
        watch = method in _WATCHES
        if (most := limits.max_calls_per_principal) and usage.calls >= most:
            raise _refused("max_calls_per_principal", most, "calls of yours are in progress, which is the limit", _RETRY_SECONDS)
        if watch and (most := limits.max_watches_per_principal) and usage.watches >= most:
            raise _refused("max_watches_per_principal", most, "watches of yours are open, which is the limit: share one", None)
        seconds = usage.changes(1, _LONGEST_WAIT if left is None else min(_LONGEST_WAIT, left)) if method in _SINGLE_CHANGES else 0.0
        usage.calls += 1
        usage.watches += watch
        return usage, seconds

    def release(self, usage: Usage, method: str) -> None:
        """Gives back what a call that has ended was charged."""
        usage.calls -= 1
        usage.watches -= method in _WATCHES

    def _usage(self, who: Hashable, now: float) -> Usage:
        usage = self._known.get(who)
        if usage is None:
            if len(self._known) >= MOST_KNOWN:
                idlest = next((each for each, used in self._known.items() if not used.calls), None)
                self._known.pop(idlest, None)
            usage = self._known[who] = Usage(self._limits.max_changes_per_second_per_principal, now)
        self._known.move_to_end(who)
        return usage


def principal(caller: Caller, peer: str) -> Hashable:
    """Returns whose quota a call uses: the role for which it is made.

    Where callers are not authenticated, it is the address of gRPC's ``peer`` without its port, or ``unix``. A role is no address.
    """
    if caller.way is not Way.NONE:
        return (caller.role,)
    family, _, where = unquote(peer).partition(":")
    return where.rpartition(":")[0] if family in ("ipv4", "ipv6") else family


def _refused(option: str, most: float, problem: str, seconds: float | None) -> PolicyError:
    again = f" Try again in {seconds:.3g} s, or" if seconds is not None else " Or"
    return too_much(option, most, f"{most:,.15g} {problem}.{again} have {option} raised.", retry_seconds=seconds)
