"""A cache of answers: bounded, with one request at a time for each key, refreshed before an answer expires.

An answer that is used in the second half of its time is requested anew while it is still fresh, and so is a stale answer that a caller
accepts. No caller waits for these refreshes. Where requests wait for places (``places``), at most ``MOST_REFRESHES`` refreshes run at a
time: so few of them stand before a new caller's request, and a later use makes up for a refresh that was left out.

Callers that want the same key share one request, which is a task of the cache: a caller that is cancelled ends only its own waiting. A
request that waits for its place is given up when its last caller goes away, so that such callers leave nothing in the queue. A request that
has its place goes on, and so does a refresh: callers with short deadlines would never get an answer otherwise. But of the requests without
callers at most ``MOST_LEFT`` go on, those that were left last. A request ends in one of these ways:

=====================================  =======================================  ===================================
how the request ends                   what is cached                           what its callers get
=====================================  =======================================  ===================================
an answer that is worth keeping        the answer; the oldest one is evicted    the answer
                                       if the cache is full
another answer                         nothing for the key                      the answer
a ``PolicyError`` of kind NOT_FOUND    nothing for the key                      the error
another ``PolicyError``                what was before, which becomes stale     the error
an unexpected error, or what it        what was before, which becomes stale;    the error
awaited was cancelled                  the error is logged
its last caller goes away before it    what was before                          (no callers)
has its place, or ``MOST_LEFT`` later
requests are left by their callers
``close`` ends it                      what was before                          ``PolicyError``: SHUTTING_DOWN
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
"""How many requests without callers go on at most."""
MOST_REFRESHES = 8
"""How many refreshes run at a time at most, if the cache has ``places``."""
_LOG = logging.getLogger(__name__)
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class Known(NamedTuple, Generic[_Value]):
    """A cached answer."""

    value: _Value
    at: float
    """When the answer was requested, in monotonic seconds."""


class NewestAnswers(Generic[_Key, _Value]):
    """The newest answers by key, of a bounded number of keys."""

    def __init__(self, most: int) -> None:
        """``most``: how many keys have answers; the oldest answers are evicted."""
        self.most = most
        self._kept: OrderedDict[_Key, Known[_Value]] = OrderedDict()  # popping the first entry of a plain dict is slow

    def __len__(self) -> int:
        return len(self._kept)

    def of(self, key: _Key) -> Known[_Value] | None:
        """Returns the answer for a key; None: there is none."""
        return self._kept.get(key)

    def put(self, key: _Key, answer: Known[_Value]) -> None:
        """Stores an answer, in place of an older one."""
        self._kept[key] = answer
        self._kept.move_to_end(key)
        while len(self._kept) > self.most:
            self._kept.popitem(last=False)

    def drop(self, key: _Key) -> None:
        """Removes the answer for a key."""
        self._kept.pop(key, None)


@dataclass(slots=True, eq=False)
class _Request(Generic[_Value]):
    """A request under way."""

    task: asyncio.Task[_Value]
    waiting: int = 0
    """How many callers wait for its answer."""
    refreshing: bool = False
    """Whether it is a refresh, which runs although no caller waits for it."""
    placed: bool = False
    """Whether it has its place."""


class Cache(Generic[_Key, _Value]):
    """A cache of answers by key. It is bound to one event loop."""

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
        """Creates an empty cache.

        Args:
            ask: requests an answer; it must return in bounded time.
            fresh_seconds: how long an answer is fresh. Its use in the second half of that time starts a refresh.
            most: how many answers are kept; the oldest are evicted.
            now: returns monotonic seconds.
            keep: whether an answer is worth keeping.
            places: each request takes one while it runs, in order of arrival; caches can share them. None: there is always one.
        """
        self._ask = ask
        self._fresh = fresh_seconds
        self._now = now
        self._keep = keep
        self._answers: NewestAnswers[_Key, _Value] = NewestAnswers(most)
        self._places = places
        self._requests: dict[_Key, _Request[_Value]] = {}
        self._left: OrderedDict[_Key, _Request[_Value]] = OrderedDict()
        """The requests that have their places and no callers any more, in the order in which their last callers left."""
        self._refreshing = 0
        """How many requests under way are refreshes."""
        self._failing = False
        """Whether the last request failed unexpectedly: a series of such failures is logged once."""
        self._closed = False

    def __len__(self) -> int:
        return len(self._answers)

    @property
    def most(self) -> int:
        """How many answers are kept at most."""
        return self._answers.most

    def peek(self, key: _Key, within: float | None = None) -> _Value | None:
        """Returns a fresh answer, without waiting; None: there is none.

        Args:
            key: the key.
            within: how long the answer counts as fresh here, in seconds; None: as long as the cache has it.
        """
        answer = self._answers.of(key)
        if answer is None:
            return None
        age, fresh = self._now() - answer.at, self._fresh if within is None else within
        if age > fresh:
            return None
        if age > fresh / 2 and key not in self._requests:
            self._refresh(key)
        return answer.value

    async def get(self, key: _Key, *, stale: bool = False, within: float | None = None) -> _Value:
        """Returns an answer, which is requested if necessary.

        Args:
            key: the key.
            within: see ``peek``.
            stale: whether a stale answer is accepted: then the caller does not wait or fail, and a refresh is started.

        Raises:
            PolicyError: the request failed; or there is no answer because the cache was closed (SHUTTING_DOWN).
        """
        fresh = self.peek(key, within)
        if fresh is not None:
            return fresh
        old = self._answers.of(key)
        if stale and old is not None:
            self._refresh(key)
            return old.value
        request = self._requests.get(key)
        if request is None:
            if self._closed:
                raise stopping()
            request = self._begin(key)
        request.waiting += 1
        self._left.pop(key, None)
        try:
            return await asyncio.shield(request.task)
        except asyncio.CancelledError as error:
            if asked_to_end(error):
                raise
            raise stopping() from None  # only ``close`` cancels a request that has callers
        finally:
            request.waiting -= 1
            if not (request.waiting or request.refreshing or request.task.done()):
                self._leave(key, request)

    async def close(self) -> None:
        """Cancels the requests under way. No request is sent from now on."""
        self._closed = True
        tasks = [request.task for request in self._requests.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _begin(self, key: _Key) -> _Request[_Value]:
        task = asyncio.get_running_loop().create_task(self._answer(key))
        request = self._requests[key] = _Request(task)
        task.add_done_callback(lambda _: self._end(key, request))
        return request

    def _refresh(self, key: _Key) -> None:
        """Refreshes an answer, unless too many refreshes run or the cache is closed."""
        request = self._requests.get(key)
        if request is None:
            if self._closed or (self._places is not None and self._refreshing >= MOST_REFRESHES):
                return
            request = self._begin(key)
        if not request.refreshing:
            request.refreshing = True
            self._refreshing += 1
            self._left.pop(key, None)

    def _leave(self, key: _Key, request: _Request[_Value]) -> None:
        """Notes that the last caller of a request has gone away."""
        if not request.placed:
            self._give_up(key, request)
        elif self._requests.get(key) is request:
            self._left[key] = request
            if len(self._left) > MOST_LEFT:
                self._give_up(*self._left.popitem(last=False))

    def _give_up(self, key: _Key, request: _Request[_Value]) -> None:
        """Gives up a request without callers; the next caller starts another one."""
        if self._requests.get(key) is request:
            del self._requests[key]
        request.task.cancel()

    async def _answer(self, key: _Key) -> _Value:
        async with self._places or contextlib.nullcontext():
            self._requests[key].placed = True  # this very request's: one that was given up gets no place
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

    def _end(self, key: _Key, request: _Request[_Value]) -> None:
        self._refreshing -= request.refreshing
        if self._requests.get(key) is request:
            del self._requests[key]
            self._left.pop(key, None)
        task = request.task
        if not task.cancelled():
            error = task.exception()  # retrieved, as there may be no caller that does; otherwise asyncio logs it
            if isinstance(error, PolicyError) and error.kind.value == "NOT_FOUND":
                self._answers.drop(key)
            unforeseen = error is not None and not isinstance(error, PolicyError)
            if unforeseen and not self._failing:
                _LOG.error("a request about %s failed (%r); it is repeated", key, error, exc_info=error)
            self._failing = unforeseen
