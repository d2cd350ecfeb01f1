"""The thread that commits. What is appended while one commit runs is committed together by the next (group commit).

The interpreter's lock is the scarce thing: a thread that gives it up for a system call gets it back only when the loop's thread pauses.
Hence one statement per group, which is also its transaction; places are made here, and one callback reports the whole group.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from ...core.policies.events import Event, Placed
from .. import rows
from . import file

T = TypeVar("T")

GROUP_EVENTS = 256
"""Events that are committed together at most."""
GROUP_BYTES = 4 << 20
"""Bytes after which a group takes no further event."""
CHECKPOINT_PAGES = 1_000
"""Pages in the write-ahead log, by estimate, after which it is moved into the file when nothing waits."""
CHECKPOINT_PAGES_AT_MOST = 8_000
"""The same, whether something waits or not."""

JOB_PAGES = 64
"""What is estimated for anything but an append."""

CERTAIN_FAILURES = frozenset(
    {
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_TOOBIG,
        sqlite3.SQLITE_CONSTRAINT,
        sqlite3.SQLITE_INTERRUPT,
    }
)
"""Primary result codes after which a transaction certainly is not in the file, nor ever will be: it was refused before its last page, which
carries the commit mark, was written. A disk that is full is among them (the write of a page failed); every other input or output
error is not: a commit whose fsync failed may be found by a later recovery."""

_log = logging.getLogger(__name__)


class Appender(Protocol):
    """Who appended, and hears what became of it. The methods are called on the loop's thread, in the order of the log."""

    def committed(self, placed: Sequence[Placed]) -> None:
        """The next of its events are durable, at these places."""

    def refused(self, count: int, error: sqlite3.Error) -> None:
        """The next so many of its events certainly are not in the file."""


class Space:
    """A namespace of the file, as far as the writer is concerned."""

    __slots__ = ("id", "last", "name")

    def __init__(self, name: str, namespace_id: int = 0, last: int = 0) -> None:
        self.name = name
        self.id = namespace_id
        """0: the file does not know it yet."""
        self.last = last
        """The highest row number that was given away."""


class Append(NamedTuple):
    """An event on its way."""

    appender: Appender
    space: Space
    event: Event
    key: str
    properties: str
    payload: bytes | None
    size: int
    """Bytes, roughly."""


class _Job(Generic[T]):
    """Something else that is to be done on the connection."""

    __slots__ = ("future", "work")

    def __init__(self, work: Callable[[sqlite3.Connection], T], future: asyncio.Future[T]) -> None:
        self.work = work
        self.future = future


class _Stop:
    """The end of the queue."""


