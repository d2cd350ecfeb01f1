"""Caches: a live copy of documents in memory, which a thread or a task keeps current (the informer pattern)."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from types import TracebackType
from typing import Self

from .documents import Document, Scope
from .errors import TopicPoliciesError
from .errors import closed as closed_error
from .events import Status, WatchEvent
from .mirror import Change, Mirror
from .patience import limit_of, seconds_of
from .watches import AsyncWatch, Watch

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
    """What both kinds of caches know. Reads never fail: they give what was known last."""

    def __init__(self, namespaces: Iterable[str], lock: AbstractContextManager[object]) -> None:
        self._namespaces = tuple(namespaces)
        self._mirror = Mirror(self._namespaces)
        self._lock = lock
        self.error: TopicPoliciesError | None = None
        """What made it senseless to go on, if anything did."""
        self.closed = False
        """Whether it no longer follows."""

    def __repr__(self) -> str:
        told = "closed" if self.closed else "synced" if self.synced() else "not synced"
        return f"<{type(self).__name__} of {', '.join(self._namespaces)}, {told}>"

    def synced(self, namespace: str | None = None) -> bool:
        """Whether a namespace, or each, has had a whole snapshot at any time. From then on reads are complete, if perhaps old."""
        with self._lock:
            return self._mirror.synced(namespace)

    def staleness(self, namespace: str | None = None) -> float:
        """Seconds since the service last confirmed all that is known of a namespace, or of the stalest; infinite before it is synced.

        While all is well it is at most about the interval of bookmarks. A namespace whose change log is lost grows stale.
        """
        with self._lock:
            return self._mirror.staleness(namespace)

    @property
    def states(self) -> Mapping[str, Status]:
        """What the states of the namespaces were last said to be; one that was READY all along is not in it."""
        with self._lock:
            return self._mirror.states

    @property
    def problem(self) -> str:
        """A sentence for people while something can't be followed, else empty."""
        with self._lock:
            return self._mirror.problem

    def get(self, topic: str, scope: Scope = Scope.LOCAL) -> Document | None:
        """A document; None if none is known. Its message is shared: copy it before you change it.

        Args:
            topic: its name, with or without its domain; a partition's name means its topic.
            scope: in which clusters.
        """
        with self._lock:
            return self._mirror.get(topic, scope)

    def documents(self) -> list[Document]:
        """All documents, ordered by topic and scope."""
        with self._lock:
            return list(self._mirror)

    def listen(self, listener: Callable[[Change], object]) -> Callable[[], None]:
        """Calls a function for every document that there is, at once, and then for every change, with what was before and after.

        It must not wait for long: the cache waits for it. One that raises is logged, and called again with the next change.

        Returns:
            What ends it.
        """
        with self._lock:
            return self._mirror.listen(_logged(listener))

    def _take(self, events: Iterable[WatchEvent]) -> None:
        for event in events:
            self._mirror.apply(event)

    def _outcome(self) -> bool:
        """Whether it is synced; raises if it never will be."""
        if not self.synced() and self.closed:
            raise self.error or closed_error()
        return self.synced()


class PolicyCache(_Copy):
    """A local, always current copy of what a selection names, for threads: ``Client.cache``. A thread of its own follows the service."""

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
        """Stops following; reads go on giving what was known last. A listener may not call it."""
        self._watch.close()
        self._thread.join()

    def wait_synced(self, timeout: float | None = None) -> bool:
        """Waits until ``synced``, or until so many seconds are over, and tells whether it is.

        Raises:
            TopicPoliciesError: it will never be: what ended the cache.
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


class AsyncPolicyCache(_Copy):
    """A local, always current copy of what a selection names, for one event loop: ``AsyncClient.cache``. A task follows the service."""

    def __init__(self, watch: AsyncWatch) -> None:
        """Begins at once, so it is made inside the event loop."""
        super().__init__(watch.namespaces, nullcontext())
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
