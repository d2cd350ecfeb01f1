"""The thread that writes the history. It takes what was noted in batches, about one a second, and no update ever waits for it.

What waits for it is bounded (``waiting``): beyond that, events are refused, and whoever noted them says where the history has a gap. A file
that can't be written is tried again and again, with a few events, until it can or the writer is stopped.
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
from typing import NamedTuple

from ..sqlite_file import ERRORS, Damaged, FileError, Problem, close
from . import file
from .entries import Followed, Gap, GapReason, Marks, Noted, Rows, SetBack, Stream
from .waiting import Item, Unwritten, Waiting

_log = logging.getLogger(__name__)

BACKLOG_BYTES = 128 << 20
"""What may wait to be written, by estimate: some 200,000 events."""
BATCH = 2_048
"""Events of one commit at most."""
TRIED = 64
"""The same while the file can't be written: a try that is in vain should cost little."""
PAUSE_SECONDS = 1.0
"""How long the writer lets events gather after it was woken, if they are not enough for a commit before: of few events at a time each
costs twice as much. Whoever asks for the history does not wait for that."""
_RETRY_SECONDS = 1.0
_TRIM_SECONDS = 10.0
_TRIM_ENTRIES = 1_000
"""Entries that are dropped at a time."""


_FILE_ERRORS = (sqlite3.OperationalError, sqlite3.InternalError, Damaged, UnicodeDecodeError)


def _may_pass(error: Exception) -> bool:
    """Whether it is the file's, and not the events': a disk that is full, a file that somebody has locked, damage."""
    return isinstance(error, _FILE_ERRORS) or type(error) is sqlite3.DatabaseError


class Bounds(NamedTuple):
    """What the history keeps."""

    age_seconds: float
    bytes: int


class Figures(NamedTuple):
    """How a history goes on."""

    waiting: int
    """Entries that wait to be written."""
    waiting_bytes: int
    """The same in bytes, by estimate."""
    waiting_seconds: float
    """For how long the first of them has waited."""
    failing: bool
    """Whether the file can't be written now."""
    gaps: Mapping[str, int]
    """Times in which events may be missing, by reason, as far as they were found since the start."""


