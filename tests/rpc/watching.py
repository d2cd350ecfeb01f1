"""Reads the events of a watch one by one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from functools import partial
from typing import Any, Generic, TypeVar

from tests.simulation.calls import call_of
from tests.stubs import AsyncStub
from topicpolicies.v1.history_pb2 import WatchHistoryEvent, WatchHistoryRequest
from topicpolicies.v1.service_pb2 import PolicyChange, WatchEvent, WatchPoliciesRequest
from topicpolicies_server.access.grants import Grants
from topicpolicies_server.namespaces.registry import Registry
from topicpolicies_server.rpc.watching.policy_part import PolicyPart
from topicpolicies_server.rpc.watching.requests import Watch
from topicpolicies_server.rpc.watching.stream import WatchStreams

PATIENCE = 100.0
_Event = TypeVar("_Event", WatchEvent, WatchHistoryEvent)


class _Reader(Generic[_Event]):
    """One stream, read event by event."""

    def __init__(self, call: Any, namespaces: int) -> None:
        """``namespaces``: how many namespaces are watched."""
        self.call = call
        self.messages = 0
        """The number of messages that were read."""
        self._namespaces = namespaces
        self._events: AsyncIterator[_Event] = self._each()

    async def next(self) -> _Event:
        """Returns the next event."""
        async with asyncio.timeout(PATIENCE):
            return await anext(self._events)

    async def until(self, holds: Callable[[_Event], bool]) -> list[_Event]:
        """Returns the events up to and including the first for which this holds."""
        found = []
        while True:
            found.append(await self.next())
            if holds(found[-1]):
                return found

    async def until_synced(self) -> list[_Event]:
        """Returns the events up to and including SYNCED."""
        return await self.until(lambda event: event.bookmark.synced)

    async def whole(self) -> list[_Event]:
        """Returns the events up to and including SYNCED of every namespace, and ends the stream."""
        found: list[_Event] = []
        for _ in range(self._namespaces):
            found += await self.until_synced()
        self.cancel()
        return found

    async def rest(self) -> list[_Event]:
        """Returns the events up to the end of the stream."""
        async with asyncio.timeout(PATIENCE):
            return [event async for event in self._events]

    def cancel(self) -> None:
        """Cancels the stream."""
        self.call.cancel()

    async def _each(self) -> AsyncIterator[_Event]:
        async for message in self.call:
            self.messages += 1
            for event in message.events:
                yield event


class WatchReader(_Reader[WatchEvent]):
    """A stream of WatchPolicies."""

    def __init__(
        self,
        stub: AsyncStub,
        request: WatchPoliciesRequest | None = None,
        *,
        metadata: tuple[tuple[str, str], ...] = (),
        **selection: Any,
    ) -> None:
        """Opens a watch with this request, or with one of these fields."""
        message = request if request is not None else WatchPoliciesRequest(**selection)
        of_topics = {topic.partition("://")[2].rpartition("/")[0] for topic in message.topics}
        super().__init__(stub.WatchPolicies(message, metadata=metadata), len(of_topics.union(message.namespaces)))

    async def change(self) -> PolicyChange:
        """Returns the next change, and skips other events before it."""
        return (await self.until(lambda event: event.HasField("change")))[-1].change


class HistoryReader(_Reader[WatchHistoryEvent]):
    """A stream of WatchHistory."""

    def __init__(self, stub: AsyncStub, *, metadata: tuple[tuple[str, str], ...] = (), **selection: Any) -> None:
        """Opens a stream with a request of these fields."""
        message = WatchHistoryRequest(**selection)
        super().__init__(stub.WatchHistory(message, metadata=metadata), len(set(message.namespaces)))


class DirectStream:
    """A stream of WatchPolicies without a server."""

    def __init__(self, registry: Registry, watch: Watch, write: Callable[[bytes], Awaitable[None]]) -> None:
        """``write``: takes its messages."""
        self._registry = registry
        self._watch = watch
        self._write = write

    async def run(self) -> None:
        """Runs until it is cancelled."""
        watch, streams = self._watch, WatchStreams(1, Grants(None))
        part_of = partial(PolicyPart, self._registry, None, watch)
        await streams.run(call_of(write=self._write), (), watch.topics, part_of, watch.bookmark_seconds)


def changes(events: Iterable[WatchEvent]) -> list[PolicyChange]:
    """Returns the changes among events."""
    return [event.change for event in events if event.HasField("change")]


def kinds(events: Iterable[WatchEvent | WatchHistoryEvent]) -> list[str]:
    """Returns the kinds of events: the names of their contents."""
    return [event.WhichOneof("content") or "" for event in events]


def token_of(events: list[WatchEvent], namespace: str = "") -> str:
    """Returns the last token among events; of a namespace, if one is named."""
    return next((each.resume_token for each in reversed(events) if each.resume_token and namespace in ("", each.namespace)), "")
