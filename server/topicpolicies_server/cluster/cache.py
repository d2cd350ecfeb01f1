"""A cache of answers: bounded, with one request at a time for each key, refreshed before an answer expires.

An answer that is used in the second half of its time, and a stale one that a caller accepts, is requested anew; no caller waits for that.

Callers that want the same key share one request, which is a task of the cache: a caller that is cancelled ends only its own waiting, and
the request goes on, because callers with short deadlines would never get an answer otherwise.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

from ..core.errors import Kind, PolicyError, stopping
from ..tasks import asked_to_end

_LOG = logging.getLogger(__name__)
MOST_REFRESHES = 16
"""No refresh is begun while so many requests are under way; a later use of the answer begins it."""
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


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
    ) -> None:
        """Creates an empty cache.

        ``ask`` requests an answer, and must return in bounded time. The use of an answer in the second half of ``fresh_seconds`` starts a
        refresh. ``most``: how many are kept; the oldest are evicted. ``keep``: whether an answer is worth keeping.
        """
        self._ask = ask
        self._fresh = fresh_seconds
        self._most = most
        self._now = now
        self._keep = keep
        self._answers: OrderedDict[_Key, tuple[_Value, float]] = OrderedDict()
        """The answers, each with the time of its request; the oldest first."""
        self._requests: dict[_Key, asyncio.Task[_Value]] = {}
        self._closed = False

    def peek(self, key: _Key, within: float | None = None) -> _Value | None:
        """Returns a fresh answer, without waiting; None: there is none. ``within``: for how many seconds it counts as fresh here."""
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

    def last(self, key: _Key) -> _Value | None:
        """Returns the last answer, however old; None: there is none."""
        known = self._answers.get(key)
        return known[0] if known is not None else None

    async def get(self, key: _Key, *, stale: bool = False, within: float | None = None) -> _Value:
        """Returns an answer, which is requested if there is none that is fresh (``peek``).

        ``stale``: whether a stale answer is accepted: then the caller does not wait or fail, and a refresh is started.

        Raises:
            PolicyError: the request failed; or there is no answer because the cache was closed (SHUTTING_DOWN).
        """
        fresh = self.peek(key, within)
        if fresh is not None:
            return fresh
        if stale and key in self._answers:
            self._refresh(key)
            return self._answers[key][0]
        if self._closed:
            raise stopping()
        try:
            return await asyncio.shield(self._requests.get(key) or self._begin(key))
        except asyncio.CancelledError as error:
            if asked_to_end(error):
                raise
            raise stopping() from None  # the request was cancelled by ``close``

    async def close(self) -> None:
        """Cancels the requests under way. No request is sent from now on."""
        self._closed = True
        tasks = list(self._requests.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _begin(self, key: _Key) -> asyncio.Task[_Value]:
        task = self._requests[key] = asyncio.get_running_loop().create_task(self._answer(key))
        task.add_done_callback(_log_unforeseen)  # there may be no caller that retrieves the error
        return task

    def _refresh(self, key: _Key) -> None:
        if key not in self._requests and not self._closed and len(self._requests) < MOST_REFRESHES:
            self._begin(key)

    async def _answer(self, key: _Key) -> _Value:
        asked = self._now()
        try:
            answer = await self._ask(key)
        except PolicyError as error:
            if error.kind is Kind.NOT_FOUND:
                self._answers.pop(key, None)
            raise
        finally:
            del self._requests[key]
        self._answers.pop(key, None)
        if self._keep(answer):
            self._answers[key] = answer, asked
            if len(self._answers) > self._most:
                self._answers.popitem(last=False)
        return answer


def _log_unforeseen(task: asyncio.Task[Any]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None and not isinstance(error, PolicyError):
        _LOG.error("a question about the cluster failed", exc_info=error)
