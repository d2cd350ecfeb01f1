"""One WatchPolicies stream: any number of namespaces, each a part of its own (``part``), told in batches.

The stream pulls: it takes from its parts when the last message is written, so a reader that does not read costs nothing but itself. What
there is to tell when it takes goes into one message, bounded in bytes; it never waits for more.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from ...core.errors import Kind, PolicyError
from ...core.reasons import Reason
from .desk import Desk
from .part import Part
from .requests import Watch

MESSAGE_BYTES = 256 * 1024
"""A message is sent when it has so many; only one document may make it longer."""


class WatchStream:
    """The messages of one stream."""

    def __init__(self, desk: Desk, watch: Watch, stopping: asyncio.Event) -> None:
        """Begins nothing yet.

        Args:
            desk: what it is told from.
            watch: what is watched.
            stopping: set when the server stops.
        """
        self._interval = watch.bookmark_seconds
        self._ends = watch.end_when_synced
        self._wake = asyncio.Event()
        self._stopping = stopping
        self._parts = [Part(desk, name, watch, self._wake.set) for name in watch.topics]

    async def messages(self) -> AsyncGenerator[bytes, None]:
        """Serialized ``WatchPoliciesResponse`` messages.

        Raises:
            PolicyError: UNAVAILABLE when the server stops, RESOURCE_EXHAUSTED when it has too many namespaces, FAILED_PRECONDITION when it
                keeps no history and is asked for that.
        """
        loop = asyncio.get_running_loop()
        for part in self._parts:
            part.begin()
        stop = loop.create_task(self._stop())
        next_bookmark = loop.time() + self._interval
        try:
            while True:
                self._wake.clear()
                more = False
                batch: list[bytes] = []
                size = 0
                for part in self._parts:
                    for record in part.take():
                        batch.append(record)
                        size += len(record)
                        if size >= MESSAGE_BYTES:
                            yield b"".join(batch)
                            batch, size = [], 0
                    more = more or part.more
                if self._stopping.is_set() and not more:
                    yield b"".join([*batch, *filter(None, (part.parting() for part in self._parts))])
                    raise PolicyError(
                        Kind.UNAVAILABLE, Reason.SHUTTING_DOWN, "The server is stopping: resume elsewhere, or here later, with the token."
                    )
                now = loop.time()
                if now >= next_bookmark:
                    batch += filter(None, (part.bookmark() for part in self._parts))
                    next_bookmark = now + self._interval
                if batch:
                    yield b"".join(batch)
                if self._ends and not more and all(part.synced for part in self._parts):
                    return
                if not more and not batch:
                    timer = loop.call_later(max(0.0, next_bookmark - now), self._wake.set)
                    try:
                        await self._wake.wait()
                    finally:
                        timer.cancel()
        finally:
            stop.cancel()

    async def close(self) -> None:
        """Gives back what it was told from."""
        await asyncio.gather(*(part.close() for part in self._parts))

    async def _stop(self) -> None:
        await self._stopping.wait()
        self._wake.set()
