"""A watch of all changes of a namespace on a sidecar, which detects changes that are undone."""

from __future__ import annotations

import asyncio
from collections import defaultdict

from tests.promises.api import Api, Document, Refused
from topicpolicies.v1.policies_pb2 import TopicPolicies

from .acknowledged import Cell
from .settings import ALL


class Heads:
    """Follows a namespace on one sidecar. Writers only increase numbers, so a number that decreases was undone."""

    def __init__(self, api: Api, namespace: str) -> None:
        self._api = api
        self._namespace = namespace
        self._numbers: dict[Cell, int] = defaultdict(int)
        self._synced = asyncio.Event()
        self.undone: list[str] = []
        """Descriptions of numbers that decreased, and of interruptions of the watch."""
        self.changes = 0

    async def follow(self) -> None:
        """Follows until it is cancelled."""
        try:
            async for event in self._api.watch([self._namespace], mode="EVERY", timeout=None):
                if event.kind == "change":
                    assert event.document is not None
                    self._look(event.document)
                elif event.kind == "synced":
                    self._synced.set()
                elif event.kind == "reset":
                    self.undone.append(f"the watch began anew: {event.message}")
        except Refused as error:
            self.undone.append(f"the watch broke: {error}")

    async def synced(self) -> None:
        """Waits until the watch is synced."""
        await asyncio.wait_for(self._synced.wait(), 60)

    def _look(self, document: Document) -> None:
        self.changes += 1
        for owned in ALL:
            cell = Cell(document.topic, owned)
            number, before = owned.read(document.policies or TopicPolicies()), self._numbers[cell]
            if number < before:
                self.undone.append(f"{cell}: {before} became {number} at {document.version}")
            self._numbers[cell] = number
