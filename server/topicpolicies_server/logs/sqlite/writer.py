"""What is acknowledged is on the disk: one thread commits events, and says what became of each.

Events that are appended while one commit runs are committed together by the next (group commit). While many are in flight, a commit waits
a moment for more of them, as PostgreSQL's with ``commit_delay`` does: so each event costs less. A commit that fails has certainly not
taken place (the disk is full, say): then its events are refused, and the next group is tried. Or it may have, or the file is damaged: then
the writer ends, the logs are lost, and what the file holds when it is opened anew tells what became of the events.

The interpreter's lock is the scarce resource: a thread that releases it for a system call gets it back only when the loop's thread pauses.
Hence one statement per group, which is also its transaction; places are assigned here, and one callback reports the whole group.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from ...core.policies.events import Event, Placed
from ...sqlite_file import checksum, flush_wal, insert
from . import file
from .tail_guard import HighWaterMark

T = TypeVar("T")

GROUP_EVENTS = 256
"""Events that are committed together at most."""
GROUP_BYTES = 4 << 20
"""Bytes after which a group takes no further event."""
DELAY_SECONDS = 0.003
"""How long a commit waits for more events, if the one before it had at least ``SIBLINGS``."""
SIBLINGS = 5
"""See ``DELAY_SECONDS``: callers that wait for each answer before the next change, and a few of them, are not delayed."""
FLUSH_PAGES = 250
"""Estimated pages in the write-ahead log after which it is flushed if the queue is empty: some 2 ms without a commit."""
FLUSH_PAGES_AT_MOST = 2_000
"""Estimated pages in the write-ahead log after which it is flushed even if the queue is not empty."""
JOB_PAGES = 64
"""The estimate of the pages that a job writes."""
LOOK_SECONDS = 0.25
"""How often commits look whether the file is still where it was opened."""
QUIET_SECONDS = 5.0
"""How long no commit must have been refused before the server's log says that the file can be written again: a disk that is nearly full
takes one commit and refuses the next."""

_log = logging.getLogger(__name__)


class Appender(Protocol):
    """The log of a namespace, which appends. The methods are called on the event loop's thread, in the order of the log."""

    def committed(self, placed: Sequence[Placed]) -> None:
        """Called when the log's next events are durable, with their positions."""

    def refused(self, count: int, error: sqlite3.Error) -> None:
        """Called when the log's next ``count`` events certainly are not in the file."""


@dataclass(slots=True, eq=False)
class NamespaceRecord:
    """A namespace of the file, whether its log is open or not. The writer's thread assigns ``id`` and ``last``; the loop has the rest."""

    name: str
    id: int
    """The namespace's id in the file; 0 if the file has no row for the namespace yet."""
    last: int
    """The highest row number that was assigned."""
    committed: int
    """The highest row number that was reported as committed, or found in the file when it was opened."""
    considered: int
    """The highest row number that a compaction has considered since the file was opened; at first that at which the file's life began."""
    kept: int = 0
    """How many of the events that it considered the last compaction kept: about one for each key at that time."""
    bytes_since: int = 0
    """Bytes of the events that were appended since the last compaction, or since the file was opened."""
    damage: str = ""
    """The damage that was last logged; "" if the last load found none."""
    appended: bool = False
    """Whether an event was handed to the writer since the file was opened."""

    @property
    def begun(self) -> bool:
        """Whether an event was ever appended to the namespace."""
        return self.id != 0 and self.committed > 0


class NewRow(NamedTuple):
    """An event that waits to be committed, as a row."""

    log: Appender
    namespace: NamespaceRecord
    event: Event
    key: str
    properties: str
    """The message's properties as JSON."""
    payload: bytes | None
    size: int
    """The row's size in memory: bytes, roughly."""


class _Job(NamedTuple):
    """Work on the connection other than a commit of events, and the future of the caller that waits for its result."""

    work: Callable[[sqlite3.Connection], Any]
    future: Future[Any]


_REFUSED = frozenset(
    {
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_TOOBIG,
        sqlite3.SQLITE_CONSTRAINT,
        sqlite3.SQLITE_INTERRUPT,
    }
)
"""Primary result codes of transactions that failed before their last page, which carries the commit mark, was written. On a full disk the
write of a page failed; so it did with ``SQLITE_IOERR_WRITE`` (a file that may not grow, a quota, a bad block), which ``_refused`` adds."""

