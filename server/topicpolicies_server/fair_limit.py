"""A limit for work in flight, in which work that hangs holds up no other for long: requests to brokers, loads of namespaces.

Each piece of work is about a *subject*, such as one kind of request about one namespace. The work of a subject has its turns in order of
arrival, and subjects that wait have theirs one after the other. Work that makes no progress gives its place to other work and goes on:

========  ==========================================================  =======  ===========================================================
state     event                                                       next     action
========  ==========================================================  =======  ===========================================================
WAITING   its turn; its subject answers, and a quick place is free    QUICK    it begins
WAITING   its turn; its subject is silent and has no work in flight,  SLOW     it begins
          and a slow place is free
WAITING   its time is over                                            (ended)  ``NoPlaceError``
QUICK     ``patience`` without progress                               SLOW     its subject is silent; without a free slow place the work
                                                                               that has been slow for the longest time is given up
SLOW      it is given up                                              (ended)  ``GivenUpError``
QUICK,    it ends with success, or within ``patience``                (ended)  its subject answers
SLOW
QUICK,    it ends otherwise                                           (ended)  its subject stays as it is
SLOW
========  ==========================================================  =======  ===========================================================

So a quick place is free again after ``patience``, or is used for work that makes progress, whatever hangs. Of a subject that is known to be
silent only one piece of work is begun at a time, which takes no quick place. No work is given up before it has had ``patience``, and (slow
places / quick places) times as long again.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager

_MOST_SILENT = 4_096
"""How many subjects without requests are remembered as silent."""


class NoPlaceError(Exception):
    """No place became free within the time allowed."""

    def __init__(self, *, silent: bool) -> None:
        """``silent``: whether it was other work of the same subject that was waited for."""
        before = "an earlier request of the same kind is not answered" if silent else "too many other requests wait before it"
        super().__init__(before)


class GivenUpError(Exception):
    """The work was given up, because much other work takes long, too."""

    def __str__(self) -> str:
        return "there was no answer yet, and too many other requests take long, too"


class _Subject:
    """What work is about."""

    __slots__ = ("in_flight", "name", "silent", "waiting")

    def __init__(self, name: Hashable, *, silent: bool) -> None:
        self.name = name
        self.in_flight = 0
        self.silent = silent
        """Whether some of its work was slow, and none has succeeded since."""
        self.waiting: OrderedDict[asyncio.Future[_Held], Callable[[], object]] = OrderedDict()
        """Who waits, in order. Who gives up leaves the queue from any place in it, at once."""


class _Held:
    """A place that is occupied."""

    __slots__ = ("began", "given_up", "limit", "progress", "seen", "slow", "subject", "timer")

    def __init__(self, subject: _Subject, began: float, progress: Callable[[], object], *, slow: bool) -> None:
        self.subject = subject
        self.began = began
        self.progress = progress
        self.seen = progress()
        """The progress at the last look."""
        self.slow = slow
        self.given_up = False
        self.limit: asyncio.Timeout | None = None
        """Ends the work when it is given up; None: it has not begun yet."""
        self.timer: asyncio.TimerHandle | None = None

    def give_up(self) -> None:
        """Ends the work."""
        self.given_up = True
        if self.limit is not None:
            self.limit.reschedule(_now())


class FairLimiter:
    """Limits how much work is in flight. It is bound to one event loop."""

    def __init__(self, quick: int, slow: int, patience: float) -> None:
        """``quick``, ``slow``: the number of places of either kind. ``patience``: seconds without progress after which work is slow."""
        self._patience = patience
        self._free = quick
        """Free quick places."""
        self._most_slow = slow
        self._slow: OrderedDict[_Held, None] = OrderedDict()
        """The slow work, that which has been slow for the longest time first."""
        self._subjects: dict[Hashable, _Subject] = {}
        """The subjects with work."""
        self._silent: OrderedDict[Hashable, None] = OrderedDict()
        """The silent subjects without work, the one whose last work ended first at the front."""
        self._turns: OrderedDict[_Subject, None] = OrderedDict()
        """The subjects with waiting work that answer, in the order of their turns."""
        self._silent_turns: OrderedDict[_Subject, None] = OrderedDict()
        """The silent subjects with waiting work and none in flight, in the order of their turns."""

    @asynccontextmanager
    async def place(
        self, about: Hashable, seconds: float | None = None, progress: Callable[[], object] = lambda: None
    ) -> AsyncIterator[None]:
        """Occupies a place; a free one is taken at once.

        Args:
            about: the subject.
            seconds: how long to wait for a place; None: without end.
            progress: returns something that changes whenever progress is made.

        Raises:
            NoPlaceError: no place became free in time.
            GivenUpError: the work has been in flight for long, and other work needs its place.
        """
        held = self._enter(about, progress) or await self._wait(about, seconds, progress)
        answered = False
        try:
            async with asyncio.timeout(0 if held.given_up else None) as held.limit:
                yield
            answered = True
        except Exception as error:
            if held.given_up and isinstance(error, TimeoutError):
                raise GivenUpError from None
            answered = _now() - held.began < self._patience
            raise
        finally:
            self._leave(held, answered=answered)

    def _enter(self, about: Hashable, progress: Callable[[], object]) -> _Held | None:
        """Returns a place if one can be had without waiting."""
        subject = self._subject(about)
        if subject.waiting or not self._has_place(subject):
            return None
        return self._begin(subject, progress)

    async def _wait(self, about: Hashable, seconds: float | None, progress: Callable[[], object]) -> _Held:
        subject = self._subject(about)
        turn: asyncio.Future[_Held] = asyncio.get_running_loop().create_future()
        subject.waiting[turn] = progress
        self._line_up(subject)
        try:
            async with asyncio.timeout(seconds):
                return await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():  # it has come just now
                self._leave(turn.result(), answered=False)
            else:
                subject.waiting.pop(turn, None)
                self._line_up(subject)
            if isinstance(error, TimeoutError):
                raise NoPlaceError(silent=subject.silent) from None
            raise

    def _subject(self, about: Hashable) -> _Subject:
        subject = self._subjects.get(about)
        if subject is None:
            subject = self._subjects[about] = _Subject(about, silent=about in self._silent)
            self._silent.pop(about, None)
        return subject

    def _has_place(self, subject: _Subject) -> bool:
        if subject.silent:
            return not subject.in_flight and len(self._slow) < self._most_slow
        return self._free > 0

    def _begin(self, subject: _Subject, progress: Callable[[], object]) -> _Held:
        held = _Held(subject, _now(), progress, slow=subject.silent)
        subject.in_flight += 1
        if held.slow:
            self._slow[held] = None
        else:
            self._free -= 1
            self._look_later(held)
        return held

    def _look_later(self, held: _Held) -> None:
        held.timer = asyncio.get_running_loop().call_later(self._patience, self._look, held)

    def _look(self, held: _Held) -> None:
        """Moves work that has made no progress from its quick place to a slow one."""
        before, held.seen = held.seen, held.progress()
        if held.seen != before:
            self._look_later(held)
            return
        if len(self._slow) >= self._most_slow:
            longest, _ = self._slow.popitem(last=False)
            longest.give_up()
        held.slow = held.subject.silent = True
        self._slow[held] = None
        self._free += 1
        self._line_up(held.subject)
        self._give_places()

    def _leave(self, held: _Held, *, answered: bool) -> None:
        subject = held.subject
        subject.in_flight -= 1
        if held.slow:
            self._slow.pop(held, None)
        else:
            self._free += 1
        if held.timer is not None:
            held.timer.cancel()
        if answered:
            subject.silent = False
        self._line_up(subject)
        self._give_places()

    def _line_up(self, subject: _Subject) -> None:
        """Puts a subject into the line where it belongs, behind those that are there; forgets it if it has no work."""
        waits, can_begin = bool(subject.waiting), not subject.in_flight
        for line, belongs in ((self._turns, waits and not subject.silent), (self._silent_turns, waits and subject.silent and can_begin)):
            if belongs:
                line.setdefault(subject)
            else:
                line.pop(subject, None)
        if can_begin and not waits and self._subjects.get(subject.name) is subject:
            del self._subjects[subject.name]
            if subject.silent:
                self._silent[subject.name] = None
                if len(self._silent) > _MOST_SILENT:
                    self._silent.popitem(last=False)

    def _give_places(self) -> None:
        """Gives free places to who waits."""
        for line in (self._turns, self._silent_turns):
            while line and self._has_place(subject := next(iter(line))):
                del line[subject]
                turn, progress = subject.waiting.popitem(last=False)
                if not turn.done():
                    turn.set_result(self._begin(subject, progress))
                self._line_up(subject)


def _now() -> float:
    return asyncio.get_running_loop().time()
