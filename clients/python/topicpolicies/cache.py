"""The documents that a watch tells of, kept in memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from .events import Bookmark, Changed, Deleted, Restarted, Synced, WatchEvent
from .results import Document, Scope


@dataclass(frozen=True, slots=True)
class Change:
    """What a cache tells its listeners. An absence is None on either side."""

    topic: str
    """The topic's full name."""
    scope: Scope
    before: Document | None
    after: Document | None


class PolicyCache:
    """Mirrors documents: give it every event of a watch, in order, and ask it for the newest state.

    ``Client.cache`` is one that fills itself.

    While a namespace begins again with a snapshot, what was known of it stays; what the snapshot does not tell of again is dropped when it
    is complete. It does no locking: whoever shares it between threads does.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        """``now``: seconds, from an arbitrary beginning, that never go back."""
        self._namespaces: dict[str, dict[tuple[str, Scope], Document]] = {}
        self._doubtful: dict[str, set[tuple[str, Scope]]] = {}
        self._synced: set[str] = set()
        self._confirmed: dict[str, float] = {}
        self._listeners: dict[object, Callable[[Change], object]] = {}
        self._now = now

    def apply(self, event: WatchEvent) -> None:
        """Takes an event; those that change no document are welcome too. Listeners are called before it returns."""
        if isinstance(event, (Changed, Deleted)):
            self._doubtful.get(event.namespace, set()).discard((event.topic, event.scope))
            if not event.snapshot:
                self._confirm(event.namespace)
            after = Document(event.topic, event.scope, event.policies, event.version) if isinstance(event, Changed) else None
            self._put(event.namespace, (event.topic, event.scope), after)
        elif isinstance(event, Restarted):
            self._doubtful[event.namespace] = set(self._namespaces.get(event.namespace, ()))
            self._synced.discard(event.namespace)
        elif isinstance(event, Synced):
            self._synced.add(event.namespace)
            self._confirm(event.namespace)
            for key in self._doubtful.pop(event.namespace, ()):
                self._put(event.namespace, key, None)
        elif isinstance(event, Bookmark):
            self._confirm(event.namespace)

    def listen(self, listener: Callable[[Change], object]) -> Callable[[], None]:
        """Calls a function for every document that there is, at once, and then for every change, from ``apply``.

        What it raises, ``apply`` raises.

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

    def synced(self, namespace: str) -> bool:
        """Whether a namespace is complete: its snapshot has been told to its end."""
        return namespace in self._synced

    def staleness(self, namespace: str) -> float:
        """Seconds since a change or a bookmark confirmed all that is known of a namespace; infinite before."""
        confirmed = self._confirmed.get(namespace)
        return float("inf") if confirmed is None else self._now() - confirmed

    def get(self, topic: str, scope: Scope = Scope.LOCAL) -> Document | None:
        """A document by its topic's full name; None if none is known. Its message is shared: copy it before you change it."""
        for documents in self._namespaces.values():
            document = documents.get((topic, scope))
            if document is not None:
                return document
        return None

    def __iter__(self) -> Iterator[Document]:
        """All documents."""
        return iter([document for documents in self._namespaces.values() for document in documents.values()])

    def __len__(self) -> int:
        return sum(map(len, self._namespaces.values()))

    def _put(self, namespace: str, key: tuple[str, Scope], after: Document | None) -> None:
        documents = self._namespaces.setdefault(namespace, {})
        before = documents.pop(key, None)
        if after is not None:
            documents[key] = after
        if before is not None or after is not None:
            same = before is not None and after is not None and before.version == after.version
            for listener in () if same else list(self._listeners.values()):
                listener(Change(*key, before, after))

    def _confirm(self, namespace: str) -> None:
        self._confirmed[namespace] = self._now()
