"""A limit for work in flight, in which work that hangs holds up no other for long: requests to brokers, loads of namespaces.

Work waits for a place in order of arrival. Each piece of work is about a *subject*, such as one kind of request about one namespace. A
subject has at most half of the places, so one that does not answer leaves the other half to the others. Work that makes no progress for
``patience`` seconds gives its place to other work and goes on, as long as not too much work does so already.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary


class NoPlaceError(Exception):
    """No place became free within the time allowed."""

    def __init__(self, *, same_subject: bool) -> None:
        """``same_subject``: whether it was other work about the same subject that was waited for."""
        super().__init__("earlier requests of the same kind are not answered" if same_subject else "too many other requests wait before it")


class FairLimiter:
    """Limits how much work is in flight. It is bound to one event loop."""

    def __init__(self, quick: int, slow: int, patience: float) -> None:
        """Has all places free.

        ``quick``: the number of places; ``slow``: how much work without progress may go on besides; ``patience``: seconds without progress
        after which work gives its place to other work.
        """
        self._places = asyncio.Semaphore(quick)
        self._slow = slow
        """How much more work may go on without a place."""
        self._patience = patience
        self._most = max(1, quick // 2)
        self._subjects: WeakValueDictionary[Hashable, asyncio.Semaphore] = WeakValueDictionary()
        """The places that each subject with work may have."""

    @asynccontextmanager
    async def place(
        self, about: Hashable, seconds: float | None = None, progress: Callable[[], object] = lambda: None
    ) -> AsyncIterator[None]:
        """Occupies a place; a free one is taken at once.

        ``about``: the subject; ``seconds``: how long to wait for a place (None: without end); ``progress`` returns something that changes
        whenever progress is made.

        Raises:
            NoPlaceError: no place became free in time.
        """
        subject = self._subjects.setdefault(about, asyncio.Semaphore(self._most))
        same_subject = True
        try:
            async with asyncio.timeout(seconds):
                await subject.acquire()
                same_subject = False
                try:
                    await self._places.acquire()
                except BaseException:
                    subject.release()
                    raise
        except TimeoutError:
            raise NoPlaceError(same_subject=same_subject) from None
        loop, seen, slow = asyncio.get_running_loop(), progress(), False
        timer: asyncio.TimerHandle

        def look() -> None:
            nonlocal seen, slow, timer
            before, seen = seen, progress()
            if seen == before and self._slow:
                self._slow, slow = self._slow - 1, True
                self._places.release()
            else:
                timer = loop.call_later(self._patience, look)

        timer = loop.call_later(self._patience, look)
        try:
            yield
        finally:
            timer.cancel()
            progress = object  # ``look`` refers to itself, and must not keep its caller in memory
            if slow:
                self._slow += 1
            else:
                self._places.release()
            subject.release()
