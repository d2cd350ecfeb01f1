"""The changes in one sidecar's watch, whichever sidecar leads."""

from __future__ import annotations

import asyncio
from collections import defaultdict

from topicpolicies import AsyncClient, WatchMode
from topicpolicies.events import Changed, Reset, Synced
from topicpolicies_server.logs.producer_names import leader_of


class Witness:
    """Watches every change of a namespace on one sidecar."""

    def __init__(self, address: str, namespace: str) -> None:
        """``address``: the address of the sidecar."""
        self.address = address
        self.synced = asyncio.Event()
        self.restarted = False
        """Whether the watch was ever reset."""
        self.shown: dict[str, list[tuple[str, str]]] = defaultdict(list)
        """By topic: the previous version and the version of each change."""
        self.leaders: set[str] = set()
        """The addresses of the leaders that wrote the changes."""
        self._namespace = namespace
        self._news = asyncio.Event()

    async def watch(self) -> None:
        """Watches until it is cancelled."""
        async with AsyncClient(self.address) as client:
            async for event in client.watch(namespaces=[self._namespace], mode=WatchMode.EVERY):
                if isinstance(event, Synced):
                    self.synced.set()
                elif isinstance(event, Reset):
                    self.restarted = True
                elif isinstance(event, Changed) and not event.snapshot:
                    self.shown[event.document.topic].append((event.previous_version, event.document.version))
                    assert event.origin is not None, "a change of the log"
                    self.leaders.add(leader_of(event.origin.producer_name))
                self._news.set()

    async def until_shown(self, topic: str, version: str) -> None:
        """Waits until the watch has reached a version of a topic."""
        async with asyncio.timeout(30):
            while not self.shown[topic] or self.shown[topic][-1][1] < version:
                self._news.clear()
                await self._news.wait()