class Writer:
    """Owns the connection that writes. Its methods are called on the loop's thread."""

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
        """By namespace: how far the history goes. Whoever notes something keeps them up to date."""
        self._loop = asyncio.get_running_loop()
        self._wake = threading.Event()
        self._hurry = threading.Event()
        self._stopping = False
        self._namespaces: dict[str, int] = {}
        self._singly = 0
        """How many of the next items are written one after the other, because one of them may be such as can't be written."""
        self._trimmed_at = time.monotonic()
        self._failing = False
        self.gaps: Counter[str] = Counter()
        """Gaps that were told, by reason."""
        self._thread = threading.Thread(target=self._run, name="history-writer", daemon=True)
        self._thread.start()

    def note(self, noted: Sequence[Noted]) -> int:
        """Takes events, in their order. Returns how many of the first; for the others too much waits already: they will not be there."""
        taken = self._waiting.note(noted)
        if taken:
            if not self._wake.is_set():
                self._wake.set()
            if len(self._waiting) >= BATCH and not (self._failing or self._hurry.is_set()):
                self._hurry.set()
        return taken

    def tell(self, what: Gap | Followed | SetBack) -> None:
        """Takes what is said rarely, however much waits."""
        if isinstance(what, Gap):
            self.gaps[what.reason.name] += 1
        self._waiting.tell(what)
        self._wake.set()

    def figures(self) -> Figures:
        """What is shown of it to operators; any thread may ask."""
        return Figures(len(self._waiting), self._waiting.bytes, self._waiting.seconds(), self._failing, dict(self.gaps))

    async def flush(self) -> Unwritten:
        """Waits until everything that was noted before can be read, or could not be written when that was tried; what was not."""
        done: asyncio.Future[Unwritten] = self._loop.create_future()
        self._waiting.ask(done)
        self._hurry.set()
        self._wake.set()
        return await done

    async def stop(self, seconds: float) -> None:
        """Writes what waits, for so long, then ends."""
        self._stopping = True
        self._hurry.set()
        self._wake.set()
        await asyncio.to_thread(self._thread.join, seconds)
        if self._thread.is_alive():
            _log.warning("the history %s could not be written to its end in %s s", self._path, seconds)

    # --- on the thread ------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            try:
                while not self._turn():
                    pass
                break
            except Exception:  # noqa: BLE001 - whatever it is, what was noted is not given up
                _log.exception("writing the history %s failed, and is begun anew", self._path)
                self._hurry.wait(_RETRY_SECONDS)
                if self._stopping:
                    break
        try:
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except sqlite3.Error as error:
            _log.warning("the write-ahead log of the history %s could not be moved into its file: %s", self._path, error)
        close(self._connection, file.FORM, self._path)

    def _turn(self) -> bool:
        """Waits until there is something to write, and writes it; whether it was the end."""
        if self._waiting.empty and not self._stopping:
            self._wake.wait(_TRIM_SECONDS)
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
        """Writes what waits now; False if the writer was stopped before it could."""
        begun = self._waiting.begin_round()
        left = begun.items
        while left:
            count = self._settle(self._waiting.first(min(left, self._most())))
            if count == 0 and self._stopping and self._failing:
                return False
            self._waiting.written(count)
            left -= count
        if begun.asking:
            self._tell_loop(begun.asking, {})
        return True

    def _most(self) -> int:
        if self._singly:
            return 1
        return TRIED if self._failing else BATCH

    def _settle(self, batch: Sequence[Item]) -> int:
        """Commits a batch; how many of it are settled, all or none. If the file can't be written, those who asked are told, and it rests.

        An event that can never be written is found by writing one after the other; it is left out, and a gap told in its place.
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
                return self._settle([Gap(item.stream.namespace, item.at, item.at, GapReason.OVERRUN, (hole,))])
        else:
            if self._failing:
                _log.warning("the history %s can be written again", self._path)
            self._failing = False
        self._singly = max(self._singly - len(batch), 0)
        return len(batch)

    def _rest_after(self, error: Exception, asking: Sequence[asyncio.Future[Unwritten]]) -> None:
        """Tells those who asked before it was tried what is not written, and rests until it is to be tried again."""
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
            self._connection.execute("BEGIN IMMEDIATE")
            self._commit(batch)
            self._connection.execute("COMMIT")
        except BaseException:
            self._namespaces.clear()  # what was added with this transaction is not there
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
        """Adds events, topic by topic, each with the id that its turn gives it: so the indexes by topic cost half as much."""
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
        """Looks for a stream, whose place among those of its namespace tells when its log was first read; the namespace's id."""
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
        """Drops what is too old or too much, some at a time."""
        now = time.monotonic()
        if self._stopping or now - self._trimmed_at < _TRIM_SECONDS:
            return
        self._trimmed_at = now
        try:
            trim(self._connection, self._bounds, time.time_ns() // 1_000_000)
        except sqlite3.Error as error:
            _log.warning("the history %s could not be trimmed: %s", self._path, error)

    def _tell_loop(self, waiting: Sequence[asyncio.Future[Unwritten]], unwritten: Unwritten) -> None:
        def tell() -> None:
            for done in waiting:
                if not done.done():
                    done.set_result(unwritten)

        try:
            self._loop.call_soon_threadsafe(tell)
        except RuntimeError:  # the loop was closed: nobody is left to hear it
            _log.debug("the history outlived its event loop")

    def _read_marks(self) -> dict[str, Marks]:
        try:
            return file.marks(self._connection)
        except ERRORS as error:
            self._connection.close()
            raise FileError(Problem.UNUSABLE, f"{self._path} can't be read: {error}.") from error


def _topic_of(numbered: tuple[int, Noted]) -> str:
    event = numbered[1].placed.event
    return "" if event is None else event.key.topic


def trim(connection: sqlite3.Connection, bounds: Bounds, now: int) -> None:
    """Drops what is older or more than the bounds say. ``now``: milliseconds since 1970."""
    while _in_transaction(connection, file.trim_by_age, now - int(bounds.age_seconds * 1000), _TRIM_ENTRIES):
        pass
    while file.used_bytes(connection) > bounds.bytes and _in_transaction(connection, file.trim_oldest, _TRIM_ENTRIES):
        pass


def _in_transaction(connection: sqlite3.Connection, drop: object, *arguments: int) -> int:
    assert callable(drop), "one of the file's"
    connection.execute("BEGIN IMMEDIATE")
    try:
        dropped: int = drop(connection, *arguments)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return dropped
