"""The history as the rest of the server sees it: gives each namespace a recorder, and answers requests."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TypeVar
from weakref import WeakSet

from ..core.errors import Kind, PolicyError
from ..core.names import PolicyKey
from ..core.reading.cell import Head
from ..core.reading.tokens import Token
from ..core.reasons import Reason
from ..sqlite_file import ERRORS, Damaged, FileError, FileLock, unusable
from ..tasks import DaemonThreads, RestartedTask
from . import file, queries
from .entries import Extent, Gap, GapReason, SetBack
from .queries import Division, Page, Past, Query, Stretch
from .recorder import Recorder
from .writer import Bounds, HistoryWriter, WriterFigures

_T = TypeVar("_T")
_log = logging.getLogger(__name__)

READERS = 2
"""How many requests are answered from the file at the same time; the others wait."""
FLUSH_SECONDS = 20.0
"""How long a request waits until everything noted before it is written."""
CLOSE_SECONDS = 30.0
"""How long closing waits until the noted events are written and the reads under way have ended."""
TICK_SECONDS = 10.0
"""How often the history records until when logs are followed."""


def _wall_clock() -> int:
    return time.time_ns() // 1_000_000


class History:
    """An open history."""

    def __init__(self, path: Path, writer: HistoryWriter, lock: FileLock, now: Callable[[], int] = _wall_clock) -> None:
        """Opens connections for reading. ``now``: returns milliseconds since 1970.

        Raises:
            sqlite3.Error: the file can't be read, or is damaged.
        """
        self._path = path
        self._writer = writer
        self._lock = lock
        self._clock = now
        self._extents = writer.extents
        self._latest = max((each.latest for each in self._extents.values()), default=0)
        """The time that the clock showed last; at first, the newest one that the file has."""
        self._unreadable = False
        self._recorders: WeakSet[Recorder] = WeakSet()
        self._connections: list[sqlite3.Connection] = [file.connect(path, read_only=True) for _ in range(READERS)]
        self._readers = DaemonThreads(READERS, "history-reader")
        self._ticking = RestartedTask("Keeping the history up to date", self._tick)
        self._ticking.start()

    def figures(self) -> WriterFigures:
        """Returns the figures for metrics and status; any thread may call this."""
        return self._writer.figures()

    def now(self) -> int:
        """Returns the time in milliseconds since 1970. If the clock went back, has what was recorded with later times corrected."""
        now = self._clock()
        if now < self._latest:
            for extent in self._extents.values():
                for stream in extent.streams.values():
                    if stream.at > now:
                        stream.at = now
                        self._writer.tell(SetBack(stream, now))
                if extent.followed_until is not None:
                    extent.followed_until = min(extent.followed_until, now)
        self._latest = now
        return now

    def recorder(self, namespace: str) -> Recorder:
        """Returns a recorder for one opening of a namespace's log. The file is not read, so no load waits for the history."""
        recorder = Recorder(self._writer, namespace, self._extents.setdefault(namespace, Extent()), self.now)
        self._recorders.add(recorder)
        return recorder

    def listen(self, namespace: str, notify: Callable[[], None]) -> None:
        """Has ``notify`` called when a namespace has new events, until ``unlisten``. It must return soon and must not raise."""
        self._extents.setdefault(namespace, Extent()).listeners.add(notify)

    def unlisten(self, namespace: str, notify: Callable[[], None]) -> None:
        """Removes a callback that ``listen`` added."""
        self._extents.setdefault(namespace, Extent()).listeners.discard(notify)

    async def page(self, query: Query) -> Page:
        """Returns a page of entries, after the events that were folded before the call are written.

        Raises:
            PolicyError: UNAVAILABLE: the file can't be read, or not be written in time.
        """
        unwritten = await self._settle(query.namespace)
        page = await self._read(lambda connection: queries.page(connection, query))
        gaps = [gap for gap in unwritten if gap.until >= query.start and (gap.since is None or gap.since < query.end)]
        return page._replace(gaps=[*gaps, *page.gaps])

    async def stretch(self, namespace: str, place: Token, most: int) -> Stretch:
        """Returns what follows a place, after the events that were folded before the call are written (see ``queries.stretch``).

        Raises:
            PolicyError: UNAVAILABLE: the file can't be read, or not be written, or not in time.
            UnknownLog: the place is in a log that this history does not know.
        """
        if await self._settle(namespace):
            raise _unavailable("it can't be written")
        return await self._read(lambda connection: queries.stretch(connection, namespace, place, most))

    async def divisions(self, namespace: str, place: Token, every: int, most: int) -> list[Division]:
        """Returns at most ``most`` places that divide a copy (see ``queries.divisions``). Raises as ``stretch``."""
        if await self._settle(namespace):
            raise _unavailable("it can't be written")
        return await self._read(lambda connection: list(islice(queries.divisions(connection, namespace, place, every), most)))

    async def past(
        self, namespace: str, key: PolicyKey, head: Head | None, *, at: int = 0, version: str = "", followed: bool = True
    ) -> Past:
        """Returns a document as it was at a time, or the document that has a version.

        ``at``: milliseconds since 1970. ``followed``: whether the log is followed; if it is not, ``head`` means nothing, and events may be
        missing since it last was.

        Raises:
            PolicyError: OUT_OF_RANGE: the history does not know the document for certain; UNAVAILABLE, as ``page``.
        """
        unwritten = await self._settle(namespace)
        if version:
            entry = await self._read(lambda connection: queries.entry_of_version(connection, key, version))
            if entry is None and unwritten and (head is None or head.version != version):
                raise _unavailable("it can't be written")
            return queries.document_of_version(entry, version, head)
        last, first, gaps = await self._read(lambda connection: queries.around(connection, namespace, key, at))
        now = self.now()
        gaps[:0] = unwritten
        if not followed:
            known = self._extents.get(namespace, Extent()).followed_until
            since = None if known is None else min(known, now - 1)  # without a head, the present itself is not known
            gaps.insert(0, Gap(namespace, since, max(now, at) + 1, GapReason.COMPACTED))
        return queries.document_at(at, now, last, first, head, gaps)

    async def close(self) -> None:
        """Writes what was noted, then closes the file; takes ``CLOSE_SECONDS`` at most."""
        await self._ticking.stop()
        closing = [asyncio.wrap_future(self._readers.submit(self._close_one)) for _ in range(READERS)]
        self._readers.shutdown(wait=False)
        (_, late), _ = await asyncio.gather(asyncio.wait(closing, timeout=CLOSE_SECONDS), self._writer.stop(CLOSE_SECONDS))
        if late:
            _log.warning("the history %s was still being read after %s s", self._path, CLOSE_SECONDS)
        self._lock.release()

    async def _settle(self, namespace: str) -> list[Gap]:
        """Waits until all that was noted is written, or writing has failed. Returns the gap of the namespace's events not in the file."""
        extent, now = self._extents.get(namespace, Extent()), self.now()
        try:
            async with asyncio.timeout(FLUSH_SECONDS):
                unwritten = await self._writer.flush()
        except TimeoutError:
            raise _unavailable("it is written more slowly than it grows") from None
        overrun = extent.overrun.since if extent.overrun is not None else None
        since = [each for each in (unwritten.get(namespace), overrun) if each is not None]
        return [Gap(namespace, min(since), now + 1, GapReason.OVERRUN)] if since else []

    async def _read(self, query: Callable[[sqlite3.Connection], _T]) -> _T:
        try:
            answer = await asyncio.get_running_loop().run_in_executor(self._readers, self._answer, query)
        except Damaged as error:
            _log.error("the history %s is damaged: %s", self._path, error)
            raise _unavailable("its file is damaged") from error
        except ERRORS as error:
            if not self._unreadable:  # only the first failure is logged: each read meets it again
                _log.error("the history %s can't be read: %s", self._path, error)
            self._unreadable = True
            raise _unavailable("its file can't be read") from error
        if self._unreadable:
            _log.warning("the history %s can be read again", self._path)
        self._unreadable = False
        return answer

    def _answer(self, query: Callable[[sqlite3.Connection], _T]) -> _T:
        connection = self._connections.pop()  # there are as many connections as threads, so one is free
        try:
            connection.execute("BEGIN")  # all statements of a question see the same entries and gaps, whatever is trimmed meanwhile
            return query(connection)
        finally:
            with suppress(sqlite3.Error):
                connection.rollback()
            self._connections.append(connection)

    def _close_one(self) -> None:
        if self._connections:  # otherwise a read that does not end holds it
            self._connections.pop().close()

    def _keep_up(self) -> None:
        self.now()
        followed = {recorder.namespace for recorder in self._recorders}
        for name, extent in list(self._extents.items()):
            if extent.empty and name not in followed:
                del self._extents[name]  # a request named a namespace that has no log
        for recorder in list(self._recorders):
            recorder.tick()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            self._keep_up()


