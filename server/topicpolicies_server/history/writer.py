"""Writes the history: a task takes what was noted in batches, about one a second, and a thread writes them. No update waits for it.

What waits is bounded: beyond the bound, events are refused, and the recorder that noted them records where the history has a gap. While the
file can't be written, a small batch is tried again and again; meanwhile little else grows: of each namespace only the last time until which
its log was followed is kept, and each caller that waits is answered after an attempt.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple, TypeAlias

from ..sqlite_file import ERRORS, Damaged, close, flush_wal, transaction, unusable
from ..tasks import DaemonThreads, RestartedTask
from . import file
from .entries import Followed, Gap, GapReason, Noted, SetBack, entry_of

_log = logging.getLogger(__name__)

BACKLOG_BYTES = 128 << 20
"""The most that may wait to be written, by estimate: some 200,000 events."""
BATCH = 2_048
"""The most items of one commit."""
BATCH_BYTES = 1 << 20
"""The most bytes of one commit, by estimate: the file and its write-ahead log exceed their bound by what one commit writes."""
TRIED = 64
"""The most items of one commit while the file can't be written: an attempt that fails should cost little."""
PAUSE_SECONDS = 1.0
"""How long the writer lets events gather, unless there are enough for a commit before: in a small batch each event costs twice as much.
Requests for the history do not wait for this."""
_RETRY_SECONDS = 1.0
_TRIM_SECONDS = 10.0
_TRIMMED, _TRIMMED_AFTER_COMMIT = 1_000, 2 * BATCH
"""The most entries that are dropped at a time; after a commit, more than it added."""
_FILE_ERRORS = (sqlite3.OperationalError, sqlite3.InternalError, Damaged, UnicodeDecodeError)

Unwritten: TypeAlias = Mapping[str, int]
"""By namespace: the time (ms) of the earliest event that could not be written."""
Item: TypeAlias = Noted | Gap | Followed | SetBack
"""An item that is to be written."""


class Bounds(NamedTuple):
    """What the history keeps: entries that are at most so old, and so many bytes."""

    age_seconds: float
    bytes: int


class WriterFigures(NamedTuple):
    """The figures of a history, for metrics and status."""

    waiting: int
    """Items that wait to be written."""
    waiting_bytes: int
    """The size of the waiting events in bytes, by estimate."""
    waiting_seconds: float
    """For how many seconds the first of them has waited."""
    failing: bool
    """Whether the file can't be written now."""
    gaps: Mapping[str, int]
    """How many gaps were recorded since the start, by reason."""


