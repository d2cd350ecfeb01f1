"""The thread that writes the history. It takes what was noted in batches, about one a second, and no update waits for it.

What waits for the thread is bounded: beyond the bound, events are refused, and the recorder that noted them records where the history has a
gap. While the file can't be written, a small batch is tried again and again, until the writer is stopped; meanwhile little else grows: of
each namespace only the last time until which its log was followed is kept, and each caller that waits is answered after an attempt.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

from ..sqlite_file import ERRORS, Damaged, close, transaction, unusable
from . import file
from .entries import Followed, Gap, GapReason, Noted, SetBack, Stream, entry_of

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
_TRIMMED = 1_000
"""How many entries are dropped in one transaction."""
_FILE_ERRORS = (sqlite3.OperationalError, sqlite3.InternalError, Damaged, UnicodeDecodeError)

Unwritten: TypeAlias = Mapping[str, int]
"""By namespace: the time (ms) of the earliest event that could not be written."""
Item: TypeAlias = Noted | Gap | Followed | SetBack
"""An item that is to be written."""


class Bounds(NamedTuple):
    """What the history keeps: entries that are at most so old, and so many bytes."""

    age_seconds: float
    bytes: int


class Figures(NamedTuple):
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


class Writer:
    """Owns the connection that writes, and the thread that uses it. Its methods are called on the event loop's thread."""

    def __init__(self, path: Path, bounds: Bounds, *, backlog_bytes: int = BACKLOG_BYTES, pause_seconds: float = PAUSE_SECONDS) -> None:
        """Opens the file and starts the thread.

        Raises:
            FileError: the file can't be used.
        """
        self._path = path
        self._bounds = bounds
        self._backlog_bytes = backlog_bytes
        self._pause = pause_seconds
        self._loop = asyncio.get_running_loop()
        self._connection = file.prepare(path)
        try:
            self.progress = file.progress(self._connection)
            """By namespace: how far the history goes. The recorders keep it up to date."""
        except ERRORS as error:
            self._connection.close()
            raise unusable(path, error) from error
        self._changed = threading.Condition()
        """Guards the following, and is notified when the thread is to look at it."""
        self._new: list[Item] = []
        """What was noted, and the thread has not taken yet."""
        self._new_since = 0.0
        """When the first of them was noted."""
        self._followed: dict[str, Followed] = {}
        self._asking: list[asyncio.Future[Unwritten]] = []
        """The callers that wait until all that was noted before is written."""
        self._bytes = 0
        """The weight of all events that wait."""
        self._stopping = False
        # Used by the thread only:
        self._left: list[Item] = []
        """What the thread has taken, and has not written yet."""
        self._left_since = 0.0
        self._ids: dict[str | Stream, int] = {}
        """The ids of namespaces and streams in the file."""
        self._failing = False
        self._used_before = 0
        """How many bytes of the file were used before the last commit."""
        self._trim_at = 0.0
        """When to look for entries that are too old."""
        self._problem = ""
        """Why trimming failed the last time; "": it did not."""
        self._gaps: Counter[str] = Counter()
        """How many gaps ``tell`` took, by reason. The event loop counts them."""
        self._left_out = 0
        """How many events could never be written, each of which is a gap too. The thread counts them."""
        self._thread = threading.Thread(target=self._run, name="history-writer", daemon=True)
        self._thread.start()

    def note(self, noted: Sequence[Noted]) -> int:
        """Takes events, in order. Returns how many of the first were taken; the others are not recorded, because too much waits."""
        with self._changed:
            taken, room = 0, self._backlog_bytes - self._bytes
            while taken < len(noted) and noted[taken].weight <= room:
                room -= noted[taken].weight
                taken += 1
            self._bytes = self._backlog_bytes - room
            self._put(noted[:taken])
        return taken

    def tell(self, what: Gap | Followed | SetBack) -> None:
        """Takes a rare item, however much waits."""
        with self._changed:
            if isinstance(what, Followed):
                self._followed[what.namespace] = what
                self._changed.notify()
                return
            if isinstance(what, Gap):
                self._gaps[what.reason.name] += 1
            elif (followed := self._followed.pop(what.stream.namespace, None)) is not None:
                self._put([followed])  # it was noted before the clock went back
            self._put([what])

    def _put(self, items: Sequence[Item]) -> None:
        """Adds items. Notifies the thread of the first one and of a full batch only: to wake it costs as much as many items."""
        before = len(self._new)
        self._new += items
        if items and not before:
            self._new_since = time.monotonic()
        if not before or before < BATCH <= len(self._new):
            self._changed.notify()

    def figures(self) -> Figures:
        """Returns the figures for metrics and status; any thread may call this."""
        with self._changed:
            gaps = self._gaps + Counter({GapReason.OVERRUN.name: self._left_out})
            now = time.monotonic()
            since = self._left_since if self._left else self._new_since if self._new else now
            return Figures(len(self._left) + len(self._new), self._bytes, now - since, self._failing, gaps)

    async def flush(self) -> Unwritten:
        """Waits until all that was noted before is in the file, or an attempt to write has failed. Returns what was not written."""
        done: asyncio.Future[Unwritten] = self._loop.create_future()
        with self._changed:
            self._asking.append(done)
            self._changed.notify()
        return await done

    async def stop(self, seconds: float) -> None:
        """Writes what waits, for at most ``seconds``, then ends the thread."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        await asyncio.to_thread(self._thread.join, seconds)
        if self._thread.is_alive():
            _log.warning("the history %s could not be written completely in %s s", self._path, seconds)

    # --- on the thread ------------------------------------------------------------------------------------------

    def _run(self) -> None:
        going_on = True
        while going_on:
            try:
                going_on = self._turn()
            except Exception:  # noqa: BLE001 - whatever it is, what was noted is not given up
                _log.exception("writing the history %s failed, and starts again", self._path)
                with self._changed:
                    going_on = not self._changed.wait_for(lambda: self._stopping, _RETRY_SECONDS)
        try:
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except sqlite3.Error as error:
            _log.warning("the write-ahead log of the history %s could not be moved into its file: %s", self._path, error)
        close(self._connection, file.FORM, self._path)

    def _turn(self) -> bool:
        """Waits until there is something to do, and does it. Returns whether there is to be another turn."""
        with self._changed:
            if self._failing:
                self._changed.wait_for(self._is_urgent, _RETRY_SECONDS)
            else:
                idle_seconds = max(self._trim_at - time.monotonic(), 0)
                self._changed.wait_for(lambda: self._new or self._followed or self._is_urgent(), idle_seconds)
                self._changed.wait_for(self._is_urgent, self._pause)
            stopping = self._stopping
        self._write_all()
        if not stopping:
            self._trim()
        return not stopping

    def _is_urgent(self) -> bool:
        return self._stopping or bool(self._asking) or (len(self._new) >= BATCH and not self._failing)

    def _write_all(self) -> None:
        """Writes what waits now, and answers the callers that wait now. Stops where the file can't be written."""
        with self._changed:
            asking = self._asking.copy()
            if not self._left:
                self._left_since = self._new_since if self._new else time.monotonic()
            self._left += [*self._new, *self._followed.values()]  # a log counts as followed once its events are written
            self._new, self._followed = [], {}
        written = True
        while self._left and written:
            batch = self._batch()
            count = self._write(batch)
            written = count == len(batch)
            with self._changed:
                del self._left[:count]
                self._bytes -= sum(item.weight for item in batch[:count] if isinstance(item, Noted))
            if count:
                self._trim(self._used_before)  # the file never grows beyond its bound
        unwritten: dict[str, int] = {}
        for item in self._left:
            if isinstance(item, Noted):
                name = item.stream.namespace
                unwritten[name] = min(item.at, unwritten.get(name, item.at))
        with self._changed:
            del self._asking[: len(asking)]
        if asking:
            self._answer(asking, unwritten)

    def _batch(self) -> Sequence[Item]:
        count = size = 0
        most = min(len(self._left), TRIED if self._failing else BATCH)
        while count < most and size < BATCH_BYTES:
            item = self._left[count]
            size += item.weight if isinstance(item, Noted) else 0
            count += 1
        return self._left[:count]

    def _write(self, batch: Sequence[Item]) -> int:
        """Commits a batch. Returns how many of its items are done: all, or only some of the first if the file can't be written now.

        If an event can never be written, the items of the batch are committed one by one, which finds the event; it is left out, and a gap
        is recorded in its place.
        """
        try:
            self._used_before = file.used_bytes(self._connection)
            with transaction(self._connection):
                self._commit(batch)
        except Exception as error:  # noqa: BLE001 - whatever an event has in it, the others are to be written
            self._ids.clear()  # what was added in this transaction is not in the file
            if isinstance(error, _FILE_ERRORS) or type(error) is sqlite3.DatabaseError:  # it may pass, as a full disk does
                if not self._failing:
                    _log.error("the history %s can't be written, and is tried again: %s", self._path, error)
                self._failing = True
                return 0
            if len(batch) > 1:
                return next((count for count, item in enumerate(batch) if not self._write([item])), len(batch))
            _log.error("an event can't be written to the history %s: %s", self._path, error)
            (item,) = batch
            if isinstance(item, Noted):
                hole = (item.stream, item.placed.position)
                if not self._write([Gap(item.stream.namespace, item.at, item.at, GapReason.OVERRUN, (hole,))]):
                    return 0
                self._left_out += 1
            return 1
        if self._failing:
            _log.warning("the history %s can be written again", self._path)
        self._failing = False
        return len(batch)

    def _commit(self, batch: Sequence[Item]) -> None:
        noted: list[Noted] = []
        for item in batch:
            if isinstance(item, Noted):
                self._stream(item.stream)  # ids of streams have the order in which their events came
                noted.append(item)
            elif isinstance(item, Gap):
                file.add_gap(self._connection, self._namespace(item.namespace), item)
            elif isinstance(item, SetBack):
                self._add(noted)
                noted = []
                file.set_back(self._connection, self._namespace(item.stream.namespace), self._stream(item.stream), item.now)
            else:
                file.note_followed(self._connection, self._namespace(item.namespace), item.until)
        self._add(noted)

    def _add(self, noted: Sequence[Noted]) -> None:
        """Adds events sorted by topic, which halves the cost of the indexes by topic. Their ids have the order of arrival."""
        wires: dict[int, bytes] = {}
        numbered = sorted(enumerate(noted, file.last_id(self._connection) + 1), key=_topic_of)
        for start in range(0, len(numbered), file.ROWS):
            made = [
                entry_of(each, number, self._stream(each.stream), self._namespace(each.stream.namespace), wires)
                for number, each in numbered[start : start + file.ROWS]
            ]
            file.insert(self._connection, "entries", made)
        for stream, last in {each.stream: each for each in noted}.items():
            file.note_stream(self._connection, self._stream(stream), last.placed.position, last.at)

    def _namespace(self, name: str) -> int:
        found = self._ids.get(name)
        if found is None:
            found = self._ids[name] = file.namespace_id(self._connection, name)
        return found

    def _stream(self, stream: Stream) -> int:
        found = self._ids.get(stream)
        if found is None:
            found = self._ids[stream] = file.stream_id(self._connection, self._namespace(stream.namespace), stream)
        return found

    def _trim(self, used_before: int | None = None) -> None:
        """Drops what is beyond the bounds, in transactions of some entries, until something is urgent.

        Args:
            used_before: how many bytes were used before a commit: no more are used after this, however urgent something is. None: there was
                no commit.
        """
        problem, interrupted, aged = "", False, time.monotonic() >= self._trim_at
        if aged:
            self._trim_at = time.monotonic() + _TRIM_SECONDS
        try:
            while True:
                file.shrink(self._connection, self._path, self._bounds.bytes)
                used = file.used_bytes(self._connection)
                too_many = used > self._bounds.bytes
                if not (aged or too_many):
                    break
                if used_before is None or used <= used_before:
                    with self._changed:
                        interrupted = self._is_urgent()
                    if interrupted:
                        break
                with transaction(self._connection):
                    before = time.time_ns() // 1_000_000 - int(self._bounds.age_seconds * 1000)
                    dropped = file.trim_by_age(self._connection, before, _TRIMMED) if aged else 0
                    aged = dropped > 0
                    if not aged and too_many:
                        dropped = file.trim_to_size(self._connection, self._bounds.bytes, _TRIMMED)
                if not dropped:
                    break
        except (sqlite3.Error, OSError) as error:
            problem = str(error)
            if problem != self._problem:
                _log.warning("the history %s could not be trimmed: %s", self._path, error)
        self._problem = problem
        if interrupted:
            self._trim_at = 0.0

    def _answer(self, asking: Sequence[asyncio.Future[Unwritten]], unwritten: Unwritten) -> None:
        def answer() -> None:
            for done in asking:
                if not done.done():
                    done.set_result(unwritten)

        try:
            self._loop.call_soon_threadsafe(answer)
        except RuntimeError:  # the event loop was closed, so no caller waits
            _log.debug("the history outlived its event loop")


def _topic_of(numbered: tuple[int, Noted]) -> str:
    event = numbered[1].placed.event
    return "" if event is None else event.key.topic
