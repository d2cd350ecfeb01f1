"""The thread that writes the history. It takes what was noted in batches, about one a second, and no update waits for it.

What waits for the thread is bounded (``waiting``): beyond the bound, events are refused, and the scribe that noted them records where the
history has a gap. While the file can't be written, a small batch is tried again and again, until the writer is stopped.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from ..sqlite_file import ERRORS, Damaged, close, unusable
from . import file
from .entries import Followed, Gap, GapReason, Marks, Noted, Rows, SetBack, Stream
from .trimming import Bounds, trim, trim_to_size
from .waiting import Item, Unwritten, Waiting

_log = logging.getLogger(__name__)

BACKLOG_BYTES = 128 << 20
"""The most that may wait to be written, by estimate: some 200,000 events."""
BATCH = 2_048
"""The most items of one commit."""
TRIED = 64
"""The most items of one commit while the file can't be written: an attempt that fails should cost little."""
PAUSE_SECONDS = 1.0
"""How long the writer lets events gather after it was woken, unless there are enough for a commit before: in a small batch each event costs
twice as much. Requests for the history do not wait for this."""
_RETRY_SECONDS = 1.0
_TRIM_SECONDS = 10.0


_FILE_ERRORS = (sqlite3.OperationalError, sqlite3.InternalError, Damaged, UnicodeDecodeError)