def check_history(path: Path) -> None:
    """Checks the file that stands at ``path``, if one does, and changes nothing.

    Raises:
        PolicyError: the file can't be used.
    """
    try:
        file.look(path)
    except FileError as error:
        raise _refusal(error) from error


def open_history(path: Path, bounds: Bounds, *, now: Callable[[], int] = _wall_clock) -> History:
    """Opens a history; creates the file if there is none.

    Raises:
        PolicyError: the file can't be used, or another process uses it.
    """
    lock = FileLock(path)
    try:
        lock.acquire()
        return History(path, HistoryWriter(path, bounds), lock, now)
    except BaseException as error:
        lock.release()
        if isinstance(error, ERRORS):
            raise _refusal(unusable(path, error)) from error
        if isinstance(error, FileError):
            raise _refusal(error) from error
        raise


def _refusal(error: FileError) -> PolicyError:
    damaged = isinstance(error.__cause__, ERRORS) and not isinstance(error.__cause__, sqlite3.OperationalError)
    way_out = " Restore it from a backup, or move it away: the server then begins a new one." if damaged else ""
    return PolicyError(Kind.FAILED_PRECONDITION, Reason.HISTORY_UNAVAILABLE, f"The history can't be used: {error}{way_out}")


def _unavailable(why: str) -> PolicyError:
    return PolicyError(Kind.UNAVAILABLE, Reason.HISTORY_UNAVAILABLE, f"The history can't be read now: {why}. The server's log says more.")
