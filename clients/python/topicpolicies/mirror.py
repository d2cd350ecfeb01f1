"""The documents that a watch tells of, kept in memory, without I/O: what caches are made of.

While a namespace begins anew with a snapshot, what was known of it stays; what the snapshot does not tell of again is dropped when it
is complete. Of two documents of one topic and scope the one with the greater version is newer, but for those from before and after a
beginning: those are not compared.
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
    """What a cache tells its listeners. An absence is None on either side."""

    topic: str
    """The topic's full name."""
    scope: Scope
    before: Document | None
    after: Document | None


@dataclass(slots=True)
class _Part:
    """One namespace."""

    documents: dict[_Key, Document] = field(default_factory=dict)
    """Absences too, until a bookmark says that nothing older comes any more."""
    absent: set[_Key] = field(default_factory=set)
    """Which of them are absences."""
    fresh: set[_Key] | None = field(default_factory=set)
    """What the snapshot that is under way has told of; None: none is."""
    synced: bool = False
    confirmed: float = -math.inf
    """When it was last confirmed, by the clock of this machine."""
    status: Status | None = None
    """What its state was last said to be by the stream that is open."""


class Mirror:
    """Takes every event of a watch, in order, and is asked for the newest state. It does no locking."""

    def __init__(self, namespaces: Iterable[str] = (), now: Callable[[], float] = time.monotonic) -> None:
        """Knows nothing yet.

        Args:
            namespaces: what is watched, or of what topics are.
            now: seconds, from an arbitrary beginning, that never go back.
        """
        self._parts: dict[str, _Part] = {name: _Part() for name in namespaces}
        self._listeners: dict[object, Callable[[Change], object]] = {}
        self._now = now
        self._newest: datetime | None = None
        """The newest time that the stream which is open has confirmed of any namespace, by the server's clock."""
        self.interruption: TopicPoliciesError | None = None
        """Why there is no stream at present, if there is none."""

    def apply(self, event: WatchEvent) -> None:
        """Takes an event; those that change no document are welcome too. What a listener raises, it raises."""
        if isinstance(event, Changed):  # nearly all are
            self.interruption = None
            part = self._parts.get(event.namespace)
            if part is None:
                part = self._parts[event.namespace] = _Part()
            self._changed(part, event.document)
            return
        if isinstance(event, Interrupted):
            self._newest = None
            self.interruption = event.error
            for part in self._parts.values():
                part.status = None  # the next stream says only what is not READY
            return
        if not isinstance(event, Reset) or event.reason:  # else the watch itself says so, before it has connected
            self.interruption = None
        part = self._parts.setdefault(event.namespace, _Part())
        if isinstance(event, Reset):
            part.fresh = set()
        elif isinstance(event, Status):
            part.status = event
        elif isinstance(event, (Synced, Bookmark)):
            self._confirmed(part, event.confirmed_time)
            if isinstance(event, Synced):
                self._synced(part)
            for key in part.absent:
                part.documents.pop(key, None)
            part.absent.clear()

    def listen(self, listener: Callable[[Change], object]) -> Callable[[], None]:
        """Calls a function for every document that there is, at once, and then for every change, from ``apply``.

        Returns:
            What ends it.
        """
        for document in self:
            listener(Change(document.topic, document.scope, None, document))
        mark = object()
        self._listeners[mark] = listener

        def stop() -> None:
            self._listeners.pop(mark, None)

        return stop

    def synced(self, namespace: str | None = None) -> bool:
        """Whether a namespace, or each, has had a whole snapshot at any time. From then on reads are complete, if perhaps old."""
        if namespace is None:
            return bool(self._parts) and all(part.synced for part in self._parts.values())
        return namespace in self._parts and self._parts[namespace].synced

    def staleness(self, namespace: str | None = None) -> float:
        """Seconds since the service last confirmed all that is known of a namespace, or of the stalest; infinite before it is synced.

        Nothing but a bookmark makes it smaller, and only a namespace that is followed has any.
        """
        parts = self._parts.values() if namespace is None else [self._parts.get(namespace, _Part())]
        return self._now() - min((part.confirmed for part in parts), default=-math.inf)

    @property
    def states(self) -> Mapping[str, Status]:
        """What the states of the namespaces were last said to be; one that was READY all along is not in it."""
        return {name: part.status for name, part in self._parts.items() if part.status is not None}

    @property
    def problem(self) -> str:
        """A sentence for people while something can't be followed, else empty."""
        if self.interruption is not None:
            return str(self.interruption)
        return next((status.message for status in self.states.values() if status.state is not NamespaceState.READY), "")

    def get(self, topic: str, scope: Scope = Scope.LOCAL) -> Document | None:
        """A document; None if none is known. Its message is shared: copy it before you change it.

        Args:
            topic: its name, with or without its domain; a partition's name means its topic.
            scope: in which clusters.
        """
        name = topic_name(topic)
        part = self._parts.get(namespace_of(name))
        document = part.documents.get((name, scope)) if part is not None else None
        return document if document is not None and document.exists else None

    def __iter__(self) -> Iterator[Document]:
        """All documents, ordered by topic and scope."""
        there = [each for part in self._parts.values() for each in part.documents.items() if each[1].exists]
        there.sort(key=itemgetter(0))
        return iter([document for _, document in there])

    def __len__(self) -> int:
        return sum(document.exists for part in self._parts.values() for document in part.documents.values())

    def _changed(self, part: _Part, document: Document) -> None:
        key, fresh = (document.topic, document.scope), part.fresh
        known = part.documents.get(key)
        comparable = known is not None and (fresh is None or key in fresh)
        if fresh is not None:
            fresh.add(key)
        if known is None or not comparable or document.version > known.version:
            part.documents[key] = document
            if not document.exists:
                part.absent.add(key)
            elif part.absent:
                part.absent.discard(key)
            if self._listeners:
                self._tell(key, known, document)

    def _synced(self, part: _Part) -> None:
        part.synced = True
        fresh, part.fresh = part.fresh, None
        for key in [] if fresh is None else [key for key in part.documents if key not in fresh]:
            self._tell(key, part.documents.pop(key), None)

    def _confirmed(self, part: _Part, confirmed: datetime) -> None:
        self._newest = confirmed if self._newest is None else max(self._newest, confirmed)
        part.confirmed = self._now() - (self._newest - confirmed).total_seconds()

    def _tell(self, key: _Key, before: Document | None, after: Document | None) -> None:
        before = before if before is not None and before.exists else None
        after = after if after is not None and after.exists else None
        if (before.version if before is not None else None) != (after.version if after is not None else None):
            for listener in list(self._listeners.values()):
                listener(Change(*key, before, after))
