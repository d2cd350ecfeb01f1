"""The changes in one sidecar's watch, whichever sidecar leads."""

from __future__ import annotations

import asyncio
from collections import defaultdict

from tests.promises.api import Api

from .raw_log import leader_of


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
        async with Api(self.address) as api:
            async for event in api.watch([self._namespace], mode="EVERY", timeout=None):
                if event.kind == "synced":
                    self.synced.set()
                elif event.kind == "reset":
                    self.restarted = True
                elif event.document is not None and self.synced.is_set():
                    self.shown[event.document.topic].append((event.previous_version, event.document.version))
                    self.leaders.add(leader_of(event.producer))
                self._news.set()

    async def until_shown(self, topic: str, version: str) -> None:
        """Waits until the watch has reached a version of a topic."""
        async with asyncio.timeout(30):
            while not self.shown[topic] or self.shown[topic][-1][1] < version:
                self._news.clear()
                await self._news.wait()