_LOCKED = "Another program has the server's file locked: end that program, and repeat the change."
_CLOSED = "Let the server write its file and the file's folder, and repeat the change: the server recovers by itself."
_DO = {
    sqlite3.SQLITE_READONLY_DBMOVED: "Put it back, or restart the server on what is there.",
    sqlite3.SQLITE_FULL: "Make room on the server's disk, and repeat the change: the server recovers by itself.",
    sqlite3.SQLITE_IOERR: "Check the server's disk (room, quota, limits, hardware), and repeat the change: the server recovers by itself.",
    sqlite3.SQLITE_BUSY: _LOCKED,
    sqlite3.SQLITE_LOCKED: _LOCKED,
    sqlite3.SQLITE_READONLY: _CLOSED,
    sqlite3.SQLITE_PERM: _CLOSED,
}


def explained(error: sqlite3.Error) -> str:
    """An error as the end of a sentence, followed by what the caller or operator can do about it, if that is known."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    do = _DO.get(code, _DO.get(code & 0xFF))
    return f"{error}. {do}" if do else f"{error}."


def _refused(error: sqlite3.Error) -> bool:
    """Whether the transaction that failed with ``error`` certainly is not in the file, nor ever will be."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    return code & 0xFF in _REFUSED or code == sqlite3.SQLITE_IOERR_WRITE


