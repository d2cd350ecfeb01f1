"""What a namespace is doing, and what that means for whoever asks it for something.

=======  ===========  =======  ===================================================================================================
state    event        next     what is done
=======  ===========  =======  ===================================================================================================
Loading  ``Opened``   Loading  this opening is the one that is read
Loading  ``Served``   Serving  those who wait are let in
Loading  ``Missed``   Failed   those who wait have the error
Loading  ``CutOff``   Loading  those who wait have the error; the try goes on
Loading  ``Lost``     Loading  the error is why it is read anew; those who wait go on waiting
Serving  ``Lost``     Loading  whoever asks from now on waits
Serving  ``CutOff``   Serving  nothing: the view answers on, and the log itself says when it is lost
Failed   ``Asked``    Failed   there is somebody who waits for the next try, which begins soon
Failed   ``Began``    Loading  those who wait, wait for this try
Failed   ``CutOff``   Failed   those who wait have the error
Closed   all          Closed   nothing
the      ``Ended``    Closed   those who wait have the error, and so has everybody who comes later
others
=======  ===========  =======  ===================================================================================================

Loading and Failed have whoever asks wait, Serving answers, Closed refuses (``admit``). Everything else is a mistake (``Impossible``).
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

Waiters: TypeAlias = "asyncio.Future[None]"
"""Whoever waits for a try; done with it."""


class Phase(enum.Enum):
    """Where a namespace is in its life, for others."""

    LOADING = "loading"
    READY = "ready"
    FAILED = "failed"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class Loading:
    """The log is being read, or is about to be."""

    waiters: Waiters
    error: LogError | None = None
    """Why it is read anew; None: it is read for the first time."""
    silent: bool = False
    """Whether watchers go on being told that the last try has failed."""
    follower: Follower | None = None
    """The opening that is read."""

    def admit(self) -> Waiters | None:
        """Whoever asks waits for this try."""
        return self.waiters


@dataclass(frozen=True, slots=True)
class Serving:
    """The view answers."""

    follower: Follower
    hub: WatchHub

    def admit(self) -> Waiters | None:
        """Whoever asks is answered."""
        return None


@dataclass(frozen=True, slots=True)
class Failed:
    """The log could not be read. It is tried again."""

    error: LogError
    waiters: Waiters | None = None
    """Whoever waits for the next try; None: nobody."""

    def admit(self) -> Waiters | None:
        """Whoever asks (``Asked``) waits for the next try."""
        assert self.waiters is not None, "asked"
        return self.waiters


@dataclass(frozen=True, slots=True)
class Closed:
    """It has ended."""

    error: PolicyError

    def admit(self) -> Waiters | None:
        """Whoever asks is refused.

        Raises:
            PolicyError: always.
        """
        raise self.error


State: TypeAlias = Loading | Serving | Failed | Closed


class Opened(NamedTuple):
    """A log is being opened."""

    follower: Follower


class Served(NamedTuple):
    """A log is read, and nothing can be missing."""

    follower: Follower
    hub: WatchHub


class Missed(NamedTuple):
    """A try has failed."""

    error: LogError


class Lost(NamedTuple):
    """The log can't be followed any more."""

    error: LogError
    fresh: Waiters


class Asked(NamedTuple):
    """Somebody needs it."""

    fresh: Waiters


class Began(NamedTuple):
    """A new try begins."""

    fresh: Waiters
    silent: bool


class CutOff(NamedTuple):
    """The log is known to be out of reach: nobody waits for it."""

    error: LogError
    fresh: Waiters


class Ended(NamedTuple):
    """It is closed."""

    error: PolicyError


Happening: TypeAlias = Opened | Served | Missed | Lost | Asked | Began | CutOff | Ended


class Impossible(Exception):
    """Something happened that can't happen in this state."""


def after(state: State, event: Happening) -> State:
    """The state after an event: the table above.

    Raises:
        Impossible: the table has no such line.
    """
    then: State = state
    match state, event:
        case Closed(), _:
            pass
        case _, Ended(error):
            then = Closed(error)
        case Loading(waiters, error, silent), Opened(follower):
            then = Loading(waiters, error, silent, follower)
        case Loading(), Served(follower, hub):
            then = Serving(follower, hub)
        case Loading(), Missed(error):
            then = Failed(error)
        case Loading(waiters), Lost(error):
            then = Loading(waiters, error)
        case Serving(), Lost(error, fresh):
            then = Loading(fresh, error)
        case Loading(_, error, silent, follower), CutOff(_, fresh):
            then = Loading(fresh, error, silent, follower)
        case Failed(error), CutOff():
            then = Failed(error)
        case Serving(), CutOff():
            pass
        case Failed(error, waiters), Asked(fresh):
            then = Failed(error, waiters or fresh)
        case Failed(error, waiters), Began(fresh, silent):
            then = Loading(waiters or fresh, error, silent)
        case _:
            raise Impossible(f"{type(event).__name__} in {type(state).__name__}")
    return then


