"""The state machine of a namespace: what it is doing, and whether its callers are answered, wait, or are refused.

=======  ===========  =======  ===================================================================================================
state    event        next     what is done
=======  ===========  =======  ===================================================================================================
Loading  ``Opened``   Loading  the log is read by this follower
Loading  ``Served``   Serving  the callers that wait are let in
Loading  ``Missed``   Failed   the callers that wait get the error of the attempt
Loading  ``CutOff``   Loading  the callers that wait get the error; the attempt goes on
Loading  ``Lost``     Loading  the log is opened anew, and the error says why; the callers that wait go on waiting
Serving  ``Lost``     Loading  callers wait from now on
Serving  ``CutOff``   Serving  nothing: the view answers on, and the log itself reports when it is lost
Failed   ``Asked``    Failed   a caller waits for the next attempt, which begins soon
Failed   ``Began``    Loading  the callers that wait for the next attempt wait for this one
Failed   ``CutOff``   Failed   the callers that wait get the error
Closed   all          Closed   nothing
the      ``Ended``    Closed   the callers that wait get the error, and so does every later caller
others
=======  ===========  =======  ===================================================================================================

An attempt to load opens the log, with a follower for each opening, and reads it until its view may answer (``loading``); from then on the
log *serves*. Callers wait in Loading and Failed, are answered in Serving, and are refused in Closed (``admit``).
Any event that is not in the table is a bug (``Impossible``).
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from ..core.errors import PolicyError
from ..core.reading.view import View
from ..core.reading.watch import WatchHub
from ..core.reasons import Reason
from ..logs.change_log import LogError
from .follower import Follower

ReadyFuture: TypeAlias = "asyncio.Future[None]"
"""The future that callers await while the namespace can't answer: it ends when the view answers, or with the error that they get."""


class Phase(enum.Enum):
    """The phase of a namespace that clients and health checks see; derived from its state."""

    LOADING = "loading"
    READY = "ready"
    FAILED = "failed"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class Loading:
    """The log is being read, or an attempt to read it is about to begin."""

    ready: ReadyFuture
    error: LogError | None = None
    """Why the log is read anew: the last attempt failed, or the log was lost; None: it is read for the first time."""
    stays_failed: bool = False
    """Whether the phase stays FAILED during this attempt, so that watchers see no change before it has ended."""
    follower: Follower | None = None
    """The follower of the opening that is being read; None: none is open yet."""

    def admit(self) -> ReadyFuture | None:
        """Returns the future to await: it ends with this attempt to load."""
        return self.ready


@dataclass(frozen=True, slots=True)
class Serving:
    """The log has been read, and the view answers."""

    follower: Follower
    hub: WatchHub

    def admit(self) -> ReadyFuture | None:
        """Returns None: the caller is answered at once."""
        return None


@dataclass(frozen=True, slots=True)
class Failed:
    """The last attempt to read the log failed. Another one follows."""

    error: LogError
    ready: ReadyFuture | None = None
    """The future of the callers that wait for the next attempt; None: no caller waits."""

    def admit(self) -> ReadyFuture | None:
        """Returns the future to await: it ends with the next attempt to load. ``Asked`` has to come first."""
        assert self.ready is not None, "asked"
        return self.ready


@dataclass(frozen=True, slots=True)
class Closed:
    """The namespace has ended."""

    error: PolicyError

    def admit(self) -> ReadyFuture | None:
        """Refuses the caller.

        Raises:
            PolicyError: always.
        """
        raise self.error


State: TypeAlias = Loading | Serving | Failed | Closed


class Opened(NamedTuple):
    """The log is being opened, with this follower."""

    follower: Follower


class Served(NamedTuple):
    """The log has been read completely enough for its view to answer."""

    follower: Follower
    hub: WatchHub


class Missed(NamedTuple):
    """An attempt to load has failed."""

    error: LogError


class Lost(NamedTuple):
    """The log can't be followed any more."""

    error: LogError
    next_ready: ReadyFuture
    """The future of the callers that wait from now on."""


class Asked(NamedTuple):
    """A caller needs the namespace."""

    next_ready: ReadyFuture
    """The future of the callers that wait from now on."""


class Began(NamedTuple):
    """A new attempt to load begins."""

    next_ready: ReadyFuture
    """The future of the callers that wait from now on."""
    stays_failed: bool


class CutOff(NamedTuple):
    """The log is known to be out of reach, so no caller should wait for it."""

    error: LogError
    next_ready: ReadyFuture
    """The future of the callers that wait from now on."""


class Ended(NamedTuple):
    """The namespace is closed."""

    error: PolicyError


Happening: TypeAlias = Opened | Served | Missed | Lost | Asked | Began | CutOff | Ended


class Impossible(Exception):
    """An event that can't happen in the state that the namespace is in."""


