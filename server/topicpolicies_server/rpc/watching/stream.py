"""One WatchPolicies stream: any number of namespaces, each a part of its own (``part``), told in batches.

The stream pulls: it takes from its parts when the last message is written, so a reader that does not read costs nothing but itself. What
there is to tell when it takes goes into one message, bounded in bytes; it never waits for more. It looks at those parts alone that have
said that there may be something: a change in one of a thousand namespaces costs what it does in one of two.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from ...core.errors import Kind, PolicyError
from ...core.reasons import Reason
from .bookmarks import Bookmarks
from .desk import Desk
from .part import Part
from .requests import Watch
from .warrants import Warrant

MESSAGE_BYTES = 256 * 1024
"""A message has no more; only one document may make it longer."""
UNREAD_SECONDS = 10.0
"""How long a stream to which nothing may be told any more waits for its reader to take what is written."""
NO_WARRANTS: Mapping[str, Warrant] = {}
Write = Callable[[bytes], Awaitable[None]]
"""Sends a message; returns when there is room for the next."""


def _never() -> None:
    """Whoever needs no warrant is not left for what he does not read."""


class WatchStream:
    """What one stream tells."""

    def __init__(self, desk: Desk, watch: Watch, bookmarks: Bookmarks) -> None:
        """Begins nothing yet.

        Args:
            desk: what it is told from.
            watch: what is watched.
            bookmarks: tells when one is due.
        """
        self._interval = watch.bookmark_seconds
        self._ends = watch.end_when_synced
        self._bookmarks = bookmarks
        self._stops = False
        self._bookmark_due = False
        self._stirred: dict[Part, None] = {}
        """The parts that may have something to tell, which was not looked at yet, in their order."""
        self._reconsidered = True
        """Whether permissions may have changed since that was looked at."""
        self._unsynced: list[Part] = []
        """Parts that were not synced when they were looked at last; those that were may begin anew."""
        self._waiter: asyncio.Future[None] | None = None
        self._desk = desk
        self._watch = watch
        self._parts: list[Part] = []
        self._task: asyncio.Task[object] | None = None
        """Tells, once it does."""
        self._unread_since: Callable[[], float | None] = _never
        """Tells the loop's time since when it waits for its reader; None: it does not."""

    @property
    def waiting(self) -> int:
        """Records that wait to be taken: copies and what is recalled; changes are taken from the namespace when there is room for them."""
        return sum(len(part.outbox) for part in self._parts)

    def stop(self) -> None:
        """The server stops: the stream ends with UNAVAILABLE, after a bookmark."""
        self._stops = True
        self.stir()

    def reconsider(self) -> None:
        """A permission has changed, or is still missing: a reader that takes nothing can't be told so, and is left."""
        self._reconsidered = True
        self.stir()
        since = self._unread_since()
        if since is None or self._task is None or self._denied() is None:
            return
        if asyncio.get_running_loop().time() >= since + UNREAD_SECONDS:
            self._task.cancel()

    async def tell(
        self, write: Write, warrants: Mapping[str, Warrant] = NO_WARRANTS, unread_since: Callable[[], float | None] = _never
    ) -> None:
        """Writes serialized ``WatchPoliciesResponse`` messages, until all was told that was asked for.

        Args:
            write: writes one.
            warrants: by namespace, what is known of the permission; where there is none, it needs none.
            unread_since: tells the loop's time since when what is written waits for its reader; None: nothing does.

        Raises:
            PolicyError: UNAVAILABLE when the server stops, RESOURCE_EXHAUSTED when it has too many namespaces, FAILED_PRECONDITION when it
                keeps no history and is asked for that, PERMISSION_DENIED when its caller may watch none of its namespaces any more; what
                ``_taken`` raises.
        """
        self._task, self._unread_since = asyncio.current_task(), unread_since
        self._parts = [self._part(name, warrants.get(name)) for name in self._watch.topics]
        for part in self._parts:
            part.begin()
        self.stir()
        slot = self._bookmarks.expect(self._is_due, self._interval)
        try:
            while True:
                batch, more = await self._taken(write)
                if self._stops and not more:
                    await write(b"".join([*batch, *filter(None, (part.parting() for part in self._parts))]))
                    raise PolicyError(
                        Kind.UNAVAILABLE, Reason.SHUTTING_DOWN, "The server is stopping: resume elsewhere, or here later, with the token."
                    )
                if self._bookmark_due:
                    self._bookmark_due = False
                    batch += filter(None, (part.bookmark() for part in self._parts))
                    slot = self._bookmarks.expect(self._is_due, self._interval)
                if batch:
                    await write(batch[0] if len(batch) == 1 else b"".join(batch))
                self._end_if_denied()
                if self._ends and not more and self._all_synced():
                    return
                if not self._stirred:
                    await self._something()
        finally:
            self._bookmarks.forget(self._is_due, slot)

    def _part(self, name: str, warrant: Warrant | None) -> Part:
        def wake() -> None:
            self._stirred[part] = None
            self._wake()

        part = Part(self._desk, name, self._watch, wake, warrant)
        return part

    def _all_synced(self) -> bool:
        """Whether all was told once; as long as it was not, mostly one part is looked at."""
        while self._unsynced and self._unsynced[-1].synced:
            self._unsynced.pop()
        if not self._unsynced:
            self._unsynced = [part for part in self._parts if not part.synced]
        return not self._unsynced

    def _end_if_denied(self) -> None:
        if not self._reconsidered:
            return
        self._reconsidered = False
        if (denied := self._denied()) is not None:
            raise denied

    def _denied(self) -> PolicyError | None:
        """PERMISSION_DENIED if nothing may be told any more; or one of what is to be told once, for it would not end otherwise."""
        denied = [part.refusal for part in self._parts if part.refusal is not None and part.refusal.kind is Kind.PERMISSION_DENIED]
        return denied[0] if denied and (self._ends or len(denied) == len(self._parts)) else None

    async def close(self) -> None:
        """Gives back what it was told from."""
        await asyncio.gather(*(part.close() for part in self._parts))

    async def _taken(self, write: Write) -> tuple[list[bytes], bool]:
        """What is to be told, of which all but the last message is written, and whether there is more to take at once.

        Raises:
            PolicyError: the permission for what was taken ended while its reader did not read.
        """
        batch: list[bytes] = []
        more, size = False, 0
        stirred, self._stirred = self._stirred, {}
        for part in stirred:
            wire = part.warrant.wire
            for piece in part.take():
                if size and size + len(piece) > MESSAGE_BYTES:
                    await write(b"".join(batch))
                    part.warrant.check(part.name, wire)
                    batch, size = [], 0
                batch.append(piece)
                size += len(piece)
            if part.more:
                more = True
                self._stirred[part] = None
        return batch, more

    async def _something(self) -> None:
        """Returns when there may be something to tell."""
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def stir(self) -> None:
        """There may be something to tell, of any part."""
        self._stirred |= dict.fromkeys(self._parts)
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _is_due(self) -> None:
        self._bookmark_due = True
        self.stir()
