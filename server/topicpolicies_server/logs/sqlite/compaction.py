"""The log does not grow for ever: superseded events are deleted in the background, in short steps, the oldest first.

So what is left of a key is always the end of its history without a gap, and a reader that starts on a compacted log gets the same document
as one that followed it from its beginning. Each event is compared with its checksum before any is deleted: a damaged key column could make
the only event of another key look superseded.
"""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from array import array
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

from ...sqlite_file import give_back, unused_pages
from . import file
from .writer import FileWriter, NamespaceRecord

R = TypeVar("R")

PAGE = 500
"""Events that are read in one step."""
DELETED = 256
"""Events that are deleted in one transaction."""
GIVEN_BACK = 64
"""Unused pages that are cut off the file in one transaction."""
KEPT_PAGES = 256
"""Unused pages that stay in the file, because new events will soon need them."""


class KeyRow(NamedTuple):
    """The columns of an event that decide whether it is superseded."""

    place: int
    published_at: int
    key: str
    tombstone: bool


@dataclass(frozen=True, slots=True)
class Compaction:
    """When events are deleted. The first two fields are options of a server; an operator has no use for the others."""

    retention_ms: int = 600_000
    """Events younger than this are kept, superseded or not, so that interrupted watches find what they missed (milliseconds)."""
    retained_bytes: int = 256 << 20
    """The most bytes of events of a namespace that are kept because they are young, roughly."""
    retained: int = 50_000
    """The most such events of a namespace: loading the namespace reads all of them."""
    deletions_ms: int = 86_400_000
    """Tombstones are kept for this long (milliseconds), so that a key's versions go on growing when the key comes back."""
    interval_seconds: float = 15.0
    """How often compaction is considered."""
    minimum: int = 1_000
    """A namespace is not compacted while fewer of its events than this, or fewer than it has keys, can be superseded."""
    pause_seconds: float = 0.005
    """The pause between two steps."""


def is_due(namespace: NamespaceRecord, settings: Compaction) -> bool:
    """Whether so much may be superseded that a namespace is compacted."""
    superseded = namespace.committed - namespace.considered
    return namespace.bytes_since >= settings.retained_bytes or superseded >= max(settings.minimum, namespace.kept)


class Done(NamedTuple):
    """The result of a compaction."""

    deleted: int
    """How many events were deleted."""
    kept: int
    """How many events were kept, of those that it considered."""
    considered: int
    """The last row that it considered."""


async def delete_superseded(
    path: Path, writer: FileWriter, readers: Executor, settings: Compaction, namespace_id: int, *, last: int, now: int
) -> Done:
    """Deletes the events of a namespace among the rows up to ``last`` that are superseded at the time ``now``.

    ``readers`` has one thread: reads run on it one after the other. ``now``: milliseconds since 1970.

    Raises:
        sqlite3.Error: the file can't be read or written, or is damaged.
    """

    async def read(what: Callable[..., R], *arguments: object) -> R:
        return await asyncio.get_running_loop().run_in_executor(readers, what, *arguments)

    connection = await read(file.connect, path)
    try:
        cut = await read(newest_old, connection, namespace_id, last, now, settings)
        if cut is None:
            return Done(0, 0, 0)
        seen: set[str] = set()
        deletable: array[int] = array("q")
        at, considered = cut, 0
        while page := await read(_checked, connection, file.place_of(namespace_id, 1), at):
            considered += len(page)
            choose_deletable(page, seen, deletable, now - settings.deletions_ms)
            at = page[-1].place - 1
            await asyncio.sleep(settings.pause_seconds)
    finally:
        readers.submit(connection.close)  # queued behind a read that may still be running on that thread
    deletable.reverse()
    if deletable:
        await writer.run(partial(file.note_compacted, namespace_id=namespace_id, row=file.row_at(cut)))
    for start in range(0, len(deletable), DELETED):
        places = deletable[start : start + DELETED].tolist()
        await writer.run(partial(file.delete_events, namespace_id=namespace_id, places=places))
        await asyncio.sleep(settings.pause_seconds)
    unused, before = await writer.run(unused_pages), sys.maxsize
    while KEPT_PAGES < unused < before:  # it does not fall if a tool has made the file anew without SQLite's ``auto_vacuum``
        await writer.run(partial(give_back, pages_at_most=GIVEN_BACK))
        await asyncio.sleep(settings.pause_seconds)
        unused, before = await writer.run(unused_pages), unused
    return Done(len(deletable), considered - len(deletable), file.row_at(cut))


def newest_old(connection: sqlite3.Connection, namespace_id: int, last: int, now: int, settings: Compaction) -> int | None:
    """The newest place up to row ``last`` whose event may be deleted if it is superseded; None if there is none.

    It is the newest event that is older than the retention, or beyond the number or the bytes of young events that are kept.
    """
    first, end = file.place_of(namespace_id, 1), file.place_of(namespace_id, last)
    by_age = connection.execute(
        "SELECT place FROM events WHERE place BETWEEN ? AND ? AND published_at < ? ORDER BY place DESC LIMIT 1",
        (first, end, now - settings.retention_ms),
    ).fetchone()
    cut = max(by_age[0] if by_age is not None else 0, end - settings.retained)
    (by_bytes,) = connection.execute(
        """SELECT max(place) FROM (
            SELECT place, sum(length(key) + length(properties) + ifnull(length(payload), 0)) OVER (ORDER BY place DESC) AS bytes
            FROM events WHERE place BETWEEN ? AND ?) WHERE bytes > ?""",
        (max(cut + 1, first), end, settings.retained_bytes),
    ).fetchone()
    cut = max(cut, by_bytes or 0)
    return cut if cut >= first else None


def _checked(connection: sqlite3.Connection, first: int, last: int) -> list[KeyRow]:
    page = connection.execute(
        f"SELECT {file.EVENT} FROM events WHERE place BETWEEN ? AND ? ORDER BY place DESC LIMIT ?",  # noqa: S608 (ours)
        (first, last, PAGE),
    ).fetchall()
    for row in page:
        file.check_event(row)
    return [KeyRow(place, published_at, key, payload is None) for place, published_at, _, _, key, _, payload in page]


def choose_deletable(page: Sequence[KeyRow], seen: set[str], deletable: array[int], deletions_before: int) -> None:
    """Chooses the events of a page that are deleted: all but the newest of each key, and the newest too if it is an old tombstone.

    The page's events are newest first. ``seen``: the keys of all newer events, to which those of the page are added; ``deletable``: the
    places that will be deleted, likewise. Tombstones published before ``deletions_before`` (ms since 1970) are old.
    """
    for place, published_at, key, tombstone in page:
        if key in seen or (tombstone and published_at < deletions_before):
            deletable.append(place)
        seen.add(key)
