"""A limit for work in flight, in which work that hangs holds up no other for long: requests to brokers, loads of namespaces.

Each piece of work is about a *subject*, such as one kind of request about one namespace. The work of a subject has its turns in order of
arrival, and subjects that wait have theirs one after the other. Work that makes no progress gives its place to other work and goes on:

========  ==========================================================  =======  ===========================================================
state     event                                                       next     action
========  ==========================================================  =======  ===========================================================
WAITING   its turn; its subject answers, and a quick place is free    QUICK    it begins
WAITING   its turn; its subject is silent and has no work in flight,  SLOW     it begins
          and a slow place is free
WAITING   the same, but no slow place is free, and more than half of  QUICK    it begins
          the quick ones are, for which nothing else waits
WAITING   its time is over                                            (ended)  ``NoPlaceError``
QUICK     ``patience`` without progress                               SLOW     its subject is silent; without a free slow place the work
                                                                               that has made no progress for the longest time is given up
QUICK     the same, but all slow work makes progress                  QUICK    its subject is silent
SLOW      it is given up                                              (ended)  ``GivenUpError``
QUICK,    it ends with success, or within ``patience``                (ended)  its subject answers
SLOW
QUICK,    it ends otherwise                                           (ended)  its subject stays as it is
SLOW
========  ==========================================================  =======  ===========================================================

So a quick place is free again after ``patience``, or is used while work makes progress, whatever hangs. Of a subject that is known to be
silent only one piece of work is begun at a time. Silent subjects have their turns in the order of their last ones, also if nothing of
theirs waited meanwhile: one that would answer again is not kept waiting by any number of others that hang. No work is given up before it
has had ``patience``, and (slow places / quick places) times as long again, or half of ``patience`` if other slow work makes progress.
"""

from __future__ import annotations

import asyncio
import itertools
from bisect import bisect_left, insort
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

    __slots__ = ("in_flight", "name", "silent", "turn", "waiting")

    def __init__(self, name: Hashable, turn: int | None) -> None:
        self.name = name
        self.in_flight = 0
        self.silent = turn is not None
        """Whether some of its work was slow, and none has succeeded since."""
        self.turn = turn or 0
        """The number of the last turn that it had; no two subjects have had the same one."""
        self.waiting: OrderedDict[asyncio.Future[_Held], Callable[[], object]] = OrderedDict()
        """Who waits, in order. Who gives up leaves the queue from any place in it, at once."""


class _Held:
    """A place that is occupied."""

    __slots__ = ("began", "given_up", "limit", "progress", "seen", "since", "slow", "subject", "timer")

    def __init__(self, subject: _Subject, began: float, progress: Callable[[], object], *, slow: bool) -> None:
        self.subject = subject
        self.began = self.since = began
        """``since``: when it was last found that it had made progress, or became slow."""
        self.progress = progress
        self.seen = progress()
        """The progress at the last look."""
        self.slow = slow
        self.given_up = False
        self.limit: asyncio.Timeout | None = None
        """Ends the work when it is given up; None: it has not begun yet."""
        self.timer: asyncio.TimerHandle | None = None

    def has_progressed(self) -> bool:
        """Whether it has made progress since the last look."""
        before, self.seen = self.seen, self.progress()
        return self.seen != before

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
        self._quick = quick
        self._free = quick
        """Free quick places."""
        self._most_slow = slow
        self._slow: OrderedDict[_Held, None] = OrderedDict()
        """The slow work, that which has been seen without progress for the longest time first."""
        self._subjects: dict[Hashable, _Subject] = {}
        """The subjects with work."""
        self._silent: OrderedDict[Hashable, int] = OrderedDict()
        """The last turns of the silent subjects without work, the one whose last work ended first at the front."""
        self._turns: OrderedDict[_Subject, None] = OrderedDict()
        """The subjects with waiting work that answer, in the order of their turns."""
        self._silent_turns: list[tuple[int, _Subject]] = []
        """The silent subjects with waiting work and none in flight, each with its last turn, in the order of these."""
        self._numbers = itertools.count(1)

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
            subject = self._subjects[about] = _Subject(about, self._silent.pop(about, None))
        return subject

    def _has_place(self, subject: _Subject) -> bool:
        if subject.silent:
            return not subject.in_flight and (len(self._slow) < self._most_slow or self._free > self._quick // 2)
        return self._free > 0

    def _begin(self, subject: _Subject, progress: Callable[[], object]) -> _Held:
        held = _Held(subject, _now(), progress, slow=subject.silent and len(self._slow) < self._most_slow)
        subject.in_flight += 1
        subject.turn = next(self._numbers)
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
        if held.has_progressed():
            self._look_later(held)
            return
        held.subject.silent = True
        if self._makes_room():
            held.slow, held.since = True, _now()
            self._slow[held] = None
            self._free += 1
        else:
            self._look_later(held)
        self._line_up(held.subject)
        self._give_places()

    def _makes_room(self) -> bool:
        """Has a slow place free, if need be by giving work up. Returns False if all of it has made progress of late."""
        if len(self._slow) < self._most_slow:
            return True
        now = _now()
        for held in list(self._slow):
            if held.has_progressed():
                held.since = now
                self._slow.move_to_end(held)
                continue
            if now - held.since < self._patience / 2:  # and so are those behind it
                return False
            del self._slow[held]
            held.give_up()
            return True
        return False

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
        """Puts a subject into the line where it belongs, unless it stands there; forgets it if it has no work."""
        waits, can_begin = bool(subject.waiting), not subject.in_flight
        if waits and not subject.silent:
            self._turns.setdefault(subject)
        else:
            self._turns.pop(subject, None)
        index = bisect_left(self._silent_turns, (subject.turn,))
        stands = index < len(self._silent_turns) and self._silent_turns[index][1] is subject
        belongs = waits and subject.silent and can_begin
        if belongs and not stands:
            insort(self._silent_turns, (subject.turn, subject))
        elif stands and not belongs:
            del self._silent_turns[index]
        if can_begin and not waits and self._subjects.get(subject.name) is subject:
            del self._subjects[subject.name]
            if subject.silent:
                self._silent[subject.name] = subject.turn
                if len(self._silent) > _MOST_SILENT:
                    self._silent.popitem(last=False)

    def _give_places(self) -> None:
        """Gives free places to who waits."""
        while self._turns and self._has_place(subject := next(iter(self._turns))):
            del self._turns[subject]
            self._give_place(subject)
        while self._silent_turns and self._has_place(subject := self._silent_turns[0][1]):
            del self._silent_turns[0]
            self._give_place(subject)

    def _give_place(self, subject: _Subject) -> None:
        turn, progress = subject.waiting.popitem(last=False)
        if not turn.done():
            turn.set_result(self._begin(subject, progress))
        self._line_up(subject)


def _now() -> float:
    return asyncio.get_running_loop().time()
