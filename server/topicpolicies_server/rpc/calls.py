"""The calls in progress: registered when they begin, passed through the doors, observed, and ended when the server stops.

*Doors* are called before a request is decoded; each may refuse the call, or set its caller. Some can tell by the metadata alone that they
will refuse a call: such a call is refused before its request arrives. *Observers* are notified when a call ends, and some also when it
arrives.

========  ============================================  ======================================  ======================================
state     the call                                      while the server stops                  when the time for stopping is over
========  ============================================  ======================================  ======================================
WORKING   makes its answer, or waits for something      goes on; watches end by themselves      is ended with the status SHUTTING_DOWN
          to send
WRITING   writes, and waits for its peer to take that   goes on; is ended if the peer takes     is ended without a status
                                                        nothing for ``UNREAD_SECONDS``
ENDING    was ended, and its status is being sent       is ended if the peer does not take      is ended
                                                        that for ``UNREAD_SECONDS``
========  ============================================  ======================================  ======================================

A call whose method has returned is no call in progress any more. A peer that does not read can receive no status, so its call ends without
one, and its connection is closed with the server.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

from ..access import Caller
from ..core.chains.request import Request, Result
from ..core.errors import PolicyError, stopping, too_much
from .arriving import Arriving
from .call import Call, Metadata, State
from .lateness import Lateness

UNREAD_SECONDS = 1.0
"""Seconds for which, while the server stops, a peer may leave unread what is written to it. Then its call is ended."""
LAST_SECONDS = 1.0
"""Seconds that calls which were ended may take to send their status."""
REFUSING_SECONDS = 2.0
"""Seconds, at most, for which new calls are refused with SHUTTING_DOWN while the server stops; then gRPC accepts no more."""
ELSEWHERE_SECONDS = 0.5
"""After how many seconds a call that is refused then may be repeated: by then its connection is closed, and it goes to another server."""
_QUIET_LOOKS = 5
"""After so many checks in a row without a new call, every call that had arrived is assumed to have begun."""
_QUIET_SECONDS = 0.01
"""Seconds between two such checks."""
_LOOK_SECONDS = 0.1
"""Seconds between two checks, while the server stops, of whether peers read."""


class Observer(Protocol):
    """Is notified of calls, on the event loop. Its methods must return at once and must not raise."""

    def ended(self, call: Call) -> None:
        """Notes that a call has ended: its ``error``, ``code`` and ``given_up`` say how. It may have ended before it passed the doors."""


@runtime_checkable
class BeginObserver(Observer, Protocol):
    """An observer that is notified of the arrival of each call, too."""

    def began(self, call: Call) -> None:
        """Notes that a call has arrived."""


class Only(enum.Enum):
    """The value of a door's or observer's attribute ``only``: the calls for which it is called. Without the attribute that is every call.

    Between two calls gRPC and the kernel push our code out of the processor's caches, so each function call is expensive. Doors and
    observers are therefore not called for calls that do not concern them.
    """

    STREAMS = enum.auto()
    """Calls of methods whose calls may stay open (``leaving.stays``)."""
    TRACED = enum.auto()
    """Calls that have a span when they end. For observers only: no door is limited to them."""


class ChangeObserver(Protocol):
    """Is notified of each change of a batch, under the same conditions as an ``Observer``."""

    def changed(self, method: str, caller: Caller, request: Request | None, answer: Result | PolicyError | None, seconds: float) -> None:
        """Notes that a change has its outcome, or that its call ended before.

        Args:
            method: the method of the call.
            caller: the caller.
            request: the change; None: it could not be decoded or is invalid.
            answer: the outcome; None: the call ended before there was one. The change may have been made all the same.
            seconds: how long the change took, from when it was read.
        """


Door: TypeAlias = Callable[[Call], "Awaitable[None] | None"]
"""Called for each call before its request is decoded. Returns None if the call passes, or what to await for that. Raises ``PolicyError`` to
refuse the call."""


Refusal: TypeAlias = Callable[[str, Metadata], PolicyError | None]
"""A door may have a method ``refusal`` of this type. It is called with the method and the metadata of a call before the request has come,
and returns what the door refuses the call with, whatever the request is. None: the door has to be asked once the request has come. So the
server does not take megabytes from callers that it refuses. A door that lets calls in without credentials has a method ``is_stranger`` with
the same arguments, which returns whether a call is one of these."""


class Calls:
    """The calls in progress of one server. It belongs to one event loop."""

    def __init__(self, most: int, doors: Sequence[Door] = (), observers: Sequence[Observer] = ()) -> None:
        """Begins without calls.

        Args:
            most: how many calls may be in progress.
            doors: the doors that each call passes, in this order.
            observers: the observers that are notified of each call.
        """
        self._most = most
        self.doors = tuple(doors)
        self.observers = tuple(observers)
        self.change_observers: tuple[ChangeObserver, ...] = ()
        """The observers that are notified of each change of a batch."""
        self._loop = asyncio.get_running_loop()
        self._calls: dict[Call, None] = {}
        self.lateness: Lateness[Call] = Lateness(self._loop, self._calls.__contains__)
        """The deadlines of calls with one answer."""
        self.arriving = Arriving(self._loop, most)
        """The calls whose requests have not arrived."""
        self._endless = 0
        """How many calls in progress do not end by themselves when the server stops."""
        self._ended = asyncio.Event()
        """Set when no call is in progress but endless ones."""
        self._stops = False
        self._refused = 0
        """How many calls were refused since the server began to stop."""

    def __len__(self) -> int:
        return len(self._calls)

    @property
    def doors(self) -> tuple[Door, ...]:
        """The doors, in the order in which each call passes them."""
        return self._doors

    @doors.setter
    def doors(self, doors: tuple[Door, ...]) -> None:
        self._doors = doors
        self.unary_doors = tuple(each for each in doors if only(each) is None)
        """The doors that calls with one answer pass: all but those that are limited to streams."""
        early: list[Refusal | None] = [getattr(each, "refusal", None) for each in doors]
        self._refusals = tuple(each for each in early if each is not None)
        strangers: list[Callable[[str, Metadata], bool] | None] = [getattr(each, "is_stranger", None) for each in doors]
        self._lets_in_strangers = tuple(each for each in strangers if each is not None)

    @property
    def observers(self) -> tuple[Observer, ...]:
        """The observers that are notified of calls."""
        return self._observers

    @observers.setter
    def observers(self, observers: tuple[Observer, ...]) -> None:
        self._observers = observers
        self._tell_began = tuple(each.began for each in observers if isinstance(each, BeginObserver))
        self._tell_ended = tuple(each.ended for each in observers if only(each) is None)
        self._tell_stream_ended = tuple(each.ended for each in observers if only(each) is Only.STREAMS)
        self._tell_traced = tuple(each.ended for each in observers if only(each) is Only.TRACED)

    def methods(self) -> list[str]:
        """Returns the method of each call in progress, so one method any number of times. Safe to call from any thread."""
        return [call.method for call in list(self._calls)]

    def unread_seconds(self) -> float:
        """Returns the longest time, in seconds, for which any peer has left a message unread; 0: none is unread. Safe from any thread."""
        now = self._loop.time()
        return max((now - call.since for call in list(self._calls) if call.state is State.WRITING), default=0.0)

    def unread(self, seconds: float) -> list[Call]:
        """Returns the calls whose peers have left a message unread for at least so many seconds."""
        return [call for call in self._calls if call.state is State.WRITING and self.unread_for(call) >= seconds]

    def unread_for(self, call: Call) -> float:
        """Returns the seconds for which a call's peer has left a message unread; meaningless unless the call is WRITING."""
        return self._loop.time() - call.since

    def early_refusal(self, method: str, metadata: Metadata) -> PolicyError | None:
        """Returns what a call is refused with before its request has come; None: it may come.

        Args:
            method: the method's name, as in ``Call``.
            metadata: the metadata that the caller sent.
        """
        if self._stops:
            self._refused += 1
            return stopping(ELSEWHERE_SECONDS)
        try:
            for refusal in self._refusals:
                if (error := refusal(method, metadata)) is not None:
                    return error
        except Exception:  # noqa: BLE001 (the door fails again once the request has come, and that is told)
            return None
        return None

    def is_stranger(self, method: str, metadata: Metadata) -> bool:
        """Returns whether a call that may come is let in without credentials, where others need them. The arguments: ``early_refusal``."""
        return any(each(method, metadata) for each in self._lets_in_strangers)

    def arrived(self, method: str, context: Any, size: int = 0, metadata: Metadata | None = None) -> Call:
        """Creates the ``Call`` for a call that has arrived, and notifies observers. ``finished`` must be called at its end.

        Args:
            method: the method's name, as in ``Call``.
            context: gRPC's context (``grpc.aio.ServicerContext``).
            size: bytes of the request; 0 for a stream of requests.
            metadata: the metadata that the caller sent; None: it was not read yet.
        """
        call = Call(method, context, size, tuple(context.invocation_metadata() or ()) if metadata is None else metadata)
        for tell in self._tell_began:
            tell(call)
        return call

    def finished(self, call: Call, *, stays: bool) -> None:
        """Notifies observers that a call has ended. ``stays``: whether calls of its method may stay open (``leaving.stays``)."""
        for tell in self._tell_ended:
            tell(call)
        if stays:
            for tell in self._tell_stream_ended:
                tell(call)
        if call.span is not None:
            for tell in self._tell_traced:
                tell(call)

    def register(self, call: Call, *, endless: bool = False) -> None:
        """Registers a call as in progress until ``unregister``. ``endless``: a stopping server does not wait for this call to end.

        Raises:
            PolicyError: RESOURCE_EXHAUSTED, the greatest number of calls is in progress; UNAVAILABLE, the server is stopping.
        """
        if self._stops:
            self._refused += 1
            raise stopping(ELSEWHERE_SECONDS)
        if len(self._calls) >= self._most:
            problem = f"{self._most:,} calls are in progress, which is the limit: try again later, or raise max_concurrent_calls."
            raise too_much("max_concurrent_calls", self._most, problem)
        self._calls[call] = None
        self._endless += endless

    async def enter(self, call: Call) -> None:
        """Passes a call that may stay open through all doors.

        Raises:
            PolicyError: a door refuses the call.
        """
        for door in self.doors:
            if (passing := door(call)) is not None:
                await passing

    def unregister(self, call: Call, *, endless: bool = False) -> None:
        """Removes a call from those in progress. ``endless``: as it was given to ``register``."""
        del self._calls[call]
        self._endless -= endless
        if len(self._calls) <= self._endless:
            self._ended.set()

    async def refuse(self) -> None:
        """Refuses new calls from now on, and those whose requests have not arrived; returns when calls that had come are refused too.

        gRPC would cancel those without a reason once it accepts no more calls.
        """
        self._stops = True
        self.arriving.end_all(stopping(ELSEWHERE_SECONDS))
        over, looks = self._loop.time() + REFUSING_SECONDS, 0
        while looks < _QUIET_LOOKS and self._loop.time() < over:
            refused = self._refused
            await asyncio.sleep(_QUIET_SECONDS)
            looks = looks + 1 if refused == self._refused else 0

    async def drained(self, seconds: float) -> None:
        """Returns when only endless calls are in progress, or after so many seconds. Calls whose peers do not read are ended meanwhile."""
        await self._wait(seconds, lambda: len(self._calls) > self._endless)

    async def end_all(self) -> None:
        """Ends every call in progress; returns when each has sent its status, or after ``LAST_SECONDS``."""
        for call in list(self._calls):
            if call.state is State.WORKING:
                call.goes_to(State.ENDING)
            call.end()
        await self._wait(LAST_SECONDS, lambda: bool(self._calls))

    async def _wait(self, seconds: float, left: Callable[[], bool]) -> None:
        """Returns when ``left`` says that no call is left, or after so many seconds.

        It is woken by the end of the last call but the endless ones, not by the end of each: there may be thousands.
        """
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
    """Returns to which calls a door or an observer is limited; None: it is called for all of them."""
    found: Only | None = getattr(who, "only", None)
    return found
