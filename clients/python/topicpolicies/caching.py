"""Caches that fill themselves: a ``PolicyCache`` and the watch that feeds it, in a thread or a task (the informer pattern)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Self

from .aio_streams import AsyncWatch
from .cache import Change, PolicyCache
from .errors import TopicPoliciesError
from .errors import closed as closed_error
from .events import Interrupted, NamespaceLoading, NamespaceUnavailable, WatchEvent
from .results import Document, Scope
from .streams import Watch

_LOG = logging.getLogger(__name__)


def _logged(listener: Callable[[Change], object]) -> Callable[[Change], None]:
    """A listener that disturbs neither the cache nor its other listeners."""

    def tell(change: Change) -> None:
        try:
            listener(change)
        except Exception:  # noqa: BLE001 - whatever it is, it is the listener's
            _LOG.exception("a listener failed on a change of %s", change.topic)

    return tell


class _Copy:
    """What both kinds of caches know. Reads never wait and never fail: they give what was known last."""

    def __init__(self, namespaces: Iterable[str]) -> None:
        self._cache = PolicyCache()
        self._missing = set(namespaces)
        self._namespaces = frozenset(self._missing)
        self.problem = ""
        """A sentence for people while the service can't be followed, else empty."""
        self.error: TopicPoliciesError | None = None
        """What made it senseless to go on, if anything did."""
        self.closed = False
        """Whether it no longer follows."""

    @property
    def synced(self) -> bool:
        """Whether the first snapshot of every namespace was complete. From then on reads are complete, if perhaps stale."""
        return not self._missing

    @property
    def staleness(self) -> float:
        """Seconds since the service last confirmed the copy, of the namespace for which that is the longest; infinite before ``synced``.

        While all is well it is at most about the interval of bookmarks.
        """
        return max(map(self._cache.staleness, self._namespaces))

    def get(self, topic: str, scope: Scope = Scope.LOCAL) -> Document | None:
        """A document by its topic's full name; None if none is known. Its message is shared: copy it before you change it."""
        return self._cache.get(topic, scope)

    def documents(self) -> list[Document]:
        """All documents, ordered by topic and scope."""
        return sorted(self._cache, key=lambda document: (document.topic, document.scope))

    def _take(self, event: WatchEvent) -> None:
        if isinstance(event, Interrupted):
            self.problem = str(event.error)
        elif isinstance(event, (NamespaceLoading, NamespaceUnavailable)):
            self.problem = event.message
        else:
            self.problem = ""
            self._cache.apply(event)
            self._missing = {name for name in self._missing if not self._cache.synced(name)}

    def _outcome(self) -> bool:
        """Whether it is synced; raises if it never will be."""
        if not self.synced and self.closed:
            raise self.error or closed_error()
        return self.synced


class LiveCache(_Copy):
    """A local, always current copy of what a selection names, for threads: ``Client.cache``. A thread of its own follows the service."""

    def __init__(self, watch: Watch, namespaces: Iterable[str]) -> None:
        super().__init__(namespaces)
        self._watch = watch
        self._changed = threading.Condition(threading.RLock())
        self._thread = threading.Thread(target=self._follow, name="topicpolicies-cache", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Stops following; reads go on giving what was known last. A listener may not call it."""
        self._watch.close()
        self._thread.join()

    def wait_synced(self, timeout: float | None = None) -> bool:
        """Waits until ``synced``, or until so many seconds are over, and tells whether it is.

        Raises:
            TopicPoliciesError: it will never be: what ended the cache.
        """
        with self._changed:
            self._changed.wait_for(lambda: self.synced or self.closed, timeout)
            return self._outcome()

    def get(self, topic: str, scope: Scope = Scope.LOCAL) -> Document | None:
        """A document by its topic's full name; None if none is known. Its message is shared: copy it before you change it."""
        with self._changed:
            return super().get(topic, scope)

    def documents(self) -> list[Document]:
        """All documents, ordered by topic and scope."""
        with self._changed:
            return super().documents()

    def listen(self, listener: Callable[[Change], object]) -> Callable[[], None]:
        """Calls a function for every document that there is, in this thread, and then for every change, in the cache's.

        It must not wait for long: reads wait for it. One that raises is logged, and called again with the next change.

        Returns:
            What ends it.
        """
        with self._changed:
            return self._cache.listen(_logged(listener))

    def _follow(self) -> None:
        try:
            for event in self._watch:
                with self._changed:
                    self._take(event)
                    self._changed.notify_all()
        except TopicPoliciesError as error:
            self.error = error
        finally:
            with self._changed:
                self.closed = True
                self._changed.notify_all()


class AsyncLiveCache(_Copy):
    """A local, always current copy of what a selection names, for one event loop: ``AsyncClient.cache``. A task follows the service."""

    def __init__(self, watch: AsyncWatch, namespaces: Iterable[str]) -> None:
        """Begins at once, so it is made inside the event loop."""
        super().__init__(namespaces)
        self._watch = watch
        self._settled = asyncio.Event()
        self._task = asyncio.create_task(self._follow(), name="topicpolicies-cache")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def close(self) -> None:
        """Stops following; reads go on giving what was known last. A listener may not call it."""
        await self._watch.close()
        await asyncio.wait({self._task})

    async def wait_synced(self, timeout: float | None = None) -> bool:
        """Waits until ``synced``, or until so many seconds are over, and tells whether it is.

        Raises:
            TopicPoliciesError: it will never be: what ended the cache.
        """
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._settled.wait(), timeout)
        return self._outcome()

    def listen(self, listener: Callable[[Change], object]) -> Callable[[], None]:
        """Calls a function for every document that there is, at once, and then for every change.

        One that raises is logged, and called again with the next change.

        Returns:
            What ends it.
        """
        return self._cache.listen(_logged(listener))

    async def _follow(self) -> None:
        try:
            async for event in self._watch:
                self._take(event)
                if self.synced:
                    self._settled.set()
        except TopicPoliciesError as error:
            self.error = error
        finally:
            self.closed = True
            self._settled.set()
