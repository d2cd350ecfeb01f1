"""Caches: a copy of documents in memory that a thread or a task keeps current (the informer pattern).

While a namespace begins anew with a snapshot, its known documents stay; those that the snapshot does not contain are dropped when it is
complete.
"""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Self, TypeAlias

from .errors import TopicPoliciesError
from .names import namespace_of, topic_name
from .v1.policies_pb2 import SCOPE_GLOBAL, SCOPE_LOCAL, PolicyDocument, Scope
from .v1.service_pb2 import WatchEvent
from .watches import AsyncWatch, Watch

Listener: TypeAlias = Callable[[PolicyDocument | None, PolicyDocument | None], object]
"""Called with a document before and after a change; None: there is none."""
_LOG = logging.getLogger(__name__)


class _Part:
    """The copy of one namespace."""

    def __init__(self) -> None:
        self.documents: dict[tuple[str, int], PolicyDocument] = {}
        self.fresh: set[tuple[str, int]] | None = set()
        """The keys that the current snapshot has contained so far; None: there is no snapshot under way."""
        self.synced = False
        self.current_at = -math.inf
        """When all documents were the newest for the last time, by ``time.monotonic``."""


class Copy:
    """The documents of a watch: the part of both caches that does no I/O. Reads never fail: they return the last known documents."""

    def __init__(self, namespaces: Iterable[str], lock: AbstractContextManager[object] | None = None) -> None:
        """Makes an empty copy of some namespaces; ``lock``: held during each call."""
        self._parts = {name: _Part() for name in namespaces}
        self._listeners: dict[object, Listener] = {}
        self._lock = lock or nullcontext()
        self.error: TopicPoliciesError | None = None
        """The error that ended the cache; None: none did."""
        self.closed = False
        """Whether the cache has ended, and is not kept current any more."""

    def synced(self, namespace: str | None = None) -> bool:
        """Returns whether a namespace, or each one, has ever had a complete snapshot. From then on reads are complete, if perhaps old."""
        with self._lock:
            return all(part.synced for name, part in self._parts.items() if namespace in (None, name))

    def age(self, namespace: str | None = None) -> float:
        """Returns how many seconds ago the copy of a namespace was the newest; None: the greatest age. Infinite before it is synced.

        It grows while the service can't be reached, and while the service can't follow the change log.
        """
        with self._lock:
            parts = self._parts.values() if namespace is None else [self._parts[namespace]]
            return time.monotonic() - min((part.current_at for part in parts), default=-math.inf)

    def get(self, topic: str, *, scope: Scope.ValueType = SCOPE_LOCAL) -> PolicyDocument | None:
        """Returns the last known document; None: there is none. The message is shared: copy it before you change it.

        Args:
            topic: the topic's name, with or without its domain; a partition's name means its topic.
            scope: the scope of the document.
        """
        key = topic_name(topic), int(scope)
        with self._lock:
            part = self._parts.get(namespace_of(key[0]))
            return part.documents.get(key) if part is not None else None

    def documents(self) -> list[PolicyDocument]:
        """Returns all documents, ordered by topic and scope."""
        with self._lock:
            return [document for _, document in sorted(item for part in self._parts.values() for item in part.documents.items())]

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Calls a function at once for each present document, and then for each change, with the document before and after.

        The function must not block, because the cache waits for it. If it raises, that is logged.

        Returns:
            A function that removes the listener.
        """
        mark = object()
        with self._lock:
            for document in self.documents():
                _call(listener, None, document)
            self._listeners[mark] = listener

        def stop() -> None:
            self._listeners.pop(mark, None)

        return stop

    def apply(self, event: WatchEvent) -> None:
        """Takes an event of the watch, and calls the listeners if it changes a document."""
        part = self._parts.setdefault(event.namespace, _Part())
        match event.WhichOneof("content"):
            case "change" if event.change.document.scope in (SCOPE_LOCAL, SCOPE_GLOBAL):  # of a newer service there may be others
                document = event.change.document
                key = document.topic, int(document.scope)
                if part.fresh is not None:
                    part.fresh.add(key)
                self._put(part, key, document if document.HasField("policies") else None)
            case "bookmark":
                if event.bookmark.HasField("age"):
                    part.current_at = time.monotonic() - event.bookmark.age.ToTimedelta().total_seconds()
                if event.bookmark.synced:
                    part.synced = True
                    gone = [] if part.fresh is None else [key for key in part.documents if key not in part.fresh]
                    part.fresh = None
                    for key in gone:
                        self._put(part, key, None)
            case "reset":
                part.fresh = set()

    def _put(self, part: _Part, key: tuple[str, int], after: PolicyDocument | None) -> None:
        before = part.documents.pop(key, None)
        if after is not None:
            part.documents[key] = after
        if (before and before.version) != (after and after.version):
            for listener in list(self._listeners.values()):
                _call(listener, before, after)

    def _outcome(self) -> bool:
        """Returns whether the cache is synced; raises the error that ended it before it was."""
        if not self.synced() and self.error is not None:
            raise self.error
        return self.synced()


def _call(listener: Listener, before: PolicyDocument | None, after: PolicyDocument | None) -> None:
    try:
        listener(before, after)
    except Exception:  # noqa: BLE001 - whatever it is, it is the listener's
        _LOG.exception("a listener failed")


class PolicyCache(Copy):
    """A local copy of the selected documents, for threads (``Client.cache``). A thread of the cache keeps it current."""

    def __init__(self, watch: Watch[WatchEvent]) -> None:
        self._changed = threading.Condition(threading.RLock())
        super().__init__(watch.namespaces, self._changed)
        self._watch = watch
        self._thread = threading.Thread(target=self._follow, name="topicpolicies-cache", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the cache; reads go on returning the last known documents. A listener must not call it."""
        self._watch.close()
        self._thread.join()

    def wait_synced(self, timeout: float | None = None) -> bool:
        """Waits until the cache is synced, at most ``timeout`` seconds; None: without limit. Returns whether it is synced.

        Raises:
            TopicPoliciesError: the cache ended before it was synced.
        """
        with self._changed:
            self._changed.wait_for(lambda: self.synced() or self.closed, timeout)
            return self._outcome()

    def _follow(self) -> None:
        try:
            for event in self._watch:
                with self._changed:
                    self.apply(event)
                    self._changed.notify_all()
        except TopicPoliciesError as error:
            self.error = error
        finally:
            with self._changed:
                self.closed = True
                self._changed.notify_all()


class AsyncPolicyCache(Copy):
    """A local copy of the selected documents, for one event loop (``AsyncClient.cache``). A task keeps it current."""

    def __init__(self, watch: AsyncWatch[WatchEvent]) -> None:
        super().__init__(watch.namespaces)
        self._watch = watch
        self._settled = asyncio.Event()
        self._task = asyncio.create_task(self._follow(), name="topicpolicies-cache")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends the cache; reads go on returning the last known documents. A listener must not call it."""
        await self._watch.close()
        self._task.cancel()
        await asyncio.wait({self._task})

    async def wait_synced(self, timeout: float | None = None) -> bool:
        """Waits until the cache is synced, at most ``timeout`` seconds; None: without limit. Returns whether it is synced.

        Raises:
            TopicPoliciesError: the cache ended before it was synced.
        """
        with suppress(TimeoutError):
            await asyncio.wait_for(self._settled.wait(), timeout)
        return self._outcome()

    async def _follow(self) -> None:
        try:
            async for event in self._watch:
                self.apply(event)
                if self.synced():
                    self._settled.set()
        except TopicPoliciesError as error:
            self.error = error
        finally:
            self.closed = True
            self._settled.set()
