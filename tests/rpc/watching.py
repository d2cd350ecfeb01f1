"""Reads the events of a watch one by one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from tests.stubs import AsyncStub
from topicpolicies.v1.service_pb2 import BOOKMARK_KIND_SYNCED, PolicyChange, WatchEvent, WatchPoliciesRequest, WatchToken

PATIENCE = 30.0


class WatchReader:
    """One watch, read event by event."""

    def __init__(
        self,
        stub: AsyncStub,
        request: WatchPoliciesRequest | None = None,
        *,
        metadata: tuple[tuple[str, str], ...] = (),
        **selection: Any,
    ) -> None:
        """Opens a watch with this request, or with one of these fields."""
        self.call = stub.WatchPolicies(request if request is not None else WatchPoliciesRequest(**selection), metadata=metadata)
        self.messages = 0
        """The number of messages that were read."""
        self._events = self._each()

    async def next(self) -> WatchEvent:
        """Returns the next event."""
        async with asyncio.timeout(PATIENCE):
            return await anext(self._events)

    async def until(self, holds: Callable[[WatchEvent], bool]) -> list[WatchEvent]:
        """Returns the events up to and including the first for which this holds."""
        found = []
        while True:
            found.append(await self.next())
            if holds(found[-1]):
                return found

    async def until_synced(self) -> list[WatchEvent]:
        """Returns the events up to and including SYNCED."""
        return await self.until(lambda event: event.bookmark.kind == BOOKMARK_KIND_SYNCED)

    async def change(self) -> PolicyChange:
        """Returns the next change, and skips other events before it."""
        return (await self.until(lambda event: event.HasField("change")))[-1].change

    async def rest(self) -> list[WatchEvent]:
        """Returns the events up to the end of the stream."""
        async with asyncio.timeout(PATIENCE):
            return [event async for event in self._events]

    def cancel(self) -> None:
        """Cancels the stream."""
        self.call.cancel()

    async def _each(self) -> AsyncIterator[WatchEvent]:
        async for message in self.call:
            self.messages += 1
            for event in message.events:
                yield event


def changes(events: list[WatchEvent]) -> list[PolicyChange]:
    """Returns the changes among events."""
    return [event.change for event in events if event.HasField("change")]


def kinds(events: list[WatchEvent]) -> list[str]:
    """Returns the kinds of events: the names of their contents."""
    return [event.WhichOneof("content") or "" for event in events]


def token_of(events: list[WatchEvent]) -> WatchToken:
    """Returns the token of the last event, which must be a bookmark."""
    return events[-1].bookmark.token
