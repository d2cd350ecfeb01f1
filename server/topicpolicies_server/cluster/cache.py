"""A cache of answers: bounded, with one request at a time for each key, refreshed before an answer expires.

An answer that is used in the second half of its time, and a stale one that a caller accepts, is requested anew; no caller waits for that.

Callers that want the same key share one request, which is a task of the cache: a caller that is cancelled ends only its own waiting. A
request that has lost its callers goes on, because callers with short deadlines would never get an answer otherwise. But at most
``MOST_UNCALLED`` requests without callers run at a time, refreshes among them: a further one is ended, or is not begun.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from ..core.errors import Kind, PolicyError, stopping
from ..tasks import asked_to_end

MOST_UNCALLED = 16
"""How many requests without callers run at a time at most."""
_LOG = logging.getLogger(__name__)
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class _Request(Generic[_Value]):
    """A request under way."""

    def __init__(self, task: asyncio.Task[_Value]) -> None:
        self.task = task
        self.callers = 0


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
        self.most = most
        """How many answers are kept at most."""
        self._ask = ask
        self._fresh = fresh_seconds
        self._now = now
        self._keep = keep
        self._places = places
        self._answers: OrderedDict[_Key, tuple[_Value, float]] = OrderedDict()
        """The answers, each with the time of its request; the oldest first."""
        self._requests: dict[_Key, _Request[_Value]] = {}
        self._uncalled: set[_Request[_Value]] = set()
        """The requests under way that have no callers."""
        self._failing = False
        """Whether the last request failed unexpectedly: a series of such failures is logged once."""
        self._closed = False

    def __len__(self) -> int:
        return len(self._answers)

    def peek(self, key: _Key, within: float | None = None) -> _Value | None:
        """Returns a fresh answer, without waiting; None: there is none.

        Args:
            key: the key.
            within: how long the answer counts as fresh here, in seconds; None: as long as the cache has it.
        """
        known = self._answers.get(key)
        if known is None:
            return None
        answer, at = known
        age, fresh = self._now() - at, self._fresh if within is None else within
        if age > fresh:
            return None
        if age > fresh / 2:
            self._refresh(key)
        return answer

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
        if stale and key in self._answers:
            self._refresh(key)
            return self._answers[key][0]
        if key not in self._requests and self._closed:
            raise stopping()
        request = self._requests.get(key) or self._begin(key)
        request.callers += 1
        self._uncalled.discard(request)
        try:
            return await asyncio.shield(request.task)
        except asyncio.CancelledError as error:
            if asked_to_end(error):
                raise
            raise stopping() from None  # only ``close`` cancels a request that has callers
        finally:
            request.callers -= 1
            if not request.callers and not request.task.done():
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
        if key not in self._requests and not self._closed and len(self._uncalled) < MOST_UNCALLED:
            self._uncalled.add(self._begin(key))

    def _leave(self, key: _Key, request: _Request[_Value]) -> None:
        if len(self._uncalled) < MOST_UNCALLED:
            self._uncalled.add(request)
        else:
            self._requests.pop(key, None)  # a caller that comes while it ends begins another one
            request.task.cancel()

    async def _answer(self, key: _Key) -> _Value:
        async with self._places or contextlib.nullcontext():
            asked = self._now()
            try:
                answer = await self._ask(key)
            except asyncio.CancelledError as error:
                if asked_to_end(error):
                    raise
                raise RuntimeError("what would have answered was cancelled") from error
        self._answers.pop(key, None)
        if self._keep(answer):
            self._answers[key] = answer, asked
            while len(self._answers) > self.most:
                self._answers.popitem(last=False)
        return answer

    def _end(self, key: _Key, request: _Request[_Value]) -> None:
        self._uncalled.discard(request)
        if self._requests.get(key) is request:
            del self._requests[key]
        if request.task.cancelled():
            return
        error = request.task.exception()  # retrieved, as there may be no caller that does; otherwise asyncio logs it
        unexpected = error is not None and not isinstance(error, PolicyError)
        if isinstance(error, PolicyError) and error.kind is Kind.NOT_FOUND:
            self._answers.pop(key, None)
        if unexpected and not self._failing:
            _LOG.error("a request about %s failed (%r); it is repeated", key, error, exc_info=error)
        self._failing = unexpected
