"""Reads watches event by event, and keeps the copy that docs/watch.md tells clients to keep."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from types import TracebackType
from typing import Any, Self

from topicpolicies.v1.policies_pb2 import Scope

from .api import Api, Document, Event

PATIENCE = 30.0


class Watching:
    """One open watch."""

    def __init__(self, api: Api, *selection: Any, **options: Any) -> None:
        """Does not open it yet; the arguments are those of ``Api.watch``."""
        self._events: AsyncGenerator[Event] = api.watch(*selection, **options)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Cancels the stream."""
        await self._events.aclose()

    async def next(self) -> Event:
        """Returns the next event but for states, which come with any timing."""
        async with asyncio.timeout(PATIENCE):
            while (event := await anext(self._events)).kind == "status":
                pass
            return event

    async def until(self, holds: Callable[[Event], bool]) -> list[Event]:
        """Returns the events up to and including the first for which this holds."""
        found = [await self.next()]
        while not holds(found[-1]):
            found.append(await self.next())
        return found

    async def synced(self) -> list[Event]:
        """Returns the events up to and including SYNCED."""
        return await self.until(lambda event: event.kind == "synced")

    async def change(self) -> Event:
        """Returns the next change, and skips bookmarks before it."""
        found = await self.until(lambda event: event.kind != "bookmark")
        assert found[-1].kind == "change"
        return found[-1]


async def whole(api: Api, *selection: Any, **options: Any) -> list[Event]:
    """Returns the events of a watch that ends when it is complete, but for states."""
    async with asyncio.timeout(PATIENCE):
        return [event async for event in api.watch(*selection, until_synced=True, **options) if event.kind != "status"]


def documents(events: Iterable[Event]) -> list[Document]:
    """Returns the documents of the changes among events."""
    return [event.document for event in events if event.kind == "change" and event.document is not None]


def kinds(events: Iterable[Event]) -> list[str]:
    """Returns the kinds of events."""
    return [event.kind for event in events]


class Copy:
    """What a client knows that watches one namespace: the cache of docs/watch.md, which also judges what it is sent."""

    def __init__(self) -> None:
        self.documents: dict[tuple[str, Scope.ValueType], Document] = {}
        self.token: str | None = None
        self.resets = 0
        self.synced = False
        self.repeated: list[Document] = []
        """Documents that were sent again behind a place that the client had reached."""
        self._fresh: set[tuple[str, Scope.ValueType]] | None = set()

    @property
    def present(self) -> dict[tuple[str, Scope.ValueType], Document]:
        """The documents that exist."""
        return {key: document for key, document in self.documents.items() if document.policies is not None}

    def connect(self) -> None:
        """Begins a new stream."""
        if self.token is None:
            self._fresh = set()

    def take(self, event: Event) -> None:
        """Takes an event.

        Raises:
            AssertionError: a version went back.
        """
        self.token = event.token
        if event.kind == "reset":
            self.resets += 1
            self._fresh = set()
        elif event.kind == "change":
            assert event.document is not None
            key = event.document.topic, event.document.scope
            old = self.documents.get(key)
            anew = self._fresh is not None and key not in self._fresh
            if old is not None and not anew:
                assert event.document.version >= old.version, "a version went back"
                if event.document.version == old.version:
                    self.repeated.append(event.document)
            self.documents[key] = event.document
            if self._fresh is not None:
                self._fresh.add(key)
        elif event.kind == "synced":
            if self._fresh is not None:
                self.documents = {key: document for key, document in self.documents.items() if key in self._fresh}
                self._fresh = None
            self.synced = True
