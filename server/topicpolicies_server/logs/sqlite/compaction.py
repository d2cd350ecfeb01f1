"""Forgetting what is superseded, in the background, in steps that are over soon.

What is left of a key is always the end of its story without a gap: its newest event from before the retention window, and every event
since. So a reader that starts on the remains gets the same document as one that had followed from the beginning. That is why rows are
deleted oldest first.
"""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from . import file
from .writer import Writer

R = TypeVar("R")

PAGE = 2_000
"""Events that are looked at in one step."""
DELETED = 256
"""Events that are deleted in one transaction."""
GIVEN_BACK = 64
"""Unused pages that are given back in one transaction."""
KEPT_PAGES = 256
"""Unused pages that the file keeps, because it will soon need them again."""


@dataclass(frozen=True, slots=True)
class Compaction:
    """When events are forgotten."""

    retention_ms: int = 600_000
    """Whatever is younger than this is kept, superseded or not, so that interrupted watches find what they missed."""
    deletions_ms: int = 86_400_000
    """Tombstones are kept for this long, so that a key's versions go on growing when it comes back."""
    interval_seconds: float = 60.0
    """How often it is considered."""
    minimum: int = 1_000
    """A namespace is left alone while fewer of its events than this can be superseded, or fewer than it has keys."""
    pause_seconds: float = 0.005
    """Rest between two steps."""


class Pass:
    """One compaction of one namespace."""

    def __init__(self, path: Path, writer: Writer, readers: Executor, settings: Compaction) -> None:
        """``readers`` has one thread."""
        self._path = path
        self._writer = writer
        self._readers = readers
        self._settings = settings

    async def run(self, namespace_id: int, last: int, now: int, raised: Callable[[int], None] = lambda _: None) -> tuple[int, int]:
        """Forgets what is superseded at the time ``now`` among the rows up to ``last``; ``raised`` hears up to which row, beforehand.

        Returns:
            How many events were deleted, and how many were kept that are older than the retention window.

        Raises:
            sqlite3.Error: the file can't be read or written.
        """
        doomed: array[int] = array("q")
        kept = 0
        settings = self._settings
        connection = await self._read(file.connect, self._path)
        try:
            first, end = file.place_of(namespace_id, 1), file.place_of(namespace_id, last)
            cut = await self._read(file.newest_before, connection, first, end, now - settings.retention_ms)
            if cut is None:
                return 0, 0
            seen: set[str] = set()
            at = cut
            while page := await self._read(file.keys_downwards, connection, first, at, PAGE):
                doom(page, seen, doomed, now - settings.deletions_ms)
                kept += len(page)
                at = page[-1][0] - 1
                await asyncio.sleep(settings.pause_seconds)
        finally:
            self._readers.submit(connection.close)  # behind a read that may be under way
        doomed.reverse()
        if doomed:
            raised(file.row_at(cut))
            await self._writer.run(partial(file.raise_floor, namespace_id=namespace_id, row=file.row_at(cut)))
        for chunk in _chunks(doomed, DELETED):
            await self._writer.run(partial(file.delete, places=chunk))
            await asyncio.sleep(settings.pause_seconds)
        await self._shrink()
        return len(doomed), kept - len(doomed)

    async def _shrink(self) -> None:
        while await self._writer.run(file.unused_pages) > KEPT_PAGES:
            await self._writer.run(partial(file.give_back, count=GIVEN_BACK))
            await asyncio.sleep(self._settings.pause_seconds)

    async def _read(self, what: Callable[..., R], *arguments: object) -> R:
        return await asyncio.get_running_loop().run_in_executor(self._readers, what, *arguments)


def doom(page: list[file.KeyRow], seen: set[str], doomed: array[int], deletions_before: int) -> None:
    """Chooses what is deleted of a page, newest first: all but the newest of each key, and that too if it is a tombstone and old enough.

    Args:
        page: the events.
        seen: the keys of newer events; those of the page are added.
        doomed: places; those of the page are added.
        deletions_before: tombstones published before this (ms) are deleted.
    """
    for place, published_at, key, tombstone in page:
        if key in seen or (tombstone and published_at < deletions_before):
            doomed.append(place)
        seen.add(key)


def _chunks(places: array[int], size: int) -> Iterator[list[int]]:
    for start in range(0, len(places), size):
        yield places[start : start + size].tolist()
