"""A watch of all changes of a namespace on a sidecar, which detects changes that are undone."""

from __future__ import annotations

import asyncio
from collections import defaultdict

import grpc

from tests.stubs import AsyncStub
from topicpolicies.v1 import service_pb2
from topicpolicies.v1.policies_pb2 import PolicyDocument
from topicpolicies.v1.service_pb2 import BookmarkKind, WatchMode

from .acknowledged import Cell
from .settings import ALL


class Heads:
    """Follows a namespace on one sidecar. Writers only increase numbers, so a number that decreases was undone."""

    def __init__(self, stub: AsyncStub, namespace: str) -> None:
        self._stub = stub
        self._namespace = namespace
        self._numbers: dict[Cell, int] = defaultdict(int)
        self._synced = asyncio.Event()
        self.undone: list[str] = []
        """Descriptions of numbers that decreased, and of interruptions of the watch."""
        self.changes = 0

    async def follow(self) -> None:
        """Follows until it is cancelled."""
        request = service_pb2.WatchPoliciesRequest(namespaces=[self._namespace], mode=WatchMode.WATCH_MODE_EVERY)
        try:
            async for message in self._stub.WatchPolicies(request):
                for event in message.events:
                    if event.HasField("change"):
                        self._look(event.change.document)
                    elif event.bookmark.kind == BookmarkKind.BOOKMARK_KIND_SYNCED:
                        self._synced.set()
                    elif event.HasField("reset"):
                        self.undone.append(f"the watch began anew: {event.reset.message}")
        except grpc.aio.AioRpcError as error:
            self.undone.append(f"the watch broke: {error.code().name} {error.details()}")

    async def synced(self) -> None:
        """Waits until the watch is synced."""
        await asyncio.wait_for(self._synced.wait(), 60)

    def _look(self, document: PolicyDocument) -> None:
        self.changes += 1
        for owned in ALL:
            cell = Cell(document.topic, owned)
            number, before = owned.read(document.policies), self._numbers[cell]
            if number < before:
                self.undone.append(f"{cell}: {before} became {number} at {document.version}")
            self._numbers[cell] = number
