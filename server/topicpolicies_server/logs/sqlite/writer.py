"""The thread that commits. What is appended while one commit runs is committed together by the next (group commit).

==========  =====================================================  =============================================================
state       what happens                                           then
==========  =====================================================  =============================================================
writing     a group is committed                                   its events are reported as such
writing     a transaction is refused for certain                   its events fail; the next group is tried
writing     a transaction has an outcome that is not known         doubtful: nothing is appended, what is there is read on
doubtful    the file was opened anew, and all of it is on the      the outcome is known, and reported; writing
            disk
doubtful    that failed                                            it is tried again
doubtful    it is told to stop                                     ended: the outcome stays unknown
any         the file is damaged, or something unforeseen happens   ended: the log is lost, and opened anew by whoever needs it
any         the same, and the file can't be opened                 doubtful until it can; then ended
==========  =====================================================  =============================================================

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

from ...core.policies.events import Placed
from ...sqlite_file import checkpoint
from .. import rows
from . import events, floors
from .appending import Appender, Committed, NewRow, acknowledge, refuse
from .fate import Fate, fate
from .file import overwrite_unfinished
from .home import Home
from .mark import Mark, Water
from .refusals import Refusals
from .slim import Shortening

T = TypeVar("T")

GROUP_EVENTS = 256
"""Events that are committed together at most."""
GROUP_BYTES = 4 << 20
"""Bytes after which a group takes no further event."""
CHECKPOINT_PAGES = 250
"""Pages in the write-ahead log, by estimate, after which it is moved into the file when nothing waits: 2 ms without a commit."""
CHECKPOINT_PAGES_AT_MOST = 2_000
"""The same, whether something waits or not."""
JOB_PAGES = 64
"""What is estimated for anything but a group of events."""

RETRY_SECONDS = 0.5
"""Pause between two attempts to find out what became of a commit."""

_log = logging.getLogger(__name__)


class _Job(Generic[T]):
    """Something else that is to be done on the connection."""

    __slots__ = ("future", "work")

    def __init__(self, work: Callable[[sqlite3.Connection], T], future: asyncio.Future[T]) -> None:
        self.work = work
        self.future = future


class _Stop:
    """The end of the queue."""


class Tail(NamedTuple):
    """How far the file was acknowledged, and where that is written."""

    mark: Mark
    water: Water


class Owner(Protocol):
    """Who has the file. The methods are called on the loop's thread."""

    def broken(self, error: BaseException, unknown: Mapping[Appender, int]) -> None:
        """Nothing can be written any more.

        Args:
            error: why.
            unknown: how many of an appender's next events may be in the file or not. What was appended after these certainly is not.
        """

    def doubtful(self, error: sqlite3.Error | None) -> None:
        """Nothing can be written for now, and it is not known what became of the last commit; None: that is over."""


