"""Remembers answers for a while: bounded, one question at a time for each key, refreshed before it is needed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Generic, NamedTuple, TypeVar

from ..core.errors import PolicyError

_LOG = logging.getLogger(__name__)
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class _Entry(NamedTuple):
    value: object
    at: float


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
    ) -> None:
        """Begins empty.

        Args:
            ask: gets an answer; it is bounded in time.
            fresh_seconds: how long an answer holds. In the second half of that time a use has it asked for anew, beside.
            most: answers that are kept; the oldest go.
            now: monotonic seconds.
            keep: whether an answer is worth keeping.
        """
        self._ask = ask
        self._fresh = fresh_seconds
        self._most = most
        self._now = now
        self._keep = keep
        self._entries: dict[_Key, _Entry] = {}
        self._asking: dict[_Key, asyncio.Task[_Value]] = {}
        self._failing = False
        """Whether the last question failed in a way that nobody foresaw: that is logged once."""

    def __len__(self) -> int:
        return len(self._entries)

    def peek(self, key: _Key) -> _Value | None:
        """A fresh answer, at once; None if there is none."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        age = self._now() - entry.at
        if age > self._fresh:
            return None
        if age > self._fresh / 2 and key not in self._asking:
            self._begin(key)
        return entry.value  # type: ignore[return-value]

    async def get(self, key: _Key, *, stale: bool = False) -> _Value:
        """An answer, asked for if need be.

        Args:
            key: the question.
            stale: whether an answer that is too old will do: then it is asked for beside, and nobody waits or fails.

        Raises:
            PolicyError: there is no answer.
        """
        fresh = self.peek(key)
        if fresh is not None:
            return fresh
        task = self._asking.get(key) or self._begin(key)
        old = self._entries.get(key)
        if stale and old is not None:
            return old.value  # type: ignore[return-value]
        return await asyncio.shield(task)

    async def close(self) -> None:
        """Ends what is being asked."""
        asking = list(self._asking.values())
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)

    def _begin(self, key: _Key) -> asyncio.Task[_Value]:
        task = asyncio.get_running_loop().create_task(self._question(key))
        self._asking[key] = task
        task.add_done_callback(lambda done: self._end(key, done))
        return task

    async def _question(self, key: _Key) -> _Value:
        asked = self._now()
        value = await self._ask(key)
        self._entries.pop(key, None)
        if self._keep(value):
            self._entries[key] = _Entry(value, asked)
            while len(self._entries) > self._most:
                del self._entries[next(iter(self._entries))]
        return value

    def _end(self, key: _Key, task: asyncio.Task[_Value]) -> None:
        if self._asking.get(key) is task:
            del self._asking[key]
        if not task.cancelled():
            error = task.exception()  # whoever waits has it; nobody may
            if isinstance(error, PolicyError) and error.kind.value == "NOT_FOUND":
                self._entries.pop(key, None)
            unforeseen = error is not None and not isinstance(error, PolicyError)
            if unforeseen and not self._failing:
                _LOG.error("a question about %s failed (%r); it is asked again", key, error, exc_info=error)
            self._failing = unforeseen
