"""Keeps the documents of a watch in memory, without I/O: the core of caches.

While a namespace begins anew with a snapshot, its known documents stay; those that the snapshot does not contain are dropped when the
snapshot is complete. Of two documents of one topic and scope, the one with the greater version is newer. But versions from before and
after the beginning of a snapshot are not compared, because the log may be another one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from operator import itemgetter
from typing import TypeAlias

from .documents import Document, Scope
from .errors import TopicPoliciesError
from .events import Bookmark, Changed, Interrupted, NamespaceState, Reset, Status, Synced, WatchEvent
from .names import namespace_of, topic_name

_Key: TypeAlias = tuple[str, Scope]


@dataclass(frozen=True, slots=True)
class Change:
    """The change of one document, for the listeners of a cache. ``before`` or ``after`` is None if there is no document."""

    topic: str
    """The topic's full name."""
    scope: Scope
    before: Document | None
    after: Document | None


@dataclass(slots=True)
class _Namespace:
    """The state of one namespace."""

    documents: dict[_Key, Document] = field(default_factory=dict)
    """The documents; absent ones too, until the next bookmark: after it no older event can come, so their versions are not needed."""
    absent: set[_Key] = field(default_factory=set)
    """The keys of absent documents in ``documents``."""
    fresh: set[_Key] | None = field(default_factory=set)
    """The keys of the documents that the current snapshot has contained so far; None: there is no snapshot under way."""
    synced: bool = False
    """Whether a snapshot was completed at any time."""
    confirmed: float = -math.inf
    """When all documents were last confirmed, in seconds by the clock of this machine."""
    status: Status | None = None
    """The last status that the open stream has sent; None: it has sent none."""