class Writer:
    """Owns the connection that writes. Its methods are called on the loop's thread."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        schema: int,
        now: Callable[[], int],
        tail: Tail,
        home: Home,
        reopen: Callable[[], sqlite3.Connection],
        owner: Owner,
    ) -> None:
        """Starts the thread.

        Args:
            connection: to a prepared file; closed at the end.
            schema: the id of the schema in which payloads are written.
            now: milliseconds since 1970; called on the thread.
            tail: the mark of the file, and what it says; closed at the end.
            home: where the file has to be.
            reopen: gives another connection to the file; called on the thread.
            owner: who is told what becomes of the file.
        """
        self._connection = connection
        self._schema = schema
        self._now = now
        self._mark, self._water = tail
        self._refusals = Refusals(self._mark.log)
        self._home = home
        self._reopen = reopen
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._queue: queue.SimpleQueue[NewRow | _Job[Any] | _Stop] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._committing: list[NewRow] = []
        self._shortening = Shortening()
        self._pages = 0
        self._ended: sqlite3.Error | None = None
        self._stopped: asyncio.Future[None] = self._loop.create_future()
        self.append: Callable[[NewRow], None] = self._queue.put
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
        self._stopping.set()
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
        self._mark.close()
        self._report(self._end, failure)

    def _end(self, failure: BaseException | None) -> None:
        """On the loop's thread, when the writer's has done its last."""
        if failure is not None:
            self._owner.broken(failure, Counter(row.appender for row in self._committing))
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
        while isinstance(item, NewRow):
            self._committing.append(item)
            size += item.size
            if len(self._committing) == GROUP_EVENTS or size > GROUP_BYTES:
                break
            try:
                item = self._queue.get_nowait()
            except queue.Empty:
                break
        if self._committing:
            self._commit()
        if isinstance(item, _Job):
            self._do(item)
        if self._pages >= (CHECKPOINT_PAGES if self._queue.empty() else CHECKPOINT_PAGES_AT_MOST):
            self._checkpoint()
        return isinstance(item, _Stop)

    def _commit(self) -> None:
        group = self._committing
        before = {row.space: row.space.last for row in group}
        published_at = self._now()
        places: list[int] = []
        sizes: list[int] = []
        failed: sqlite3.Error | None = None
        try:
            self._home.check_now_and_then()
            events.insert(self._connection, self._values(group, published_at, places, sizes), len(group))
        except sqlite3.Error as error:
            if self._is_stored(error, places[0] if places else None):
                _log.warning("the commit that failed (%s) is in the change log's file all the same", error)
            else:
                failed = error
        self._committing = []
        if failed is not None:
            for space, last in before.items():
                space.last = last
            self._shortening.forget()
            self._refusals.refused(failed)
            self._report(refuse, Counter(row.appender for row in group), failed)
            return
        self._refusals.written()
        highest = max(self._water.highest, *(space.last for space in before))
        self._water = Water(self._water.identity, self._water.total + len(group), highest)
        self._mark.note(self._water, len(group))
        self._pages += 2 * len(before) + sum(sizes) // 4096
        committed: dict[Appender, Committed] = {}
        for row, place, written in zip(group, places, sizes, strict=True):
            mine = committed.get(row.appender)
            if mine is None:
                mine = committed[row.appender] = Committed()
            mine.placed.append(Placed(0, rows.position_of(events.row_at(place)), row.event, published_at))
            mine.size += written
        self._report(acknowledge, committed)

    def _values(self, group: Sequence[NewRow], published_at: int, places: list[int], sizes: list[int]) -> list[int | str | bytes | None]:
        """What is inserted, value by value; the events' places, and how large their rows are, are added to ``places`` and ``sizes``."""
        values: list[int | str | bytes | None] = []
        for row in group:
            space = row.space
            if space.id == 0:
                space.id = floors.add_namespace(self._connection, space.name, space.last)
            space.last += 1
            place = events.place_of(space.id, space.last)
            places.append(place)
            properties = self._shortening.properties(space.id, space.last, row.key, row.event, row.properties)
            sizes.append(row.size - len(row.properties) + len(properties))
            sure = events.checksum_of(place, published_at, self._schema, row.key, properties, row.payload)
            values += (place, published_at, self._schema, sure, row.key, properties, row.payload)
        return values

    def _is_stored(self, error: sqlite3.Error, place: int | None) -> bool:
        """Whether a transaction that failed, and would have filled a place, is in the file all the same.

        Raises:
            sqlite3.Error: the file can't be relied on any more, or it was told to stop before that was found out.
        """
        what = fate(error)
        if what is Fate.REFUSED:
            return False
        if what is Fate.LOST:
            self._outlast_unreadable()
            raise error
        self._doubt(error)
        while (stored := self._look(place)) is None:
            if self._stopping.wait(RETRY_SECONDS):
                raise error
        self._report(self._owner.doubtful, None)
        _log.warning("the change log's file can be written again")
        return stored

    def _outlast_unreadable(self) -> None:
        """Waits while the file can't be read at all: SQLite tells of damage too where the disk fails to read a page."""
        if (trouble := self._trouble()) is not None:
            self._doubt(trouble)
        while self._trouble() is not None and not self._stopping.wait(RETRY_SECONDS):
            pass

    def _doubt(self, error: sqlite3.Error) -> None:
        _log.error("the change log's file can't be written, and what became of the last commit is being found out: %s", error)
        self._report(self._owner.doubtful, error)

    def _trouble(self) -> sqlite3.Error | None:
        """Why the file can't be opened now, if that may pass."""
        try:
            self._reopen().close()
        except sqlite3.Error as error:
            return error if fate(error) is Fate.DOUBTFUL else None
        return None

    def _look(self, place: int | None) -> bool | None:
        """Opens the file anew; whether it has something in a place; None: it can't be written yet."""
        try:
            self._home.check()
            self._connection.close()
            self._connection = self._reopen()
            # A fsync has failed: only what was written again, into the file itself, is on the disk.
            if not checkpoint(self._connection):
                return None
            if place is not None and events.holds(self._connection, place):
                return True
            overwrite_unfinished(self._connection)  # or a recovery finds, after a crash, what was told not to be there
            return False
        except sqlite3.Error as error:
            if fate(error) is Fate.LOST:
                raise
            return None

    def _do(self, job: _Job[Any]) -> None:
        self._pages += JOB_PAGES
        try:
            result = job.work(self._connection)
        except sqlite3.Error as error:
            self._report(_settle, job.future, None, error)
            self._is_stored(error, None)
        else:
            self._report(_settle, job.future, result, None)

    def _checkpoint(self, *, truncate: bool = False) -> None:
        self._pages = 0
        try:
            checkpoint(self._connection, truncate=truncate)
        except sqlite3.Error as error:  # what was committed stands in the write-ahead log, and the next checkpoint begins anew
            _log.warning("the change log's write-ahead log could not be moved into its file: %s", error)

    def _report(self, callback: Callable[..., object], *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(callback, *arguments)
        except RuntimeError:  # the loop was closed: nobody is left to hear it
            _log.warning("the change log's file outlived its event loop")


def _settle(future: asyncio.Future[Any], result: object, error: BaseException | None) -> None:
    if future.done():  # whoever waited has gone
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