class Life:
    """The life of one namespace."""

    def __init__(self, asked: Callable[[], None]) -> None:
        """It is about to be loaded. ``asked``: told when somebody waits for the next try."""
        self._asked = asked
        self._state: State = Loading(_fresh())
        self.served: Follower | None = None
        """The opening whose view answers, or answered last."""
        self.hub: WatchHub | None = None
        """The watchers of that view."""
        self._last: View | None = None
        """The view that answered last, of a life that has ended."""

    @property
    def state(self) -> State:
        """What it is doing."""
        return self._state

    @property
    def phase(self) -> Phase:
        """The same for others."""
        match self._state:
            case Serving():
                return Phase.READY
            case Closed():
                return Phase.CLOSED
            case Failed() | Loading(silent=True):
                return Phase.FAILED
            case Loading():
                return Phase.LOADING

    @property
    def error(self) -> PolicyError | None:
        """Why the last try failed, why it is being read anew, or why it is closed; None: there is no such thing."""
        return None if isinstance(self._state, Serving) else self._state.error

    @property
    def cause(self) -> Reason:
        """The same for programs; NAMESPACE_LOADING where there is none."""
        return self.error.reason if self.error is not None else Reason.NAMESPACE_LOADING

    @property
    def view(self) -> View | None:
        """The view that answers, or answered last; None: none has."""
        return self.served.view if self.served is not None else self._last

    @property
    def reading(self) -> Follower | None:
        """The opening that is read."""
        return self._state.follower if isinstance(self._state, Loading) else None

    def admit(self) -> Waiters | None:
        """What whoever needs it waits for; None: it answers at once.

        Raises:
            PolicyError: it is closed.
        """
        if isinstance(self._state, Failed) and self._state.waiters is None:
            self._go(Asked(_fresh()))
            self._asked()
        return self._state.admit()

    def opened(self, follower: Follower) -> None:
        """An opening is read from now on."""
        self._go(Opened(follower))

    def serve(self, follower: Follower, hub: WatchHub) -> None:
        """A view answers from now on."""
        older = self.served
        self._go(Served(follower, hub))
        if isinstance(self._state, Serving):
            self.served, self.hub = follower, hub
            if older is not None and older is not follower:
                older.let_go()

    def missed(self, error: LogError) -> None:
        """A try has failed."""
        self._go(Missed(error))

    def lost(self, error: LogError) -> None:
        """The log can't be followed any more."""
        self._go(Lost(error, _fresh()))

    def began(self, *, silent: bool) -> None:
        """A new try begins; ``silent``: watchers are told when it has ended."""
        self._go(Began(_fresh(), silent))

    def cut_off(self, error: LogError) -> None:
        """The log is known to be out of reach: those who wait are told so."""
        self._go(CutOff(error, _fresh()))

    def end(self, error: PolicyError) -> None:
        """It is closed: whoever asks is refused."""
        self._go(Ended(error))

    def last(self) -> Life:
        """What is left when it has ended, for whoever still asks. The parts stand in circles, in which nothing of this is kept."""
        left = Life(self._asked)
        left._state, left.hub, left._last = self._state, self.hub, self.view
        if self.served is not None:
            self.served.let_go()
        self.served = self.hub = None
        return left

    def _go(self, event: Happening) -> None:
        before, self._state = self._state, after(self._state, event)
        now = self._state
        left = before.follower if isinstance(before, Loading) and not isinstance(now, Serving) else None
        if left is not None and left is not self.reading:
            if left.continues:
                older, self.served = self.served, left  # its view has come further than that of the opening before
                if older is not None:
                    older.let_go()
            else:
                left.forget()
        waiters = before.waiters if isinstance(before, Loading | Failed) else None
        if waiters is None or waiters.done():
            return
        if isinstance(now, Serving):
            waiters.set_result(None)
        elif isinstance(event, CutOff):
            _refuse(waiters, event.error)
        elif isinstance(now, Closed) or (isinstance(now, Failed) and now.waiters is not waiters):
            _refuse(waiters, now.error)


def _refuse(waiters: Waiters, error: PolicyError) -> None:
    waiters.set_exception(error)
    waiters.exception()  # whoever waits has it; nobody may


def _fresh() -> Waiters:
    return asyncio.get_running_loop().create_future()