class Mirror:
    """The newest documents of a watch: ``apply`` every event of the watch in order, then read. It is not thread-safe."""

    def __init__(self, namespaces: Iterable[str] = (), now: Callable[[], float] = time.monotonic) -> None:
        """Makes an empty mirror.

        Args:
            namespaces: the watched namespaces, and those of watched topics.
            now: a monotonic clock, in seconds.
        """
        self._namespaces: dict[str, _Namespace] = {name: _Namespace() for name in namespaces}
        self._listeners: dict[object, Callable[[Change], object]] = {}
        self._now = now
        self._newest: datetime | None = None
        """The newest time that the open stream has confirmed for any namespace, by the server's clock."""
        self.interruption: TopicPoliciesError | None = None
        """Why the watch has no stream at present; None: it has one."""

    def apply(self, event: WatchEvent) -> None:
        """Applies an event of any kind, and calls the listeners if it changes a document. What a listener raises is raised."""
        if isinstance(event, Changed):  # nearly all are
            self.interruption = None
            namespace = self._namespaces.get(event.namespace)
            if namespace is None:
                namespace = self._namespaces[event.namespace] = _Namespace()
            self._changed(namespace, event.document)
            return
        if isinstance(event, Interrupted):
            self._newest = None
            self.interruption = event.error
            for namespace in self._namespaces.values():
                namespace.status = None  # the next stream reports only namespaces that are not READY
            return
        if not isinstance(event, Reset) or event.reason:  # a Reset without a reason is the watch's own, and shows no connection
            self.interruption = None
        namespace = self._namespaces.setdefault(event.namespace, _Namespace())
        if isinstance(event, Reset):
            namespace.fresh = set()
        elif isinstance(event, Status):
            namespace.status = event
        elif isinstance(event, (Synced, Bookmark)):
            self._confirmed(namespace, event.confirmed_time)
            for key in namespace.absent:
                namespace.documents.pop(key, None)
            namespace.absent.clear()
            if isinstance(event, Synced):
                self._synced(namespace)

    def listen(self, listener: Callable[[Change], object]) -> Callable[[], None]:
        """Calls a function at once for each present document, and then, from ``apply``, for each change.

        Returns:
            A function that removes the listener.
        """
        for document in self:
            listener(Change(document.topic, document.scope, None, document))
        mark = object()
        self._listeners[mark] = listener

        def stop() -> None:
            self._listeners.pop(mark, None)

        return stop

    def synced(self, namespace: str | None = None) -> bool:
        """Returns whether a namespace, or each one, has ever had a complete snapshot. From then on reads are complete, if perhaps old."""
        if namespace is None:
            return bool(self._namespaces) and all(each.synced for each in self._namespaces.values())
        return namespace in self._namespaces and self._namespaces[namespace].synced

    def staleness(self, namespace: str | None = None) -> float:
        """Returns the seconds since the service last confirmed a namespace; None: the stalest one. Infinite before it is synced.

        Only a bookmark (``Synced``, ``Bookmark``) makes it smaller, and the service sends bookmarks only for a namespace that it follows.
        """
        chosen = self._namespaces.values() if namespace is None else [self._namespaces.get(namespace, _Namespace())]
        return self._now() - min((each.confirmed for each in chosen), default=-math.inf)

    @property
    def states(self) -> Mapping[str, Status]:
        """The last ``Status`` of each namespace; one that was READY all along has none."""
        return {name: namespace.status for name, namespace in self._namespaces.items() if namespace.status is not None}

    @property
    def problem(self) -> str:
        """A sentence for people that says why documents can't be followed at present; empty: they can."""
        if self.interruption is not None:
            return str(self.interruption)
        return next((status.message for status in self.states.values() if status.state is not NamespaceState.READY), "")

    def get(self, topic: str, scope: Scope = Scope.LOCAL) -> Document | None:
        """Returns a document; None: there is none. Its message is shared: copy it before you change it.

        Args:
            topic: the topic's name, with or without its domain; a partition's name means its topic.
            scope: the scope of the document.
        """
        name = topic_name(topic)
        namespace = self._namespaces.get(namespace_of(name))
        document = namespace.documents.get((name, scope)) if namespace is not None else None
        return document if document is not None and document.exists else None

    def __iter__(self) -> Iterator[Document]:
        """Iterates over all documents, ordered by topic and scope."""
        there = [each for namespace in self._namespaces.values() for each in namespace.documents.items() if each[1].exists]
        there.sort(key=itemgetter(0))
        return iter([document for _, document in there])

    def __len__(self) -> int:
        return sum(document.exists for namespace in self._namespaces.values() for document in namespace.documents.values())

    def _changed(self, namespace: _Namespace, document: Document) -> None:
        key, fresh = (document.topic, document.scope), namespace.fresh
        known = namespace.documents.get(key)
        comparable = known is not None and (fresh is None or key in fresh)
        if fresh is not None:
            fresh.add(key)
        if known is None or not comparable or document.version > known.version:
            namespace.documents[key] = document
            if not document.exists:
                namespace.absent.add(key)
            elif namespace.absent:
                namespace.absent.discard(key)
            if self._listeners:
                self._notify(key, known, document)

    def _synced(self, namespace: _Namespace) -> None:
        namespace.synced = True
        fresh, namespace.fresh = namespace.fresh, None
        gone = [] if fresh is None else [key for key in namespace.documents if key not in fresh]
        dropped = [(key, namespace.documents.pop(key)) for key in gone]  # all of them first: a listener may raise
        for key, document in dropped:
            self._notify(key, document, None)

    def _confirmed(self, namespace: _Namespace, confirmed: datetime) -> None:
        self._newest = confirmed if self._newest is None else max(self._newest, confirmed)
        namespace.confirmed = self._now() - (self._newest - confirmed).total_seconds()

    def _notify(self, key: _Key, before: Document | None, after: Document | None) -> None:
        before = before if before is not None and before.exists else None
        after = after if after is not None and after.exists else None
        if (before.version if before is not None else None) != (after.version if after is not None else None):
            for mark, listener in list(self._listeners.items()):
                if mark in self._listeners:  # another listener may have removed it meanwhile
                    listener(Change(*key, before, after))
