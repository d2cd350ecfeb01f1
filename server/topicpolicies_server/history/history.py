"""The history as the rest of the server sees it: where namespaces write, and where questions are answered."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar
from weakref import WeakSet

from ..core.errors import Kind, PolicyError
from ..core.names import PolicyKey
from ..core.reading.view import Change
from ..core.reasons import Reason
from ..file_lock import FileLock
from ..sqlite_file import FileError, Problem
from . import as_of, file, following, questions
from .as_of import Past
from .entries import Gap, GapReason, Marks
from .following import Place, Stretch
from .questions import LAST, Page, Question
from .scribe import Scribe
from .writer import Bounds, Writer

_T = TypeVar("_T")
_log = logging.getLogger(__name__)

READERS = 2
"""Questions that are answered at the same time; the others wait."""
FLUSH_SECONDS = 20.0
"""How long a question waits for what was noted before it."""
CLOSE_SECONDS = 30.0
TICK_SECONDS = 10.0
"""How often the history notes that it is up to date."""


def _wall_clock() -> int:
    return time.time_ns() // 1_000_000


class History:
    """A history that is open."""

    def __init__(self, path: Path, writer: Writer, lock: FileLock, now: Callable[[], int] = _wall_clock) -> None:
        """``now``: milliseconds since 1970."""
        self._path = path
        self._writer = writer
        self._lock = lock
        self._now = now
        self._scribes: WeakSet[Scribe] = WeakSet()
        self._listeners: dict[str, dict[Callable[[], None], None]] = {}
        """By namespace: who is told of new events."""
        self._connections: list[sqlite3.Connection] = [file.connect(path, read_only=True) for _ in range(READERS)]
        self._readers = ThreadPoolExecutor(READERS, "history-reader")
        self._ticking = asyncio.get_running_loop().create_task(self._tick(), name="history")

    async def scribe(self, namespace: str) -> Scribe | None:
        """Whoever writes down one opening of a namespace's log; None if the file can't be read now: what is missed then is a gap later."""
        try:
            marks: Marks = await self._ask(lambda connection: file.marks(connection, namespace))
        except PolicyError as error:
            _log.error("%s is not recorded: %s", namespace, error.message)
            return None
        scribe = Scribe(self._writer, namespace, marks, self._now, lambda: self._listeners.get(namespace, ()))
        self._scribes.add(scribe)
        return scribe

    def listen(self, namespace: str, wake: Callable[[], None]) -> None:
        """Has ``wake`` called when there are new events of a namespace, until ``unlisten``. It must return soon and must not raise."""
        self._listeners.setdefault(namespace, {})[wake] = None

    def unlisten(self, namespace: str, wake: Callable[[], None]) -> None:
        """Ends a ``listen``."""
        listeners = self._listeners.get(namespace, {})
        listeners.pop(wake, None)
        if not listeners:
            self._listeners.pop(namespace, None)

    async def page(self, question: Question) -> Page:
        """A page of entries, up to what was folded when it was asked for.

        Raises:
            PolicyError: UNAVAILABLE: the file can't be read, or not be written in time.
        """
        return await self._ask(lambda connection: questions.page(connection, question))

    async def stretch(self, namespace: str, behind: Place, most: int) -> Stretch:
        """What follows a place, up to what was folded when it was asked for (see ``following``).

        Raises:
            PolicyError: UNAVAILABLE, as above.
            Elsewhere: the place is in a log that this history does not know.
        """
        return await self._ask(lambda connection: following.stretch(connection, namespace, behind, most))

    async def past(
        self, namespace: str, key: PolicyKey, head: Change | None, *, at: int = 0, version: str = "", followed: bool = True
    ) -> Past:
        """A document as it was.

        Args:
            namespace: the topic's.
            key: its policy key.
            head: its present head.
            at: the time, in milliseconds since 1970.
            version: the version, instead of the time.
            followed: whether the log is followed; if not, ``head`` says nothing, and what came since it was followed last is not known.

        Raises:
            PolicyError: OUT_OF_RANGE: the history does not tell for certain; UNAVAILABLE as above.
        """
        if version:
            entry = await self._ask(lambda connection: questions.of_version(connection, key, version))
            return as_of.of_version(entry, version, head)
        marks, (last, first), gaps = await self._ask(
            lambda connection: (
                file.marks(connection, namespace),
                questions.around(connection, key, at),
                questions.gaps(connection, namespace, 0, LAST[0]),
            )
        )
        now = self._now()
        if not followed:
            gaps.insert(0, Gap(namespace, marks.followed_until, max(now, at) + 1, GapReason.COMPACTED))
        return as_of.of_time(at, now, last, first, head, gaps)

    async def close(self) -> None:
        """Writes what was noted, then closes the file."""
        self._ticking.cancel()
        await asyncio.gather(self._ticking, return_exceptions=True)
        await self._writer.stop(CLOSE_SECONDS)
        await asyncio.to_thread(self._readers.shutdown)
        for connection in self._connections:
            connection.close()
        self._lock.release()

    async def _ask(self, question: Callable[[sqlite3.Connection], _T]) -> _T:
        try:
            async with asyncio.timeout(FLUSH_SECONDS):
                await self._writer.flush()
        except TimeoutError:
            raise _unavailable("it is written more slowly than it grows, or can't be written") from None
        try:
            return await asyncio.get_running_loop().run_in_executor(self._readers, self._answer, question)
        except sqlite3.Error as error:
            _log.error("the history %s can't be read: %s", self._path, error)
            raise _unavailable("its file can't be read") from error

    def _answer(self, question: Callable[[sqlite3.Connection], _T]) -> _T:
        connection = self._connections.pop()  # there are as many as threads
        try:
            return question(connection)
        finally:
            self._connections.append(connection)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            for scribe in list(self._scribes):
                scribe.tick()


def open_history(path: Path, bounds: Bounds, *, now: Callable[[], int] = _wall_clock) -> History:
    """Opens a history; makes it if there is none.

    Raises:
        PolicyError: the file can't be used, or another process has it.
    """
    lock = FileLock(path)
    try:
        lock.acquire()
        return History(path, Writer(path, bounds), lock, now)
    except FileError as error:
        lock.release()
        reason = Reason.LOG_FILE_IN_USE if error.problem is Problem.IN_USE else Reason.HISTORY_FILE_UNUSABLE
        raise PolicyError(Kind.FAILED_PRECONDITION, reason, f"The history can't be used: {error}") from error
    except BaseException:
        lock.release()
        raise


def _unavailable(why: str) -> PolicyError:
    return PolicyError(Kind.UNAVAILABLE, Reason.HISTORY_UNAVAILABLE, f"The history can't be asked now: {why}. The server's log says more.")