class FileWriter:
    """Owns the connection that writes, and the thread that uses it. Its methods are called on the event loop's thread."""

    def __init__(
        self, opened: file.Opened, now: Callable[[], int], broken: Callable[[BaseException, Mapping[Appender, int]], None]
    ) -> None:
        """Starts the thread.

        ``opened``: its connection and its mark are closed at the end. ``now``: milliseconds since 1970; called on the thread. ``broken``:
        called on the event loop's thread when the writer has ended because of an error: with the error, and how many of a log's next events
        may be in the file or not. Events appended after these certainly are not.
        """
        self._path = opened.path
        self._connection = opened.connection
        self._schema = opened.schema
        self._mark = opened.mark
        self._high_water = opened.high_water
        self._now = now
        self._broken = broken
        self._loop = asyncio.get_running_loop()
        self._queue: queue.SimpleQueue[NewRow | _Job | None] = queue.SimpleQueue()
        """None, the last item: the thread ends."""
        self._committing: list[NewRow] = []
        self._job: _Job | None = None
        self._last_group = 0
        """How many events the last commit had."""
        self._pages = 0
        self._refused_at: float | None = None
        """When a commit was refused last (monotonic seconds); None: the server's log says that the file can be written."""
        self._stands_at = _inode(self._path)
        self._looked_at = time.monotonic()
        self._ended: sqlite3.Error | None = None
        self._stopped: asyncio.Future[None] = self._loop.create_future()
        self.append: Callable[[NewRow], None] = self._queue.put
        """Queues an event for the next commit."""
        threading.Thread(target=self._run, name="sqlite-writer", daemon=True).start()

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Runs ``work`` on the connection, between two groups, and returns its result.

        Raises:
            sqlite3.Error: the work raised it, or the writer has ended.
        """
        if self._ended is not None:
            raise self._ended
        future: Future[T] = Future()
        self._queue.put(_Job(work, future))
        return await asyncio.wrap_future(future)

    async def stop(self, seconds: float) -> bool:
        """Commits what is queued, then ends the thread; returns whether it had ended, and closed the connection, within ``seconds``."""
        self._queue.put(None)
        return self._stopped in (await asyncio.wait([self._stopped], timeout=seconds))[0]

    def _run(self) -> None:
        failure: BaseException | None = None
        try:
            while not self._turn():
                pass
            self._flush_wal(truncate=True)
        except BaseException as error:  # noqa: BLE001 (whatever it is: nobody must wait for this thread for ever)
            _log.error("the change log's file can't be written any more: %s", error, exc_info=not isinstance(error, sqlite3.Error))
            failure = error
        try:
            self._connection.close()
        except sqlite3.Error as error:
            _log.warning("the change log's file was not closed properly: %s", error)
        self._mark.close()
        self._report(self._end, failure)

    def _end(self, failure: BaseException | None) -> None:
        """Runs on the event loop's thread after the writer's thread has done its last work."""
        if failure is not None:
            self._broken(failure, Counter(row.log for row in self._committing))
        self._ended = sqlite3.ProgrammingError("the change log's writer has ended")
        left: list[object] = [self._job]
        while not self._queue.empty():
            left.append(self._queue.get_nowait())
        for item in left:
            if isinstance(item, _Job) and not item.future.done():
                item.future.set_exception(self._ended)
        self._stopped.set_result(None)

    def _turn(self) -> bool:
        """Commits a group, runs a job, or both; returns whether the end of the queue was reached."""
        item = self._queue.get()
        if self._last_group >= SIBLINGS:
            time.sleep(DELAY_SECONDS)
        size = 0
        while isinstance(item, NewRow):
            self._committing.append(item)
            size += item.size
            if len(self._committing) == GROUP_EVENTS or size > GROUP_BYTES:
                break
            try:
                item = self._queue.get_nowait()
            except queue.Empty:
                break
        self._job = item if isinstance(item, _Job) else None
        self._last_group = len(self._committing)
        if self._committing:
            self._commit()
        if self._job is not None:
            self._do(self._job)
        if self._pages >= (FLUSH_PAGES if self._queue.empty() else FLUSH_PAGES_AT_MOST):
            self._flush_wal()
        return item is None

    def _commit(self) -> None:
        group = self._committing
        before = {row.namespace: row.namespace.last for row in group}
        published_at = self._now()
        places: list[int] = []
        try:
            if time.monotonic() >= self._looked_at + LOOK_SECONDS:
                self._check_place()
            insert(self._connection, "events", file.COLUMNS, self._values(group, published_at, places))
        except sqlite3.Error as error:
            if not _refused(error):
                raise
            self._refuse(before, error)
            return
        self._committing = []
        if self._refused_at is not None and time.monotonic() - self._refused_at >= QUIET_SECONDS:
            _log.warning("the change log %s can be written again", self._path)
            self._refused_at = None
        highest = max(self._high_water.highest, *(namespace.last for namespace in before))
        self._high_water = HighWaterMark(self._high_water.identity, self._high_water.total + len(group), highest)
        self._mark.note(self._high_water, len(group))
        self._pages += 2 * len(before) + sum([row.size for row in group]) // 4096
        committed: dict[Appender, list[Placed]] = {}
        for row, place in zip(group, places, strict=True):
            placed = Placed(0, file.position_of(file.row_at(place)), row.event, published_at)
            committed.setdefault(row.log, []).append(placed)
        self._report(_acknowledge, committed)

    def _refuse(self, before: Mapping[NamespaceRecord, int], error: sqlite3.Error) -> None:
        group, self._committing = self._committing, []
        for namespace, last in before.items():
            namespace.last = last
        if self._refused_at is None:
            _log.error("the change log %s can't be written, and updates are refused until it can: %s", self._path, error)
        self._refused_at = time.monotonic()
        self._report(_reject, Counter(row.log for row in group), error)

    def _values(self, group: Sequence[NewRow], published_at: int, places: list[int]) -> list[int | str | bytes | None]:
        values: list[int | str | bytes | None] = []
        for row in group:
            namespace = row.namespace
            if namespace.id == 0:
                namespace.id = file.add_namespace(self._connection, namespace.name)
            namespace.last += 1
            place = file.place_of(namespace.id, namespace.last)
            places.append(place)
            sure = checksum(place, published_at, self._schema, row.key, row.properties, row.payload)
            values += (place, published_at, self._schema, sure, row.key, row.properties, row.payload)
        return values

    def probe(self, connection: sqlite3.Connection) -> None:
        """Makes a small write that changes nothing; for ``run``.

        Raises:
            sqlite3.Error: the file can't be written.
        """
        self._check_place()
        file.write_nothing(connection)

    def _check_place(self) -> None:
        """Refuses to write to a file that was moved away or deleted: the next process would not find what is written."""
        if _inode(self._path) != self._stands_at:
            error = sqlite3.OperationalError("its file was moved, deleted or replaced")
            error.sqlite_errorcode = sqlite3.SQLITE_READONLY_DBMOVED
            raise error
        self._looked_at = time.monotonic()

    def _do(self, job: _Job) -> None:
        if not job.future.set_running_or_notify_cancel():
            return
        self._pages += JOB_PAGES
        try:
            job.future.set_result(job.work(self._connection))
        except sqlite3.Error as error:
            job.future.set_exception(error)
            if not _refused(error):
                raise

    def _flush_wal(self, *, truncate: bool = False) -> None:
        self._pages = 0
        try:
            flush_wal(self._connection, truncate=truncate)
        except sqlite3.Error as error:  # commits stay in the write-ahead log, and the next flush starts over
            _log.warning("the change log's write-ahead log could not be moved into its file: %s", error)

    def _report(self, callback: Callable[..., object], *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(callback, *arguments)
        except RuntimeError:  # the loop was closed: nobody is left to notify
            _log.warning("the change log's file outlived its event loop")


def _acknowledge(committed: Mapping[Appender, Sequence[Placed]]) -> None:
    for log, placed in committed.items():
        log.committed(placed)


def _reject(counts: Mapping[Appender, int], error: sqlite3.Error) -> None:
    for log, count in counts.items():
        log.refused(count, error)


def _inode(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