class Writer:
    """Owns the connection that writes. Its methods are called on the loop's thread."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        schema: int,
        now: Callable[[], int],
        broken: Callable[[BaseException, Mapping[Appender, int]], None],
    ) -> None:
        """Starts the thread.

        Args:
            connection: to a prepared file; closed at the end.
            schema: the id of the schema in which payloads are written.
            now: milliseconds since 1970; called on the thread.
            broken: called once on the loop's thread if nothing can be written any more: with the reason, and with how many of an appender's
                next events may be in the file or not. What was appended after these certainly is not.
        """
        self._connection = connection
        self._schema = schema
        self._now = now
        self._broken = broken
        self._loop = asyncio.get_running_loop()
        self._queue: queue.SimpleQueue[Append | _Job[Any] | _Stop] = queue.SimpleQueue()
        self._committing: list[Append] = []
        self._pages = 0
        self._ended: sqlite3.Error | None = None
        self._stopped: asyncio.Future[None] = self._loop.create_future()
        self.append: Callable[[Append], None] = self._queue.put
        """Takes an event."""
        threading.Thread(target=self._run, name="sqlite-writer", daemon=True).start()

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Runs something else on the connection, between two groups.

        Raises:
            sqlite3.Error: as the work does, or because the writer has ended.
        """
        if self._ended is not None:
            raise self._ended
        future: asyncio.Future[T] = self._loop.create_future()
        self._queue.put(_Job(work, future))
        return await future

    async def stop(self, seconds: float) -> bool:
        """Commits what was appended, then ends; whether that was done, and the connection closed, in so many seconds."""
        self._queue.put(_Stop())
        return self._stopped in (await asyncio.wait([self._stopped], timeout=seconds))[0]

    def _run(self) -> None:
        failure: BaseException | None = None
        try:
            while not self._turn():
                pass
            self._checkpoint(truncate=True)
        except BaseException as error:  # noqa: BLE001 (whatever it is: nobody must wait for this thread for ever)
            _log.error("nothing can be written to the change log's file any more", exc_info=error)
            failure = error
        try:
            self._connection.close()
        except sqlite3.Error as error:
            _log.warning("the change log's file was not closed in good order: %s", error)
        self._report(self._end, failure)

    def _end(self, failure: BaseException | None) -> None:
        """On the loop's thread, when the writer's has done its last."""
        if failure is not None:
            self._broken(failure, Counter(append.appender for append in self._committing))
        self._ended = sqlite3.ProgrammingError("the change log's writer has ended")
        while not self._queue.empty():
            item = self._queue.get_nowait()
            if isinstance(item, _Job):
                _settle(item.future, None, self._ended)
        self._stopped.set_result(None)

    def _turn(self) -> bool:
        """Commits a group, or does something else; whether it was the end."""
        item = self._queue.get()
        size = 0
        while isinstance(item, Append):
            self._committing.append(item)
            size += item.size
            if len(self._committing) == GROUP_EVENTS or size > GROUP_BYTES:
                break
            try:
                item = self._queue.get_nowait()
            except queue.Empty:
                break
        if self._committing:
            self._commit(size)
        if isinstance(item, _Job):
            self._do(item)
        if self._pages >= (CHECKPOINT_PAGES if self._queue.empty() else CHECKPOINT_PAGES_AT_MOST):
            self._checkpoint()
        return isinstance(item, _Stop)

    def _commit(self, size: int) -> None:
        group = self._committing
        before = {append.space: append.space.last for append in group}
        published_at = self._now()
        places: list[int] = []
        values: list[int | str | bytes | None] = []
        try:
            for append in group:
                space = append.space
                if space.id == 0:
                    space.id = file.add_namespace(self._connection, space.name)
                space.last += 1
                places.append(space.last)
                values += (
                    file.place_of(space.id, space.last), published_at, self._schema, append.key, append.properties, append.payload
                )  # fmt: skip
            file.insert(self._connection, values, len(group))
        except sqlite3.Error as error:
            for space, last in before.items():
                space.last = last
            if not certainly_failed(error):
                raise
            self._committing = []
            self._report(_refuse, Counter(append.appender for append in group), error)
            return
        self._committing = []
        self._pages += 2 * len(before) + size // 4096
        committed: dict[Appender, list[Placed]] = {}
        for append, row in zip(group, places, strict=True):
            placed = Placed(0, rows.position_of(row), append.event, published_at)
            mine = committed.get(append.appender)
            if mine is None:
                committed[append.appender] = [placed]
            else:
                mine.append(placed)
        self._report(_acknowledge, committed)

    def _do(self, job: _Job[Any]) -> None:
        self._pages += JOB_PAGES
        try:
            result = job.work(self._connection)
        except sqlite3.Error as error:
            self._report(_settle, job.future, None, error)
            if not certainly_failed(error):
                raise
        else:
            self._report(_settle, job.future, result, None)

    def _checkpoint(self, *, truncate: bool = False) -> None:
        self._pages = 0
        try:
            file.checkpoint(self._connection, truncate=truncate)
        except sqlite3.Error as error:  # what was committed stands in the write-ahead log, and the next checkpoint begins anew
            _log.warning("the change log's write-ahead log could not be moved into its file: %s", error)

    def _report(self, callback: Callable[..., object], *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(callback, *arguments)
        except RuntimeError:  # the loop was closed: nobody is left to hear it
            _log.warning("the change log's file outlived its event loop")


def certainly_failed(error: sqlite3.Error) -> bool:
    """Whether the transaction that failed with this error certainly is not in the file, nor ever will be."""
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF in CERTAIN_FAILURES


def _acknowledge(committed: Mapping[Appender, Sequence[Placed]]) -> None:
    for appender, placed in committed.items():
        appender.committed(placed)


def _refuse(counts: Mapping[Appender, int], error: sqlite3.Error) -> None:
    for appender, count in counts.items():
        appender.refused(count, error)


def _settle(future: asyncio.Future[Any], result: object, error: BaseException | None) -> None:
    if future.done():  # whoever waited has gone
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
