"""Forgetting what is superseded, in the background, in steps that are over soon.

What is left of a key is always the end of its story without a gap: its newest event from before the retention window, and every event
since. So a reader that starts on the remains gets the same document as one that had followed from the beginning. That is why rows are
deleted oldest first.

Each event is compared with its checksum before it is forgotten, because a damaged key could make another one's only event look superseded.
"""

from __future__ import annotations

import asyncio
import sqlite3
from array import array
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

from ...sqlite_file import Damaged
from . import events, file, floors, slim
from .writer import Writer

R = TypeVar("R")

PAGE = 500
"""Events that are looked at in one step."""
COMPLETED = 32
"""Events that are completed in one transaction, before what they lean on is deleted (``slim``)."""
DELETED = 256
"""Events that are deleted in one transaction."""
GIVEN_BACK = 64
"""Unused pages that are given back in one transaction."""
KEPT_PAGES = 256
"""Unused pages that the file keeps, because it will soon need them again."""


class KeyRow(NamedTuple):
    """What compaction looks at of an event."""

    place: int
    published_at: int
    key: str
    tombstone: bool


@dataclass(frozen=True, slots=True)
class Compaction:
    """When events are forgotten. The first three are options of a server; the others serve no purpose of an operator's."""

    retention_ms: int = 600_000
    """Whatever is younger than this is kept, superseded or not, so that interrupted watches find what they missed."""
    retained: int = 50_000
    """Events of a namespace that are kept for that reason at most: all of them are read when it is loaded."""
    retained_bytes: int = 256 << 20
    """Bytes of such events of a namespace at most, roughly."""
    deletions_ms: int = 86_400_000
    """Tombstones are kept for this long, so that a key's versions go on growing when it comes back."""
    interval_seconds: float = 60.0
    """How often it is considered, and twelve times as often where twice ``retained`` events or ``retained_bytes`` came since."""
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
            How many events were deleted, and how many were kept that might have been.

        Raises:
            sqlite3.Error: the file can't be read or written, or is damaged.
        """
        settings = self._settings
        connection = await self._read(file.connect, self._path)
        try:
            known = await self._read(floors.namespace, connection, namespace_id)
            cut = await self._cut(connection, namespace_id, last, now)
            if cut is None:
                return 0, 0
            seen: set[str] = set()
            doomed: array[int] = array("q")
            leaning: array[int] = array("q")
            stands = _Count(known, max(known.kept.floor, events.row_at(cut)))
            at = events.place_of(namespace_id, stands.all.floor)
            while page := await self._read(_checked, connection, events.place_of(namespace_id, 1), at):
                stands.add(page)
                old = [KeyRow(row[0], row[1], row[4], row[6] is None) for row in page if row[0] <= cut]
                before = len(doomed)
                doom(old, seen, doomed, now - settings.deletions_ms)
                gone = set(doomed[before:])
                leaning.extend(row[0] for row in page if row[0] <= cut and row[0] not in gone and slim.is_slim(row[5]))
                at = page[-1][0] - 1
                await asyncio.sleep(settings.pause_seconds)
            stands.check()
            doomed.reverse()
            if doomed:
                row = events.row_at(cut)
                raised(row)
                await self._writer.run(partial(floors.raise_floor, namespace_id=namespace_id, compacted=row, kept=stands.all))
                await self._complete(connection, known, leaning)
        finally:
            self._readers.submit(connection.close)  # behind a read that may be under way
        for chunk in _chunks(doomed, DELETED):
            await self._writer.run(partial(floors.delete, namespace_id=namespace_id, places=chunk))
            await asyncio.sleep(settings.pause_seconds)
        await self._shrink()
        return len(doomed), stands.all.rows - len(doomed)

    async def _cut(self, connection: sqlite3.Connection, namespace_id: int, last: int, now: int) -> int | None:
        """The last place in which something may be superseded."""
        first, end = events.place_of(namespace_id, 1), events.place_of(namespace_id, last)
        old = await self._read(events.newest_before, connection, first, end, now - self._settings.retention_ms)
        lower = max(old or 0, events.place_of(namespace_id, max(last - self._settings.retained, 0)))
        cut = await self._too_much(connection, lower, end) or lower
        return cut if cut >= first else None

    async def _too_much(self, connection: sqlite3.Connection, lower: int, upper: int) -> int | None:
        """The place, of those behind ``lower``, from which on ``retained_bytes`` are exceeded; None: they are not."""
        room = self._settings.retained_bytes
        if await self._read(file.bytes_on_disk, self._path) <= room:
            return None
        while page := await self._read(events.sizes, connection, lower + 1, upper, PAGE):
            for place, size in page:
                room -= size
                if room < 0:
                    return place
            upper = page[-1][0] - 1
            await asyncio.sleep(self._settings.pause_seconds)
        return None

    async def _complete(self, connection: sqlite3.Connection, known: floors.NamespaceRow, leaning: array[int]) -> None:
        """Writes those that stay, and lean on what is deleted, as complete ones."""
        completing = slim.Completing(lambda row: events.at(connection, events.place_of(known.id, row)), known.name, known.compacted)
        for chunk in _chunks(leaning, COMPLETED):
            rows = await self._read(slim.replaced, connection, completing, chunk)
            await self._writer.run(partial(floors.complete, namespace_id=known.id, rows=rows))
            await asyncio.sleep(self._settings.pause_seconds)

    async def _shrink(self) -> None:
        while await self._writer.run(file.unused_pages) > KEPT_PAGES:
            await self._writer.run(partial(file.give_back, pages_at_most=GIVEN_BACK))
            await asyncio.sleep(self._settings.pause_seconds)

    async def _read(self, what: Callable[..., R], *arguments: object) -> R:
        return await asyncio.get_running_loop().run_in_executor(self._readers, what, *arguments)


class _Count:
    """What stands in the part of the log that is walked, newest first, and whether that is all that should."""

    def __init__(self, known: floors.NamespaceRow, cut: int) -> None:
        self._known = known
        self._below = floors.KeptRows(known.kept.floor, 0, 0)
        self.all = floors.KeptRows(cut, 0, 0)

    def add(self, page: Sequence[events.EventRow]) -> None:
        """The next events."""
        self.all = _more(self.all, page)
        self._below = _more(self._below, [row for row in page if events.row_at(row[0]) <= self._below.floor])

    def check(self) -> None:
        """At the end.

        Raises:
            Damaged: an event is missing.
        """
        known = self._known
        floors.check_kept(known.name, known.kept, self._below)
        young = self.all.rows - self._below.rows
        if young != max(self.all.floor - known.kept.floor, 0):
            raise Damaged(f"of {known.name} {young} events stand from row {known.kept.floor} to {self.all.floor}")


def _more(kept: floors.KeptRows, page: Sequence[events.EventRow]) -> floors.KeptRows:
    return floors.KeptRows(kept.floor, kept.rows + len(page), kept.sum + sum(row[3] for row in page))


def _checked(connection: sqlite3.Connection, first: int, last: int) -> list[events.EventRow]:
    page = events.downwards(connection, first, last, PAGE)
    for row in page:
        events.check(row)
    return page


def doom(page: Sequence[KeyRow], seen: set[str], doomed: array[int], deletions_before: int) -> None:
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
