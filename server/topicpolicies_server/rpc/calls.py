"""The calls: who makes each, how it goes on, and how it ends, also when the server stops.

========  ============================================  ======================================  ===========================
state     the call                                      while the server stops                  when its time is over
========  ============================================  ======================================  ===========================
WORKING   makes its answer, or waits for something      goes on; streams end by themselves      is ended, and told so
          to tell
WRITING   writes, and waits for its peer to take that   goes on; ends if the peer takes         ends
                                                        nothing for ``UNREAD_SECONDS``
TOLD      has ended, and is told why                    ends if the peer does not take that     ends
========  ============================================  ======================================  ===========================

A call that ends by itself is no call in progress any more. Who does not read can't be told anything, so such a call just ends: its
connection is closed with the server.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NoReturn, Protocol, TypeAlias, runtime_checkable

import grpc

from ..access import Caller
from ..core.chains.request import Request, Result
from ..core.errors import Kind, PolicyError, stopping
from ..core.reasons import Reason
from .call import Call, State
from .errors import internal
from .failures import Failures
from .lateness import Lateness

UNREAD_SECONDS = 1.0
"""How long, while the server stops, a peer may leave unread what is written to it."""
LAST_SECONDS = 1.0
"""How long calls that were ended may take to say so."""
REFUSING_SECONDS = 2.0
"""How long, at most, calls that still come are told that the server stops, before gRPC takes no more of them."""
_QUIET_LOOKS = 5
"""When so many looks in a row have found no new call, all that had arrived have begun."""
_QUIET_SECONDS = 0.01
"""Between two such looks."""
_LOOK_SECONDS = 0.1
"""How often it is looked whether peers read."""


class Observer(Protocol):
    """Whoever is told of calls: what it does takes next to no time, and fails in no way."""

    def ended(self, call: Call) -> None:
        """It has ended: ``error`` and ``given_up`` say how. Nothing may have been asked at the doors."""


@runtime_checkable
class BeginObserver(Observer, Protocol):
    """One that is told of the beginning of each call, too."""

    def began(self, call: Call) -> None:
        """A call has come."""


class Only(enum.Enum):
    """Which calls pass a door, or which calls an observer is told of, whose attribute ``only`` this is; without one it is all of them.

    Between two calls gRPC and the kernel push the code for one out of the processor's caches. So a function is not called for calls with
    which it has nothing to do.
    """

    STREAMS = enum.auto()
    """Those of methods whose calls may stay (``leaving.stays``)."""
    TRACED = enum.auto()
    """Those that have a span at their end; of no use to a door."""


class ChangeObserver(Protocol):
    """Whoever is told of each change of a stream, as of calls."""

    def changed(self, method: str, caller: Caller, request: Request | None, answer: Result | PolicyError | None, seconds: float) -> None:
        """A change has its outcome, or its stream has ended before.

        Args:
            method: that of its call.
            caller: who makes it.
            request: the change; None: it could not be read.
            answer: its outcome; None: nobody is told it. It may have been made all the same.
            seconds: how long it took.
        """


Door: TypeAlias = Callable[[Call], "Awaitable[None] | None"]
"""What every call passes before its request is decoded; None: it has. Raises ``PolicyError``: it is refused."""


class Calls:
    """The calls in progress. It belongs to one event loop."""

    def __init__(self, most: int, doors: Sequence[Door] = (), observers: Sequence[Observer] = ()) -> None:
        """No calls yet.

        Args:
            most: how many there may be.
            doors: what each passes, in this order.
            observers: told of each.
        """
        self._most = most
        self.doors = tuple(doors)
        self.observers = tuple(observers)
        self.change_observers: tuple[ChangeObserver, ...] = ()
        """Who is told of each change of a stream."""
        self._failures = Failures()
        self._loop = asyncio.get_running_loop()
        self._calls: dict[Call, None] = {}
        self.lateness: Lateness[Call] = Lateness(self._loop, self._calls.__contains__)
        """The deadlines of those with one answer."""
        self._endless = 0
        """Those of them that do not end by themselves when the server stops."""
        self._ended = asyncio.Event()
        self._stops = False
        self._refused = 0
        """Calls that came since the server stops."""

    def __len__(self) -> int:
        return len(self._calls)

    @property
    def doors(self) -> tuple[Door, ...]:
        """What each call passes, in this order."""
        return self._doors

    @doors.setter
    def doors(self, doors: tuple[Door, ...]) -> None:
        self._doors = doors
        self.unary_doors = tuple(each for each in doors if only(each) is None)
        """Those of them that calls pass which do not stay."""

    @property
    def observers(self) -> tuple[Observer, ...]:
        """Who is told of calls."""
        return self._observers

    @observers.setter
    def observers(self, observers: tuple[Observer, ...]) -> None:
        self._observers = observers
        self._tell_began = tuple(each.began for each in observers if isinstance(each, BeginObserver))
        self._tell_ended = tuple(each.ended for each in observers if only(each) is None)
        self._tell_stream_ended = tuple(each.ended for each in observers if only(each) is Only.STREAMS)
        self._tell_traced = tuple(each.ended for each in observers if only(each) is Only.TRACED)

    def methods(self) -> list[str]:
        """Those of the calls in progress, each as often as there are calls; other threads may ask."""
        return [call.method for call in list(self._calls)]

    def unread_seconds(self) -> float:
        """The longest time for which a peer has not taken what was written to it; 0: nobody keeps a call waiting. Other threads may ask."""
        now = self._loop.time()
        return max((now - call.since for call in list(self._calls) if call.state is State.WRITING), default=0.0)

    def unread(self, seconds: float) -> list[Call]:
        """The calls whose peers have not taken for so long what was written to them."""
        return [call for call in self._calls if call.state is State.WRITING and self.unread_for(call) >= seconds]

    def unread_for(self, call: Call) -> float:
        """Seconds since what its peer has not taken was written; of a call whose peer keeps nobody waiting it says nothing."""
        return self._loop.time() - call.since

    def came(self, method: str, context: Any, size: int = 0) -> Call:
        """A call has come (see ``Call``). Whoever says so says ``over`` at its end."""
        call = Call(method, context, size, tuple(context.invocation_metadata() or ()))
        for tell in self._tell_began:
            tell(call)
        return call

    def over(self, call: Call, *, stays: bool) -> None:
        """A call has ended, however; ``stays``: whether those of its method may stay (``leaving.stays``)."""
        for tell in self._tell_ended:
            tell(call)
        if stays:
            for tell in self._tell_stream_ended:
                tell(call)
        if call.span is not None:
            for tell in self._tell_traced:
                tell(call)

    def begin(self, call: Call, *, endless: bool = False) -> None:
        """A call is in progress until its ``end``; ``endless``: when the server stops nobody waits for that.

        Raises:
            PolicyError: RESOURCE_EXHAUSTED, there are as many as there may be; UNAVAILABLE, the server stops.
        """
        if self._stops:
            self._refused += 1
            raise stopping()
        if len(self._calls) >= self._most:
            raise PolicyError(
                Kind.RESOURCE_EXHAUSTED,
                Reason.TOO_MANY_CALLS,
                f"{self._most:,} calls are in progress, which is the most: try again later, or raise max_concurrent_calls.",
            )
        self._calls[call] = None
        self._endless += endless

    async def enter(self, call: Call) -> None:
        """A call in progress that may stay passes the doors.

        Raises:
            PolicyError: one refuses it; INTERNAL, one fails: the log says why.
        """
        try:
            for door in self.doors:
                if (passing := door(call)) is not None:
                    await passing
        except Exception as error:  # noqa: BLE001 (told)
            self.shut(call, error)

    def shut(self, call: Call, error: Exception) -> NoReturn:
        """A door has raised something.

        Raises:
            PolicyError: the door refuses the call; INTERNAL, it fails: the log says why.
        """
        if isinstance(error, PolicyError | grpc.aio.InternalError):  # the latter: there is nobody who reads it
            raise error
        self._failures.tell(f"A door of {call.method}", error)
        raise internal() from error

    def end(self, call: Call, *, endless: bool = False) -> None:
        """A call that was begun so has ended."""
        del self._calls[call]
        self._endless -= endless
        if len(self._calls) <= self._endless:
            self._ended.set()

    async def refuse(self) -> None:
        """Refuses new calls from now on; returns when those that had arrived are told so. gRPC would cancel them without a reason."""
        self._stops = True
        over, looks = self._loop.time() + REFUSING_SECONDS, 0
        while looks < _QUIET_LOOKS and self._loop.time() < over:
            refused = self._refused
            await asyncio.sleep(_QUIET_SECONDS)
            looks = looks + 1 if refused == self._refused else 0

    async def drained(self, seconds: float) -> None:
        """Returns when no call is in progress but endless ones, or so many seconds from now; those whose peers do not read are ended."""
        await self._wait(seconds, lambda: len(self._calls) > self._endless)

    async def ended(self) -> None:
        """Ends all that are in progress, and returns when they have been told so, or could not be."""
        for call in list(self._calls):
            if call.state is State.WORKING:
                call.goes_to(State.TOLD)
            call.end()
        await self._wait(LAST_SECONDS, lambda: bool(self._calls))

    async def _wait(self, seconds: float, left: Callable[[], bool]) -> None:
        """Returns when none is left, or so many seconds from now. Only the last call's end is waited for: there may be thousands."""
        over = self._loop.time() + seconds
        while left() and (now := self._loop.time()) < over:
            for call in list(self._calls):
                if call.state is not State.WORKING and now >= call.since + UNREAD_SECONDS:
                    call.end()
            self._ended.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(over - now, _LOOK_SECONDS)):
                    await self._ended.wait()


def only(who: object) -> Only | None:
    """Which calls a door, or an observer, has to do with; None: all of them."""
    found: Only | None = getattr(who, "only", None)
    return found