class HistoryWriter:
    """Owns the connection that writes, and the thread that uses it. Its methods are called on the event loop's thread."""

    def __init__(self, path: Path, bounds: Bounds, *, backlog_bytes: int = BACKLOG_BYTES, pause_seconds: float = PAUSE_SECONDS) -> None:
        """Opens the file and starts writing.

        Raises:
            FileError: the file can't be used.
        """
        self._path = path
        self._bounds = bounds
        self._backlog_bytes = backlog_bytes
        self._pause = pause_seconds
        self._connection = file.prepare(path)
        try:
            self.extents = file.extents(self._connection)
            """By namespace: how far the history goes. The recorders keep it up to date."""
        except ERRORS as error:
            self._connection.close()
            raise unusable(path, error) from error
        self._waiting: list[Item] = []
        self._waiting_since = 0.0
        self._bytes = 0
        self._followed: dict[str, Followed] = {}
        """Is written behind all that waits: a log counts as followed once its events are written."""
        self._asking: list[asyncio.Future[Unwritten]] = []
        self._urgent = asyncio.Event()
        """Set when what waits is to be written at once."""
        # Used by the thread:
        self._failing = False
        self._trim_at = 0.0
        self._problem = ""
        self._gaps: Counter[str] = Counter()
        self._thread = DaemonThreads(1, "history-writer")
        self._task = RestartedTask(f"writing the history {path}", self._run, pause_seconds=_RETRY_SECONDS)
        self._task.start()

    def note(self, noted: Sequence[Noted]) -> int:
        """Takes events, in order. Returns how many of the first were taken; the others are not recorded, because too much waits."""
        taken, room = 0, self._backlog_bytes - self._bytes
        while taken < len(noted) and noted[taken].weight <= room:
            room -= noted[taken].weight
            taken += 1
        self._bytes = self._backlog_bytes - room
        self._put(noted[:taken])
        return taken

    def tell(self, what: Gap | Followed | SetBack) -> None:
        """Takes a rare item, however much waits."""
        if isinstance(what, Followed):
            self._followed[what.namespace] = what
            return
        if isinstance(what, SetBack) and (followed := self._followed.pop(what.stream.namespace, None)) is not None:
            self._put([followed])  # it was noted before the clock went back
        self._put([what])

    def _put(self, items: Sequence[Item]) -> None:
        if items and not self._waiting:
            self._waiting_since = time.monotonic()
        self._waiting += items
        if len(self._waiting) >= BATCH and not self._failing:
            self._urgent.set()

    def figures(self) -> WriterFigures:
        """Returns the figures for metrics and status; any thread may call this."""
        waiting = len(self._waiting)
        seconds = time.monotonic() - self._waiting_since if waiting else 0.0
        return WriterFigures(waiting, self._bytes, seconds, self._failing, dict(self._gaps))

    async def flush(self) -> Unwritten:
        """Waits until all that was noted before is in the file, or an attempt to write has failed. Returns what was not written."""
        if not (self._waiting or self._followed):
            return {}
        done: asyncio.Future[Unwritten] = asyncio.get_running_loop().create_future()
        self._asking.append(done)
        self._urgent.set()
        return await done

    async def stop(self, seconds: float) -> None:
        """Writes what waits, for at most ``seconds``, then closes the file."""
        written = False
        try:
            async with asyncio.timeout(seconds):
                written = not await self.flush()
                await self._task.stop()
                await asyncio.get_running_loop().run_in_executor(self._thread, self._close)
        except TimeoutError:
            self._task.cancel()
            self._thread.submit(self._close)
        self._thread.shutdown(wait=False)
        if not written:
            _log.warning("the history %s could not be written completely in %s s", self._path, seconds)

    async def _run(self) -> None:
        more = False
        while True:
            if not more:
                with suppress(TimeoutError):
                    async with asyncio.timeout(_RETRY_SECONDS if self._failing else self._pause):
                        await self._urgent.wait()
            self._urgent.clear()
            if more or self._waiting or self._followed or self._asking or time.monotonic() >= self._trim_at:
                more = await self._write_all()

    async def _write_all(self) -> bool:
        """Writes what waits now, and answers the callers that wait now; stops where the file can't be written.

        Returns whether more is to be trimmed.
        """
        began, asking, left = time.monotonic(), self._asking, len(self._waiting)
        self._asking = []
        try:
            while True:
                items = self._waiting[: min(left, TRIED if self._failing else BATCH)]
                followed = list(self._followed.values()) if len(items) == left else []
                count, size, more = await asyncio.get_running_loop().run_in_executor(self._thread, self._work, [*items, *followed])
                for each in followed[: max(count - len(items), 0)]:
                    if self._followed.get(each.namespace) is each:
                        del self._followed[each.namespace]
                count = min(count, len(items))
                del self._waiting[:count]
                self._bytes -= size
                left -= count
                if self._failing or not left:
                    break
            if not left:
                self._waiting_since = began
        finally:
            unwritten: dict[str, int] = {}
            for item in self._waiting[:left]:
                if isinstance(item, Noted):
                    name = item.stream.namespace
                    unwritten[name] = min(item.at, unwritten.get(name, item.at))
            for done in asking:
                if not done.done():
                    done.set_result(unwritten)
        return more

    # --- on the thread ------------------------------------------------------------------------------------------

    def _work(self, items: Sequence[Item]) -> tuple[int, int, bool]:
        """Commits a batch of the first items, then trims. Returns how many are done, their weight, and whether more is to be trimmed."""
        weights = list(accumulate(item.weight if isinstance(item, Noted) else 0 for item in items))
        count = self._write(items[: bisect_left(weights, BATCH_BYTES) + 1])
        return count, weights[count - 1] if count else 0, self._trim(_TRIMMED_AFTER_COMMIT if items else _TRIMMED)

    def _write(self, batch: Sequence[Item]) -> int:
        """Commits a batch. Returns how many of its items are done: all, or only some of the first if the file can't be written now.

        If an event can never be written, the items of the batch are committed one by one, which finds the event; it is left out, and a gap
        is recorded in its place.
        """
        if not batch:
            return 0
        try:
            with transaction(self._connection):
                self._commit(batch)
        except Exception as error:  # noqa: BLE001 - whatever an event has in it, the others are to be written
            if isinstance(error, _FILE_ERRORS) or type(error) is sqlite3.DatabaseError:  # it may pass, as a full disk does
                if not self._failing:
                    _log.error("the history %s can't be written, and is tried again: %s", self._path, error)
                self._failing = True
                return 0
            if len(batch) > 1:
                return next((count for count, item in enumerate(batch) if not self._write([item])), len(batch))
            _log.error("an event can't be written to the history %s: %s", self._path, error)
            (item,) = batch
            if not isinstance(item, Noted):
                return 1
            return self._write([Gap(item.stream.namespace, item.at, item.at, GapReason.OVERRUN, ((item.stream, item.placed.position),))])
        if self._failing:
            _log.warning("the history %s can be written again", self._path)
        self._failing = False
        self._gaps.update(item.reason.name for item in batch if isinstance(item, Gap))
        return len(batch)

    def _commit(self, batch: Sequence[Item]) -> None:
        noted: list[Noted] = []
        for item in batch:
            if isinstance(item, Noted):
                noted.append(item)
                continue
            self._add(noted)
            noted = []
            if isinstance(item, Gap):
                file.add_gap(self._connection, item)
            elif isinstance(item, SetBack):
                file.set_back(self._connection, item.stream, item.now)
            else:
                file.note_followed(self._connection, item.namespace, item.until)
        self._add(noted)

    def _add(self, noted: Sequence[Noted]) -> None:
        """Adds events sorted by topic, which halves the cost of the indexes by topic. Their ids have the order of arrival."""
        wires: dict[int, bytes] = {}
        last = {each.stream: each for each in noted}
        ids = {stream: file.ids_of(self._connection, stream) for stream in last}
        numbered = sorted(enumerate(noted, file.last_id(self._connection) + 1), key=_topic_of)
        for start in range(0, len(numbered), file.ROWS):
            some = numbered[start : start + file.ROWS]
            file.insert(self._connection, "entries", [entry_of(each, number, *ids[each.stream], wires) for number, each in some])
        for stream, each in last.items():
            file.note_stream(self._connection, stream, each.placed.position, each.at)

    def _trim(self, most: int) -> bool:
        """Drops up to ``most`` entries, or as many of each namespace, that are beyond the bounds. Returns whether there may be more."""
        now, problem, more = time.monotonic(), "", False
        try:
            if file.used_bytes(self._connection) > self._bounds.bytes:
                with transaction(self._connection):
                    more = file.trim_to_size(self._connection, self._bounds.bytes, most) >= most
            if now >= self._trim_at:
                with transaction(self._connection):
                    before = time.time_ns() // 1_000_000 - int(self._bounds.age_seconds * 1000)
                    aged = file.trim_by_age(self._connection, before, most) > 0
                more = more or aged
                self._trim_at = now if aged else now + _TRIM_SECONDS
            file.shrink(self._connection, self._path, self._bounds.bytes)
        except (sqlite3.Error, OSError) as error:
            problem = str(error)
            self._trim_at = now + _TRIM_SECONDS
            if problem != self._problem:
                _log.warning("the history %s could not be trimmed: %s", self._path, error)
        self._problem = problem
        return more and not problem

    def _close(self) -> None:
        with suppress(sqlite3.Error):  # the next opening moves what is left in the write-ahead log
            flush_wal(self._connection, truncate=True)
        close(self._connection, file.FORM, self._path)


def _topic_of(numbered: tuple[int, Noted]) -> str:
    event = numbered[1].placed.event
    return "" if event is None else event.key.topic
