"""A limit for requests in flight, in which requests that hang hold up no others for long.

Each request is about a *subject*: one kind of request about one namespace. Requests of a subject have their turns in order of arrival, and
subjects that wait have theirs one after the other. A request that takes long gives its place to another one and goes on:

========  ==========================================================  =======  ===========================================================
state     event                                                       next     action
========  ==========================================================  =======  ===========================================================
WAITING   its turn; its subject answers, and a quick place is free    QUICK    it begins
WAITING   its turn; its subject is silent and has no request in       SLOW     it begins
          flight, and a slow place is free
WAITING   its time is over                                            (ended)  ``NoPlaceError``
QUICK     ``QUICK_SECONDS`` without an answer                         SLOW     its subject is silent; without a free slow place the
                                                                               request that has been slow for the longest time is given up
SLOW      it is given up                                              (ended)  ``GivenUpError``
QUICK,    it ends with an answer, or within ``QUICK_SECONDS``         (ended)  its subject answers
SLOW
QUICK,    it ends otherwise                                           (ended)  its subject stays as it is
SLOW
========  ==========================================================  =======  ===========================================================

So a quick place is free again after ``QUICK_SECONDS`` at most, whatever brokers do. Of a subject that is known to be silent only one
request is begun at a time, which takes no quick place. No request is given up before it has had ``QUICK_SECONDS``, and (slow places / quick
places) times as long again.

The HTTP library has a queue for its connections, too. But it scans all requests that wait whenever one comes or goes: with a thousand of
them the process did nothing else (docs/benchmarks.md, "Many namespaces").
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager

QUICK_SECONDS = 1.0
"""How long a request may occupy a quick place."""
_MOST_SILENT = 4_096
"""How many subjects without requests are remembered as silent."""


class NoPlaceError(Exception):
    """No place became free within the time allowed."""

    def __init__(self, *, silent: bool) -> None:
        """``silent``: whether the request waited for an answer to another one of its subject."""
        before = "an earlier request of the same kind is not answered" if silent else "too many other requests wait before it"
        super().__init__(before)


class GivenUpError(Exception):
    """The request was given up, because many others take long, too."""

    def __str__(self) -> str:
        return "there was no answer yet, and too many other requests take long, too"


class _Subject:
    """What requests are about."""

    __slots__ = ("in_flight", "name", "silent", "waiting")

    def __init__(self, name: Hashable, *, silent: bool) -> None:
        self.name = name
        self.in_flight = 0
        self.silent = silent
        """Whether one of its requests was slow, and none was answered since."""
        self.waiting: OrderedDict[asyncio.Future[_Held], None] = OrderedDict()
        """The waiting requests, in order. One that gives up leaves the queue from any place in it, at once."""


class _Held:
    """A place that a request occupies."""

    __slots__ = ("began", "given_up", "limit", "slow", "subject", "timer")

    def __init__(self, subject: _Subject, began: float, *, slow: bool) -> None:
        self.subject = subject
        self.began = began
        self.slow = slow
        self.given_up = False
        self.limit: asyncio.Timeout | None = None
        """Ends the request when it is given up; None: it has not begun yet."""
        self.timer: asyncio.TimerHandle | None = None

    def give_up(self) -> None:
        """Ends the request."""
        self.given_up = True
        if self.limit is not None:
            self.limit.reschedule(_now())


class RequestLimiter:
    """Limits how many requests one admin client has in flight. It is bound to one event loop."""

    def __init__(self, quick: int, slow: int) -> None:
        """``quick`` and ``slow``: how many requests of either kind may be in flight."""
        self._free = quick
        """Free quick places."""
        self._most_slow = slow
        self._slow: OrderedDict[_Held, None] = OrderedDict()
        """The slow requests, the one that has been slow for the longest time first."""
        self._subjects: dict[Hashable, _Subject] = {}
        """The subjects with requests."""
        self._silent: OrderedDict[Hashable, None] = OrderedDict()
        """The silent subjects without requests, the one whose last request ended first at the front."""
        self._turns: OrderedDict[_Subject, None] = OrderedDict()
        """The subjects with waiting requests that answer, in the order of their turns."""
        self._silent_turns: OrderedDict[_Subject, None] = OrderedDict()
        """The silent subjects with waiting requests and none in flight, in the order of their turns."""

    @asynccontextmanager
    async def place(self, about: Hashable, seconds: float) -> AsyncIterator[None]:
        """Occupies a place for one request; a free one is taken at once.

        Args:
            about: the request's subject.
            seconds: how long to wait for a place.

        Raises:
            NoPlaceError: no place became free in time.
            GivenUpError: the request has been in flight for long, and others need its place.
        """
        held = self._enter(about) or await self._wait(about, seconds)
        answered = False
        try:
            async with asyncio.timeout(0 if held.given_up else None) as held.limit:
                yield
            answered = True
        except Exception as error:
            if held.given_up and isinstance(error, TimeoutError):
                raise GivenUpError from None
            answered = _now() - held.began < QUICK_SECONDS
            raise
        finally:
            self._leave(held, answered=answered)

    def _enter(self, about: Hashable) -> _Held | None:
        """Returns a place if the request need not wait."""
        subject = self._subject(about)
        if subject.waiting or not self._has_place(subject):
            return None
        return self._begin(subject)

    async def _wait(self, about: Hashable, seconds: float) -> _Held:
        subject = self._subject(about)
        turn: asyncio.Future[_Held] = asyncio.get_running_loop().create_future()
        subject.waiting[turn] = None
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

    def _begin(self, subject: _Subject) -> _Held:
        held = _Held(subject, _now(), slow=subject.silent)
        subject.in_flight += 1
        if held.slow:
            self._slow[held] = None
        else:
            self._free -= 1
            held.timer = asyncio.get_running_loop().call_later(QUICK_SECONDS, self._slow_down, held)
        return held

    def _slow_down(self, held: _Held) -> None:
        """Moves a request from its quick place to a slow one."""
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
        """Puts a subject into the line where it belongs, behind those that are there; forgets it if it has no requests."""
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
        """Gives free places to requests that wait."""
        for line in (self._turns, self._silent_turns):
            while line and self._has_place(subject := next(iter(line))):
                del line[subject]
                turn, _ = subject.waiting.popitem(last=False)
                if not turn.done():
                    turn.set_result(self._begin(subject))
                self._line_up(subject)


def _now() -> float:
    return asyncio.get_running_loop().time()
