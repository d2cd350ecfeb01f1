"""The open streams of WatchPolicies and WatchHistory, of which a server has at most ``max_watches``."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from ...access import Permission
from ...access.grants import Grants
from ...core.errors import too_much
from ...tasks import TaskSet
from ..calls import Call
from .authorizations import Authorizations
from .stream import PartOf, WatchStream


class WatchStreams:
    """The open streams."""

    def __init__(self, most: int, grants: Grants | None) -> None:
        """Begins without streams.

        Args:
            most: how many streams may be open.
            grants: says what callers may do; None: every caller may watch everything.
        """
        self._most = most
        self.authorizations = Authorizations(grants) if grants is not None else None
        """The permissions that open streams depend on, rechecked while they are open; None: no permissions are checked."""
        self._open: dict[WatchStream, None] = {}
        self._stops = False
        self._closing = TaskSet("watches")
        """The tasks in which ended streams release their watchers and namespaces."""

    def __len__(self) -> int:
        return len(self._open)

    def records(self) -> list[int]:
        """Returns, for each stream, how many records wait in it. Safe to call from any thread."""
        return [stream.waiting for stream in list(self._open)]

    def stop(self) -> None:
        """Ends every stream with UNAVAILABLE after a last bookmark, and new ones at once."""
        self._stops = True
        for stream in self._open:
            stream.stop()

    async def closed(self) -> None:
        """Returns when every ended stream has released its watchers and namespaces."""
        await self._closing.close(cancel=False)

    async def run(
        self,
        names: Iterable[str],
        part_of: PartOf,
        bookmark_seconds: float,
        permissions: tuple[Permission, ...],
        call: Call,
    ) -> None:
        """Serves one stream, until the caller ends it.

        Args:
            names: the namespaces that are watched.
            part_of: makes the part of a namespace.
            bookmark_seconds: the time between two bookmarks.
            permissions: what the caller needs in each of the namespaces.
            call: the call.

        Raises:
            PolicyError: RESOURCE_EXHAUSTED, too many streams are open; and as ``WatchStream.run``.
        """
        if len(self._open) >= self._most:
            problem = f"{len(self._open)} watches are open, which is the limit: share one, or raise max_watches."
            raise too_much("max_watches", self._most, problem)
        names = tuple(names)
        stream = WatchStream(names, part_of, bookmark_seconds)
        self._open[stream] = None
        if self._stops:
            stream.stop()
        try:
            if self.authorizations is None:
                await stream.run(call.write)
            else:
                async with self.authorizations.joined(stream.reconsider, call.caller, names, *permissions) as held:
                    await stream.run(call.write, held, call.unread_since)
        finally:
            self._open.pop(stream, None)
            closing = self._closing.begin(stream.close(), "releasing the source of a stream")
            await asyncio.shield(closing)  # a cancellation of the call now must not cancel the release
