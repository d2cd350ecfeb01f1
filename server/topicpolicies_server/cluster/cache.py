"""Remembers answers for a while: bounded, one question at a time for each key, refreshed before it is needed.

An answer that is used in the second half of its time is asked for anew while it still holds, and so is an old one that will do. Nobody
waits for these questions. Where questions wait for places no more than ``MOST_BESIDE`` of them are asked at a time: a newcomer's question
stands behind few of them, and a later use asks what was left out.

Whoever asks for what is being asked already shares the question, which is a task of the cache's own: a caller that is cancelled ends only
its waiting. A question that waits for its place is given up with the last of those who wait for it, so that callers who go away leave
nothing in the line. One that has its place goes on, and so does one that nobody had to wait for (it refreshes what is known): callers
with little time would learn nothing otherwise. But no more than ``MOST_LEFT`` that everybody has left go on, those that were left last. A
question ends in one of these ways:

=====================================  =======================================  ===================================
what it comes to                       what is remembered                       what those who wait have
=====================================  =======================================  ===================================
an answer that is worth keeping        it; the oldest answer goes for room      it
another answer                         nothing about the key                    it
a ``PolicyError`` of kind NOT_FOUND    nothing about the key                    the error
another ``PolicyError``                what was, as an older answer             the error
an error that nobody foresaw, or that  what was, as an older answer; a line     the error
what it awaited was cancelled          stands in the log
its last caller goes away before it    what was                                 (nobody)
has its place, or ``MOST_LEFT`` are
left by theirs after it
``close`` ends it                      what was                                 ``PolicyError``: SHUTTING_DOWN
=====================================  =======================================  ===================================
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from ..core.errors import PolicyError, stopping
from ..tasks import asked_to_end

MOST_LEFT = 64
"""So many questions that nobody waits for any more are asked on."""
MOST_BESIDE = 8
"""So many questions are asked beside, for what is known to stay known."""
_LOG = logging.getLogger(__name__)
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class Known(NamedTuple, Generic[_Value]):
    """What was answered."""

    value: _Value
    at: float
    """When it was asked, in monotonic seconds."""


class NewestAnswers(Generic[_Key, _Value]):
    """The newest answers by key, of a bounded number of keys."""

    def __init__(self, most: int) -> None:
        """``most``: keys whose answers are kept; the oldest go."""
        self.most = most
        self._kept: OrderedDict[_Key, Known[_Value]] = OrderedDict()  # a dict is slow to find its first entry

    def __len__(self) -> int:
        return len(self._kept)

    def of(self, key: _Key) -> Known[_Value] | None:
        """The answer about a key; None if there is none."""
        return self._kept.get(key)

    def put(self, key: _Key, answer: Known[_Value]) -> None:
        """Keeps an answer in place of an older one."""
        self._kept[key] = answer
        self._kept.move_to_end(key)
        while len(self._kept) > self.most:
            self._kept.popitem(last=False)

    def drop(self, key: _Key) -> None:
        """Forgets what was answered about a key."""
        self._kept.pop(key, None)


@dataclass(slots=True, eq=False)
class _Question(Generic[_Value]):
    """Something that is being asked."""

    task: asyncio.Task[_Value]
    waiting: int = 0
    """How many wait for its answer."""
    beside: bool = False
    """Whether it is asked although nobody waits: for what is known to stay known."""
    placed: bool = False
    """Whether it has its place."""


class Cache(Generic[_Key, _Value]):
    """Answers by key. It belongs to one event loop."""

    def __init__(
        self,
        ask: Callable[[_Key], Awaitable[_Value]],
        *,
        fresh_seconds: float,
        most: int,
        now: Callable[[], float],
        keep: Callable[[_Value], bool] = lambda _: True,
        places: asyncio.Semaphore | None = None,
    ) -> None:
        """Begins empty.

        Args:
            ask: gets an answer; it is bounded in time.
            fresh_seconds: how long an answer holds. In the second half of that time a use has it asked for anew, beside.
            most: answers that are kept; the oldest go.
            now: monotonic seconds.
            keep: whether an answer is worth keeping.
            places: each question takes one while it is asked, in the order in which they came; caches can share them. None: there is always
                one.
        """
        self._ask = ask
        self._fresh = fresh_seconds
        self._now = now
        self._keep = keep
        self._answers: NewestAnswers[_Key, _Value] = NewestAnswers(most)
        self._places = places
        self._asking: dict[_Key, _Question[_Value]] = {}
        self._left: OrderedDict[_Key, _Question[_Value]] = OrderedDict()
        """Those of them in their places that nobody waits for any more; the first was left first."""
        self._beside = 0
        """How many of them are asked for what is known to stay known."""
        self._failing = False
        """Whether the last question failed in a way that nobody foresaw: that is logged once."""
        self._closed = False

    def __len__(self) -> int:
        return len(self._answers)

    @property
    def most(self) -> int:
        """How many answers are kept at most."""
        return self._answers.most

    def peek(self, key: _Key) -> _Value | None:
        """A fresh answer, at once; None if there is none."""
        answer = self._answers.of(key)
        if answer is None:
            return None
        age = self._now() - answer.at
        if age > self._fresh:
            return None
        if age > self._fresh / 2 and key not in self._asking:
            self._refresh(key)
        return answer.value

    async def get(self, key: _Key, *, stale: bool = False) -> _Value:
        """An answer, asked for if need be.

        Args:
            key: the question.
            stale: whether an answer that is too old will do: then it is asked for beside, and nobody waits or fails.

        Raises:
            PolicyError: there is no answer; or there will be none, because the cache was closed (SHUTTING_DOWN).
        """
        fresh = self.peek(key)
        if fresh is not None:
            return fresh
        old = self._answers.of(key)
        if stale and old is not None:
            self._refresh(key)
            return old.value
        question = self._asking.get(key)
        if question is None:
            if self._closed:
                raise stopping()
            question = self._begin(key)
        question.waiting += 1
        self._left.pop(key, None)
        try:
            return await asyncio.shield(question.task)
        except asyncio.CancelledError as error:
            if asked_to_end(error):
                raise
            raise stopping() from None  # nobody but ``close`` cancels a question that somebody waits for
        finally:
            question.waiting -= 1
            if not (question.waiting or question.beside or question.task.done()):
                self._leave(key, question)

    async def close(self) -> None:
        """Ends what is being asked. Nothing is asked from now on."""
        self._closed = True
        asking = [question.task for question in self._asking.values()]
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)

    def _begin(self, key: _Key) -> _Question[_Value]:
        task = asyncio.get_running_loop().create_task(self._answer(key))
        question = self._asking[key] = _Question(task)
        task.add_done_callback(lambda _: self._end(key, question))
        return question

    def _refresh(self, key: _Key) -> None:
        """Has it asked anew what is known, if that can be now."""
        question = self._asking.get(key)
        if question is None:
            if self._closed or (self._places is not None and self._beside >= MOST_BESIDE):
                return
            question = self._begin(key)
        if not question.beside:
            question.beside = True
            self._beside += 1
            self._left.pop(key, None)

    def _leave(self, key: _Key, question: _Question[_Value]) -> None:
        """The last of those who waited for a question has gone away."""
        if not question.placed:
            self._give_up(key, question)
        elif self._asking.get(key) is question:
            self._left[key] = question
            if len(self._left) > MOST_LEFT:
                self._give_up(*self._left.popitem(last=False))

    def _give_up(self, key: _Key, question: _Question[_Value]) -> None:
        """Nobody waits for a question: whoever asks from now on has another one."""
        if self._asking.get(key) is question:
            del self._asking[key]
        question.task.cancel()

    async def _answer(self, key: _Key) -> _Value:
        async with self._places or contextlib.nullcontext():
            self._asking[key].placed = True  # a question that was given up comes to no place
            return await self._asked(key)

    async def _asked(self, key: _Key) -> _Value:
        asked = self._now()
        try:
            value = await self._ask(key)
        except asyncio.CancelledError as error:
            if asked_to_end(error):
                raise
            raise RuntimeError("what would have answered was cancelled") from error
        if self._keep(value):
            self._answers.put(key, Known(value, asked))
        else:
            self._answers.drop(key)
        return value

    def _end(self, key: _Key, question: _Question[_Value]) -> None:
        self._beside -= question.beside
        if self._asking.get(key) is question:
            del self._asking[key]
            self._left.pop(key, None)
        task = question.task
        if not task.cancelled():
            error = task.exception()  # whoever waits has it; nobody may
            if isinstance(error, PolicyError) and error.kind.value == "NOT_FOUND":
                self._answers.drop(key)
            unforeseen = error is not None and not isinstance(error, PolicyError)
            if unforeseen and not self._failing:
                _LOG.error("a question about %s failed (%r); it is asked again", key, error, exc_info=error)
            self._failing = unforeseen