def _may_pass(error: Exception) -> bool:
    """Whether the error is the file's and may pass (the disk is full, the file is locked or damaged), rather than caused by an event."""
    return isinstance(error, _FILE_ERRORS) or type(error) is sqlite3.DatabaseError


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
        self._waiting = Waiting(backlog_bytes)
        self._pause = pause_seconds
        self._connection = file.prepare(path)
        self.marks = self._read_marks()
        """By namespace: how far the history goes. The scribes keep them up to date."""
        self._loop = asyncio.get_running_loop()
        self._wake = threading.Event()
        self._hurry = threading.Event()
        self._stopping = False
        self._namespaces: dict[str, int] = {}
        self._singly = 0
        """How many of the next items are committed one by one, because one of them may be an event that can't be written."""
        self._trimmed_at = time.monotonic()
        self._to_trim = True
        """Whether trimming was interrupted, because somebody waited for what is written, or the bounds may be new."""
        self._most_bytes = bounds.bytes
        """What may be in use after the last commit: the bound or, where more was in use before the commit, no more than that."""
        self._problem = ""
        """Why trimming failed the last time; "": it did not."""
        self._failing = False
        self._gaps: Counter[str] = Counter()
        """How many gaps ``tell`` took, by reason. The event loop counts them."""
        self._left_out = 0
        """How many events could never be written, each of which is a gap too. The thread counts them."""
        self._thread = threading.Thread(target=self._run, name="history-writer", daemon=True)
        self._thread.start()

    def note(self, noted: Sequence[Noted]) -> int:
        """Takes events, in order. Returns how many of the first were taken; the others are not recorded, because too much waits."""
        taken = self._waiting.note(noted)
        if taken:
            if not self._wake.is_set():
                self._wake.set()
            if len(self._waiting) >= BATCH and not (self._failing or self._hurry.is_set()):
                self._hurry.set()
        return taken

    def tell(self, what: Gap | Followed | SetBack) -> None:
        """Takes a rare item, however much waits."""
        if isinstance(what, Gap):
            self._gaps[what.reason.name] += 1
        self._waiting.tell(what)
        self._wake.set()

    def figures(self) -> Figures:
        """Returns the figures for metrics and status; any thread may call this."""
        gaps = self._gaps + Counter({GapReason.OVERRUN.name: self._left_out})
        return Figures(len(self._waiting), self._waiting.bytes, self._waiting.seconds(), self._failing, gaps)

    async def flush(self) -> Unwritten:
        """Waits until all that was noted before is in the file, or an attempt to write has failed. Returns what was not written."""
        done: asyncio.Future[Unwritten] = self._loop.create_future()
        self._waiting.ask(done)
        self._hurry.set()
        self._wake.set()
        return await done

    async def stop(self, seconds: float) -> None:
        """Writes what waits, for at most ``seconds``, then ends the thread."""
        self._stopping = True
        self._hurry.set()
        self._wake.set()
        await asyncio.to_thread(self._thread.join, seconds)
        if self._thread.is_alive():
            _log.warning("the history %s could not be written completely in %s s", self._path, seconds)

    # --- on the thread ------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            try:
                while not self._turn():
                    pass
                break
            except Exception:  # noqa: BLE001 - whatever it is, what was noted is not given up
                _log.exception("writing the history %s failed, and starts again", self._path)
                self._hurry.wait(_RETRY_SECONDS)
                if self._stopping:
                    break
        try:
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except sqlite3.Error as error:
            _log.warning("the write-ahead log of the history %s could not be moved into its file: %s", self._path, error)
        close(self._connection, file.FORM, self._path)

    def _turn(self) -> bool:
        """Waits until there is something to write, and writes it. Returns whether the writer was stopped and the thread is to end."""
        if self._waiting.empty and not self._stopping:
            self._wake.wait(0 if self._to_trim else _TRIM_SECONDS)
        self._wake.clear()
        if not self._hurry.is_set():
            self._hurry.wait(self._pause)
        self._hurry.clear()
        ended = self._stopping
        if not self._write_all():
            return True
        self._trim()
        return ended

    def _write_all(self) -> bool:
        """Writes what waits now. Returns False if the writer was stopped while the file could not be written."""
        begun = self._waiting.begin_round()
        left = begun.items
        while left:
            count = self._settle(self._waiting.first(min(left, self._most())))
            if count == 0 and self._stopping and self._failing:
                return False
            self._waiting.written(count)
            left -= count
            if count:
                with self._trimming():  # what was added is dropped at once, so the file never grows beyond its bound
                    self._shrink()
                    trim_to_size(self._connection, self._most_bytes)
                    self._shrink()
        if begun.asking:
            self._tell_loop(begun.asking, {})
        return True

    def _most(self) -> int:
        if self._singly:
            return 1
        return TRIED if self._failing else BATCH

    def _settle(self, batch: Sequence[Item]) -> int:
        """Commits a batch. Returns how many of its items are settled: all or none.

        If the file can't be written, the waiting callers get what is not written, and the thread pauses. If an event can never be written,
        the items of the batch are committed one by one, which finds the event; it is left out, and a gap is recorded in its place.
        """
        asking = self._waiting.asking()
        try:
            self._transact(batch)
        except Exception as error:  # noqa: BLE001 - whatever an event has in it, the others are to be written
            if _may_pass(error):
                self._rest_after(error, asking)
                return 0
            if len(batch) > 1:
                self._singly = len(batch)
                return 0
            _log.error("an event can't be written to the history %s: %s", self._path, error)
            (item,) = batch
            if isinstance(item, Noted):
                hole = (item.stream, item.placed.position)
                settled = self._settle([Gap(item.stream.namespace, item.at, item.at, GapReason.OVERRUN, (hole,))])
                self._left_out += settled
                return settled
        else:
            if self._failing:
                _log.warning("the history %s can be written again", self._path)
            self._failing = False
        self._singly = max(self._singly - len(batch), 0)
        return len(batch)

    def _rest_after(self, error: Exception, asking: Sequence[asyncio.Future[Unwritten]]) -> None:
        """Answers the callers that waited before the attempt with what is not written, and pauses until the next attempt."""
        if not self._failing:
            _log.error("the history %s can't be written, and is tried again: %s", self._path, error)
        self._failing = True
        if self._stopping:
            return
        self._tell_loop(asking, self._waiting.unwritten())
        self._hurry.wait(_RETRY_SECONDS)
        self._hurry.clear()

    def _transact(self, batch: Sequence[Item]) -> None:
        try:
            self._most_bytes = max(self._bounds.bytes, file.used_bytes(self._connection))
            self._connection.execute("BEGIN IMMEDIATE")
            self._commit(batch)
            self._connection.execute("COMMIT")
        except BaseException:
            self._namespaces.clear()  # what was added in this transaction is not in the file
            for item in batch:
                if isinstance(item, (Noted, SetBack)):
                    item.stream.id = 0
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    def _commit(self, batch: Sequence[Item]) -> None:
        connection = self._connection
        noted: list[Noted] = []
        for item in batch:
            if isinstance(item, Noted):
                self._find(item.stream)
                noted.append(item)
            elif isinstance(item, Gap):
                file.add_gap(connection, self._namespace(item.namespace), item)
            elif isinstance(item, SetBack):
                namespace = self._find(item.stream)
                self._add(noted)
                noted = []
                file.set_back(connection, namespace, item.stream.id, item.now)
            elif isinstance(item, Followed):
                file.note_followed(connection, self._namespace(item.namespace), item)
        self._add(noted)

    def _add(self, noted: Sequence[Noted]) -> None:
        """Adds events sorted by topic, which halves the cost of the indexes by topic. Their ids have the order of arrival."""
        if not noted:
            return
        connection, rows = self._connection, Rows()
        numbered = sorted(enumerate(noted, file.last_id(connection) + 1), key=_topic_of)
        for start in range(0, len(numbered), file.ROWS):
            some = numbered[start : start + file.ROWS]
            file.insert(connection, [(number, rows.of(each, self._namespace(each.stream.namespace))) for number, each in some])
        for stream, last in {each.stream: each for each in noted}.items():
            file.note_stream(connection, stream.id, last.placed.position, last.at)

    def _find(self, stream: Stream) -> int:
        """Sets the stream's id, and returns the namespace's. A new stream is added; ids have the order in which logs were first read."""
        namespace = self._namespace(stream.namespace)
        if stream.id == 0:
            stream.id = file.stream_id(self._connection, namespace, stream)
        return namespace

    def _namespace(self, name: str) -> int:
        number = self._namespaces.get(name)
        if number is None:
            number = self._namespaces[name] = file.namespace_id(self._connection, name)
        return number

    def _trim(self) -> None:
        """Drops entries beyond the bounds, a batch at a time, until there is something urgent; begins at most once in ``_TRIM_SECONDS``."""
        now = time.monotonic()
        if self._stopping or (now - self._trimmed_at < _TRIM_SECONDS and not self._to_trim):
            return
        self._trimmed_at, self._to_trim = now, False
        with self._trimming():
            self._shrink()
            self._to_trim = not trim(self._connection, self._bounds, time.time_ns() // 1_000_000, self._shrink)

    @contextmanager
    def _trimming(self) -> Iterator[None]:
        """Logs an error that is raised, unless it is that of the last time: writing goes on."""
        problem = ""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            problem = str(error)
            if problem != self._problem:
                _log.warning("the history %s could not be trimmed: %s", self._path, error)
        self._problem = problem

    def _shrink(self) -> bool:
        """Gives back to the disk what is not needed. Returns whether nothing is urgent."""
        file.shrink(self._connection, self._path, self._bounds.bytes)
        return not (self._stopping or self._hurry.is_set())

    def _tell_loop(self, waiting: Sequence[asyncio.Future[Unwritten]], unwritten: Unwritten) -> None:
        def tell() -> None:
            for done in waiting:
                if not done.done():
                    done.set_result(unwritten)

        try:
            self._loop.call_soon_threadsafe(tell)
        except RuntimeError:  # the event loop was closed, so no caller waits
            _log.debug("the history outlived its event loop")

    def _read_marks(self) -> dict[str, Marks]:
        try:
            return file.marks(self._connection)
        except ERRORS as error:
            self._connection.close()
            raise unusable(self._path, error) from error


def _topic_of(numbered: tuple[int, Noted]) -> str:
    event = numbered[1].placed.event
    return "" if event is None else event.key.topic
