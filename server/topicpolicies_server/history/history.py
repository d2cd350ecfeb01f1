"""The history as the rest of the server sees it: gives each namespace a recorder, and answers requests.

One thread writes the file and reads it: each request first has what waits written, so its answer has everything that was folded before.
Only what divides a copy is counted on another thread.

A document of a past time is derived from the key's last event before, the first one after, the present head, and the gaps. It is returned
only if it is certain. If an event may be missing between what is known and the requested time, an error says so.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple, TypeVar
from weakref import WeakSet

from ..core.errors import Kind, PolicyError
from ..core.names import PolicyKey
from ..core.policies import secrets
from ..core.policies.events import ABSENT, Position
from ..core.reading.cell import Head
from ..core.reading.tokens import Token
from ..core.reasons import Reason
from ..sqlite_file import ERRORS, Damaged, FileError, FileLock, unusable
from ..tasks import DaemonThreads, RestartedTask
from . import file
from .entries import Entry, Extent, Gap, GapReason
from .file import Division, HistoryFile, Page, Query, Stretch
from .recorder import Recorder
from .writer import Bounds, HistoryWriter, WriterFigures

_T = TypeVar("_T")
_log = logging.getLogger(__name__)

ANSWER_SECONDS = 20.0
"""How long a request waits for its answer, and first until everything noted before it is written."""
CLOSE_SECONDS = 30.0
"""How long closing waits until the noted events are written and the reads under way have ended."""
PAUSE_SECONDS = 1.0
"""How long events gather before they are written: in a small batch each event costs twice as much. Requests do not wait for this."""
TICK_SECONDS = 10.0
"""How often the history records until when logs are followed."""
_MISSING = "an event is missing between those that it has"


def _wall_clock() -> int:
    return time.time_ns() // 1_000_000


class History:
    """An open history. It belongs to one event loop."""

    def __init__(self, path: Path, writer: HistoryWriter, lock: FileLock, now: Callable[[], int] = _wall_clock) -> None:
        """Begins to write what is noted. ``now``: returns milliseconds since 1970."""
        self._path = path
        self._writer = writer
        self._lock = lock
        self._now = now
        self._extents = writer.extents
        self._recorders: WeakSet[Recorder] = WeakSet()
        self._thread = DaemonThreads(1, "history")
        self._counting = DaemonThreads(1, "history-divisions")
        self._writing = RestartedTask(f"writing the history {path}", self._write)
        self._ticking = RestartedTask("Keeping the history up to date", self._tick)
        self._writing.start()
        self._ticking.start()

    def figures(self) -> WriterFigures:
        """Returns the figures for metrics and status; any thread may call this."""
        return self._writer.figures()

    def recorder(self, namespace: str) -> Recorder:
        """Returns a recorder for one opening of a namespace's log. The file is not read, so no load waits for the history."""
        recorder = Recorder(self._writer, namespace, self._extents.setdefault(namespace, Extent()), self._now)
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
        unwritten, page = await self._ask(query.namespace, lambda opened, unwritten: (unwritten, opened.page(query)))
        gaps = [gap for gap in unwritten if gap.until >= query.start and (gap.since is None or gap.since < query.end)]
        return page._replace(gaps=[*gaps, *page.gaps])

    async def stretch(self, namespace: str, place: Token, most: int) -> Stretch:
        """Returns what follows a place, after the events that were folded before the call are written (see ``HistoryFile.stretch``).

        Raises:
            PolicyError: UNAVAILABLE: the file can't be read, or not be written, or not in time.
            UnknownLog: the place is in a log that this history does not know.
        """
        return await self._copy(namespace, lambda opened: opened.stretch(namespace, place, most))

    async def divisions(self, namespace: str, place: Token, every: int, most: int) -> list[Division]:
        """Returns at most ``most`` places that divide a copy (see ``HistoryFile.divisions``). Raises as ``stretch``.

        All entries may have to be counted, so this has a thread and a connection of its own, and no time limit.
        """

        def found() -> list[Division]:
            with closing(file.open_to_read(self._path)) as opened:
                return list(islice(opened.divisions(namespace, place, every), most))

        await self._copy(namespace, lambda _: None)
        with self._readable():
            return await asyncio.get_running_loop().run_in_executor(self._counting, found)

    async def past(
        self, namespace: str, key: PolicyKey, head: Head | None, *, at: int = 0, version: str = "", followed: bool = True
    ) -> Past:
        """Returns a document as it was at a time, or the document that has a version.

        ``at``: milliseconds since 1970. ``followed``: whether the log is followed; if it is not, ``head`` means nothing, and events may be
        missing since it last was.

        Raises:
            PolicyError: OUT_OF_RANGE: the history does not know the document for certain; UNAVAILABLE, as ``page``.
        """
        if version:
            unwritten, entry = await self._ask(namespace, lambda opened, unwritten: (unwritten, opened.entry_of_version(key, version)))
            if entry is None and unwritten and (head is None or head.version != version):
                raise _unavailable("it can't be written")
            return document_of_version(entry, version, head)
        unwritten, found = await self._ask(namespace, lambda opened, unwritten: (unwritten, opened.around(namespace, key, at)))
        last, first, gaps = found
        now = self._now()
        gaps[:0] = unwritten
        if not followed:
            known = self._extents.get(namespace, Extent()).followed_until
            since = None if known is None else min(known, now - 1)  # without a head, the present itself is not known
            gaps.insert(0, Gap(namespace, since, max(now, at) + 1, GapReason.COMPACTED))
        return document_at(at, now, last, first, head, gaps)

    async def close(self) -> None:
        """Writes what was noted, then closes the file; takes ``CLOSE_SECONDS`` at most."""
        try:
            await self._ticking.stop()
            await self._writing.stop()
            written = False
            with suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_SECONDS):
                    written = await self._run(self._writer.close)
            if not written:
                _log.warning("the history %s could not be written completely in %s s", self._path, CLOSE_SECONDS)
        finally:
            self._thread.shutdown()
            self._counting.shutdown()
            self._lock.release()

    async def _run(self, work: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def _copy(self, namespace: str, question: Callable[[HistoryFile], _T]) -> _T:
        def asked(opened: HistoryFile, unwritten: list[Gap]) -> _T:
            if unwritten:
                raise _unavailable("it can't be written")
            return question(opened)

        return await self._ask(namespace, asked)

    async def _ask(self, namespace: str, question: Callable[[HistoryFile, list[Gap]], _T]) -> _T:
        """Returns the answer to a question about the file, and about the gap of the namespace's events that are not in it."""
        with self._readable():
            try:
                async with asyncio.timeout(ANSWER_SECONDS):
                    return await self._run(partial(self._writer.answer, namespace, self._now() + 1, question))
            except TimeoutError:
                raise _unavailable(f"there was no answer within {ANSWER_SECONDS:g} s") from None

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except ERRORS as error:
            what = "is damaged" if isinstance(error, Damaged) else "can't be read"
            _log.error("the history %s %s: %s", self._path, what, error)
            raise _unavailable(f"its file {what}") from error

    async def _write(self) -> None:
        while True:
            await asyncio.sleep(PAUSE_SECONDS)
            while await self._run(self._writer.work):
                pass

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            followed = {recorder.namespace for recorder in self._recorders}
            for name, extent in list(self._extents.items()):
                if extent.empty and name not in followed:
                    del self._extents[name]  # a request named a namespace that has no log
            for recorder in list(self._recorders):
                recorder.tick()


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


# --- documents of the past --------------------------------------------------------------------------------------------


class Past(NamedTuple):
    """A document as it was at a time or version."""

    document: bytes | None
    """The document's Protobuf form, without secrets; None: there was no document."""
    version: Position


def document_at(at: int, now: int, last: Entry | None, first: Entry | None, head: Head | None, gaps: Sequence[Gap]) -> Past:
    """Returns the document at a time.

    ``last``: the key's last entry at that time or before; ``first``: its first one after; ``head``: its present head (None: the log knows
    no event of the key); ``gaps``: the times in which events may be missing, newest first. Times are milliseconds since 1970.

    Raises:
        PolicyError: OUT_OF_RANGE, reason ``NOT_IN_HISTORY``: the document is not certain; the metadata names the gap, if there is one.
    """
    now = max(now, at + 1)
    # Versions prove that no event stands between two documents. Between absences there may be any number, which compaction forgets.
    if first is not None and first.at > now:
        raise _uncertain(at, None, "the clock was set back since")
    if last is not None:
        if first is not None and first.before_known:
            proven = last.version == first.previous or (last.after is None and first.before is None)
            refuted = not proven
        else:
            proven = first is None and head is not None and head.version == last.version
            refuted = (
                first is None and head is not None and head.version > last.version and not (head.document is None and last.after is None)
            )
        gap = None if proven else _between(gaps, last.at, first.at if first is not None else now)
        if gap is None and not refuted:
            return Past(last.after, last.version)
        raise _uncertain(at, gap, _MISSING if gap is None else "")
    if first is not None and first.before_known:
        gap = _between(gaps, at, first.at)
        # The event that made the document before ``first`` has no entry, so it must have been in a gap, which must have ended by ``at``.
        # An absence of which the log knew nothing (ABSENT) needs no such event; but a key that was deleted in a gap may be forgotten.
        if gap is None and (first.previous == ABSENT or any(each.until <= at for each in gaps)):
            return Past(first.before, first.previous)
        raise _uncertain(at, gap, _MISSING if gap is None else "")
    if first is None and head is not None and _published_by(head, at):
        return Past(secrets.wire(head.document) if head.document is not None else None, head.version)
    gap = _between(gaps, at, first.at if first is not None else now)
    if gap is None and first is None and (head is None or head.document is None):
        return Past(None, ABSENT)
    raise _uncertain(at, gap)


def document_of_version(entry: Entry | None, version: Position, head: Head | None) -> Past:
    """Returns the document that has a version.

    Raises:
        PolicyError: OUT_OF_RANGE, reason ``NOT_IN_HISTORY``: neither the history nor the log knows the version.
    """
    if entry is not None:
        return Past(entry.after, version)
    if head is not None and head.version == version:
        return Past(secrets.wire(head.document) if head.document is not None else None, version)
    if version == ABSENT:
        return Past(None, ABSENT)
    raise PolicyError(
        Kind.OUT_OF_RANGE,
        Reason.NOT_IN_HISTORY,
        "The history has no such version of this topic and scope: list the history to see its versions.",
        metadata={"version": version},
    )


def _published_by(head: Head, at: int) -> bool:
    placed = head.placed
    return placed is not None and placed.published_at <= at and not (placed.event is not None and placed.event.replicated)


def _between(gaps: Sequence[Gap], start: int, end: int) -> Gap | None:
    return next((gap for gap in gaps if gap.until > start and (gap.since is None or gap.since < end)), None)


def _uncertain(at: int, gap: Gap | None, why: str = "") -> PolicyError:
    metadata = {"as_of_ms": str(at)}
    why = why or "it begins later"
    if gap is not None:
        metadata |= {"gap_reason": gap.reason.name, "gap_end_ms": str(gap.until)}
        if gap.since is not None:
            metadata["gap_start_ms"] = str(gap.since)
        why = f"it may miss events ({gap.reason.name}) there"
    return PolicyError(
        Kind.OUT_OF_RANGE,
        Reason.NOT_IN_HISTORY,
        f"The history can't tell for certain what was there at that time: {why}. List the history to see what it has.",
        metadata=metadata,
    )