def after(state: State, event: Happening) -> State:
    """Returns the state after an event, by the table above.

    Raises:
        Impossible: the table has no such line.
    """
    then: State = state
    match state, event:
        case Closed(), _:
            pass
        case _, Ended(error):
            then = Closed(error)
        case Loading(ready, error, stays_failed), Opened(follower):
            then = Loading(ready, error, stays_failed, follower)
        case Loading(), Served(follower, hub):
            then = Serving(follower, hub)
        case Loading(), Missed(error):
            then = Failed(error)
        case Loading(ready), Lost(error):
            then = Loading(ready, error)
        case Serving(), Lost(error, next_ready):
            then = Loading(next_ready, error)
        case Loading(_, error, stays_failed, follower), CutOff(_, next_ready):
            then = Loading(next_ready, error, stays_failed, follower)
        case Failed(error), CutOff():
            then = Failed(error)
        case Serving(), CutOff():
            pass
        case Failed(error, ready), Asked(next_ready):
            then = Failed(error, ready or next_ready)
        case Failed(error, ready), Began(next_ready, stays_failed):
            then = Loading(ready or next_ready, error, stays_failed)
        case _:
            raise Impossible(f"{type(event).__name__} in {type(state).__name__}")
    return then


class Life:
    """The life of one namespace: its state, and the view that answers."""

    def __init__(self, asked: Callable[[], None], changed: Callable[[], None] = lambda: None) -> None:
        """Begins in Loading. ``asked``: called when a caller first waits for the next attempt; ``changed``: after a change of state."""
        self._asked = asked
        self._changed = changed
        self._state: State = Loading(_new_future())
        self.served: Follower | None = None
        """The follower whose view answers, or answered last; None: none has, or the namespace has ended."""
        self.hub: WatchHub | None = None
        """The watchers of that view."""
        self._last_view: View | None = None
        """The view that answered last, after the namespace has ended (``detached``)."""

    @property
    def state(self) -> State:
        """The current state."""
        return self._state

    @property
    def phase(self) -> Phase:
        """The phase that clients and health checks see; derived from the state."""
        match self._state:
            case Serving():
                return Phase.READY
            case Closed():
                return Phase.CLOSED
            case Failed() | Loading(stays_failed=True):
                return Phase.FAILED
            case Loading():
                return Phase.LOADING

    @property
    def error(self) -> PolicyError | None:
        """Why the last attempt failed, why the log is read anew, or why the namespace is closed; None: there is no such reason."""
        return None if isinstance(self._state, Serving) else self._state.error

    @property
    def cause(self) -> Reason:
        """The reason of ``error``; NAMESPACE_LOADING if there is no error."""
        return self.error.reason if self.error is not None else Reason.NAMESPACE_LOADING

    @property
    def view(self) -> View | None:
        """The view that answers, or answered last; None: none has."""
        return self.served.view if self.served is not None else self._last_view

    @property
    def reading(self) -> Follower | None:
        """The follower that is being read; None: the namespace is not loading, or the log is not being opened yet."""
        return self._state.follower if isinstance(self._state, Loading) else None

    def admit(self) -> ReadyFuture | None:
        """Returns the future that a caller has to await before it asks again; None: the caller is answered at once.

        Raises:
            PolicyError: the namespace is closed.
        """
        if isinstance(self._state, Failed) and self._state.ready is None:
            self._go(Asked(_new_future()))
            self._asked()
        return self._state.admit()

    def opened(self, follower: Follower) -> None:
        """Notes that the log is being opened, with this follower."""
        self._go(Opened(follower))

    def serve(self, follower: Follower, hub: WatchHub) -> None:
        """Lets the view of this follower answer from now on."""
        older = self.served
        self._go(Served(follower, hub))
        if isinstance(self._state, Serving):
            self.served, self.hub = follower, hub
            if older is not None and older is not follower:
                older.let_go()

    def missed(self, error: LogError) -> None:
        """Notes that an attempt to load has failed."""
        self._go(Missed(error))

    def lost(self, error: LogError) -> None:
        """Notes that the log can't be followed any more."""
        self._go(Lost(error, _new_future()))

    def began(self, *, stays_failed: bool) -> None:
        """Notes that a new attempt begins; ``stays_failed``: watchers see no change before it has ended."""
        self._go(Began(_new_future(), stays_failed))

    def cut_off(self, error: LogError) -> None:
        """Notes that the log is known to be out of reach: the callers that wait get the error."""
        self._go(CutOff(error, _new_future()))

    def end(self, error: PolicyError) -> None:
        """Closes the namespace: every caller gets the error from now on."""
        self._go(Ended(error))

    def detached(self) -> Life:
        """Returns what replaces this object when the namespace has ended: the last state, hub and view, without reference cycles."""
        left = Life(self._asked, self._changed)
        left._state, left.hub, left._last_view = self._state, self.hub, self.view
        if self.served is not None:
            self.served.let_go()
        self.served = self.hub = None
        return left

    def _go(self, event: Happening) -> None:
        before, now = self._state, after(self._state, event)
        self._state = now
        self._changed()
        left = before.follower if isinstance(before, Loading) and not isinstance(now, Serving) else None
        if left is not None and left is not self.reading:
            if left.continues:
                older, self.served = self.served, left  # its view is that of the opening before, and has come further
                if older is not None:
                    older.let_go()
            else:
                left.forget()
        if not isinstance(before, Loading | Failed) or (ready := before.ready) is None or ready.done():
            return
        if isinstance(now, Serving):
            ready.set_result(None)
        elif isinstance(event, CutOff):
            _refuse(ready, event.error)
        elif isinstance(now, Closed) or (isinstance(now, Failed) and now.ready is not ready):
            _refuse(ready, now.error)


def _refuse(ready: ReadyFuture, error: PolicyError) -> None:
    ready.set_exception(error)
    ready.exception()  # marks the exception as retrieved: there may be no caller that awaits it


def _new_future() -> ReadyFuture:
    return asyncio.get_running_loop().create_future()
