"""Caches: a copy of documents in memory that a thread or a task keeps current (the informer pattern)."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from types import TracebackType
from typing import Self

from .arguments import member
from .documents import Document, Scope
from .errors import TopicPoliciesError, client_closed
from .events import Status, WatchEvent
from .mirror import Change, Mirror
from .stream_threads import too_late
from .timeouts import limit_of, seconds_of
from .watches import AsyncWatch, Watch

_LOG = logging.getLogger(__name__)


def _logged(listener: Callable[[Change], object]) -> Callable[[Change], None]:
    """Returns a listener whose exceptions are logged, so that they disturb neither the cache nor its other listeners."""

    def tell(change: Change) -> None:
        try:
            listener(change)
        except Exception:  # noqa: BLE001 - whatever it is, it is the listener's
            _LOG.exception("a listener failed on a change of %s", change.topic)

    return tell


class _BaseCache:
    """The common part of ``PolicyCache`` and ``AsyncPolicyCache``. Reads never fail: they return the last known documents."""

    def __init__(self, namespaces: Iterable[str], lock: AbstractContextManager[object]) -> None:
        self._namespaces = tuple(namespaces)
        self._mirror = Mirror(self._namespaces)
        self._lock = lock
        self.error: TopicPoliciesError | None = None
        """The error that ended the cache; None: none did."""
        self.closed = False
        """Whether the cache has ended, and is not kept current any more."""

    def __repr__(self) -> str:
        state = "closed" if self.closed else "synced" if self.synced() else "not synced"
        return f"<{type(self).__name__} of {', '.join(self._namespaces)}, {state}>"

    def synced(self, namespace: str | None = None) -> bool:
        """Returns whether a namespace, or each one, has ever had a complete snapshot. From then on reads are complete, if perhaps old."""
        with self._lock:
            return self._mirror.synced(namespace)

    def staleness(self, namespace: str | None = None) -> float:
        """Returns the seconds since the service last confirmed a namespace; None: the stalest one. Infinite before it is synced.

        Normally it does not exceed the interval of bookmarks by much. It grows while the service can't be reached, and while the service
        can't follow the change log.
        """
        with self._lock:
            return self._mirror.staleness(namespace)

    @property
    def states(self) -> Mapping[str, Status]:
        """The last ``Status`` of each namespace; one that was READY all along has none."""
        with self._lock:
            return self._mirror.states

    @property
    def problem(self) -> str:
        """A sentence for people that says why documents can't be followed at present; empty: they can."""
        with self._lock:
            return self._mirror.problem

    def get(self, topic: str, scope: Scope = Scope.LOCAL) -> Document | None:
        """Returns the last known document; None: there is none. Its message is shared: copy it before you change it.

        Args:
            topic: the topic's name, with or without its domain; a partition's name means its topic.
            scope: the scope of the document.

        Raises:
            InvalidArgument: the scope is none.
        """
        with self._lock:
            return self._mirror.get(topic, member(scope, Scope, "scope"))

    def documents(self) -> list[Document]:
        """Returns all documents, ordered by topic and scope."""
        with self._lock:
            return list(self._mirror)

    def listen(self, listener: Callable[[Change], object]) -> Callable[[], None]:
        """Calls a function at once for each present document, and then for each change, with the document before and after.

        The function must not block, because the cache waits for it. If it raises, that is logged, and the next change is reported to it
        as usual.

        Returns:
            A function that removes the listener.
        """
        with self._lock:
            return self._mirror.listen(_logged(listener))

    def _take(self, events: Iterable[WatchEvent]) -> None:
        for event in events:
            self._mirror.apply(event)

    def _outcome(self) -> bool:
        """Returns whether the cache is synced; raises the error that ended it before it was."""
        if not self.synced() and self.closed:
            raise self.error or client_closed()
        return self.synced()


class PolicyCache(_BaseCache):
    """A local copy of the selected documents, for threads (``Client.cache``). A thread of the cache keeps it current."""

    def __init__(self, watch: Watch) -> None:
        self._changed = threading.Condition(threading.RLock())
        super().__init__(watch.namespaces, self._changed)
        self._watch = watch
        self._thread = threading.Thread(target=self._follow, name="topicpolicies-cache", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Ends the cache; reads go on returning the last known documents. A listener must not call it."""
        if too_late():
            return
        self._watch.close()
        self._thread.join()

    def wait_synced(self, timeout: float | None = None) -> bool:
        """Waits until the cache is synced, at most ``timeout`` seconds; None: without limit. Returns whether it is synced.

        Raises:
            TopicPoliciesError: the cache ended before it was synced.
        """
        limit = limit_of(seconds_of(timeout, math.inf))
        with self._changed:
            self._changed.wait_for(lambda: self.synced() or self.closed, limit)
            return self._outcome()

    def _follow(self) -> None:
        try:
            while events := self._watch.batch():
                with self._changed:
                    self._take(events)
                    self._changed.notify_all()
        except TopicPoliciesError as error:
            self.error = error
        finally:
            with self._changed:
                self.closed = True
                self._changed.notify_all()


class AsyncPolicyCache(_BaseCache):
    """A local copy of the selected documents, for one event loop (``AsyncClient.cache``). A task keeps it current."""

    def __init__(self, watch: AsyncWatch) -> None:
        """Starts the task, so a cache must be made inside the event loop."""
        super().__init__(watch.namespaces, nullcontext())
        self._watch = watch
        self._settled = asyncio.Event()
        self._task = asyncio.create_task(self._follow(), name="topicpolicies-cache")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends the cache; reads go on returning the last known documents. A listener must not call it."""
        await self._watch.close()
        if not self._task.done():  # a task that ended with its loop can't be waited for in another one
            await asyncio.wait({self._task})

    async def wait_synced(self, timeout: float | None = None) -> bool:
        """Waits until the cache is synced, at most ``timeout`` seconds; None: without limit. Returns whether it is synced.

        Raises:
            TopicPoliciesError: the cache ended before it was synced.
        """
        limit = limit_of(seconds_of(timeout, math.inf))
        with suppress(TimeoutError):
            await asyncio.wait_for(self._settled.wait(), limit)
        return self._outcome()

    async def _follow(self) -> None:
        try:
            while events := await self._watch.batch():
                self._take(events)
                if self.synced():
                    self._settled.set()
        except TopicPoliciesError as error:
            self.error = error
        finally:
            self.closed = True
            self._settled.set()
