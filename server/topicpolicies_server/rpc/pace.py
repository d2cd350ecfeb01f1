"""The pace of one update stream: what its principal's ration allows, in bytes in flight and in changes in a second (``rationing``)."""

from __future__ import annotations

import asyncio
from collections import deque

from ..access.rations import Ration
from .decoding import Batch, Undecodable


class Pace:
    """Slows one update stream down to its principal's ration: in bytes in flight, and in changes in a second."""

    def __init__(self, ration: Ration, loop: asyncio.AbstractEventLoop) -> None:
        """``ration``: that of the stream's principal."""
        self._ration = ration
        self._loop = loop
        self._messages: deque[list[int]] = deque()
        """For each message in flight, oldest first: how many of its results are missing, and its bytes. Results are only counted: whatever
        their order, they are taken to be those of the oldest messages."""

    async def arrived(self, message: Batch) -> None:
        """Takes a message that was read; returns when there is room for its bytes in flight."""
        changes = message.changes
        if not changes:
            return
        size = sum(each.ByteSize() for each in changes if not isinstance(each, Undecodable))
        room = asyncio.Event()
        tell = room.set
        if not self._ration.enter(size, tell):
            try:
                await room.wait()
            except asyncio.CancelledError:
                if room.is_set():
                    self._ration.give_back(size)
                else:
                    self._ration.leave(tell)
                raise
        self._messages.append([len(changes), size])

    async def granted(self, wanted: int) -> int:
        """Waits until some of ``wanted`` changes may be begun, and returns how many: at least one."""
        bucket = self._ration.bucket
        if bucket is None:
            return wanted
        count, seconds = bucket.reserve(wanted, self._loop.time())
        if seconds:
            try:
                await asyncio.sleep(seconds)
            except asyncio.CancelledError:
                bucket.unused(count)
                raise
            bucket.used(count)
        return count

    def unused(self, count: int) -> None:
        """Gives back the tokens of changes that were granted and not begun."""
        if self._ration.bucket is not None:
            self._ration.bucket.dequeue(count)

    def answered(self, count: int) -> None:
        """Notes that so many results were written: the bytes of answered messages are given back."""
        while count and self._messages:
            first = self._messages[0]
            done = min(count, first[0])
            first[0] -= done
            count -= done
            if not first[0]:
                self._messages.popleft()
                self._ration.give_back(first[1])

    def close(self) -> None:
        """Gives back the bytes of all messages, because the stream has ended."""
        while self._messages:
            self._ration.give_back(self._messages.popleft()[1])
