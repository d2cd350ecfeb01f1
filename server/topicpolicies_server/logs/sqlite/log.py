"""The embedded change log as its callers use it: the log of a file (``change_log.ChangeLog``), and that of each namespace in it.

All of this runs on the event loop; the file itself is read and written on other threads (``reader``, ``writer``).
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from ...core.policies.events import Event, Placed, Position
from ...core.reasons import LogState, Reason
from ...sqlite_file import ERRORS, FileLock
from ...tasks import RestartedTask, TaskSet, asked_to_end
from ...threads import DaemonThreads
from .. import rows
from ..avro import Codec
from ..change_log import LogError, LogSink, Start, already_open, beyond, closed
from . import file
from .compaction import Compaction, Pass
from .reader import PAGE, Known, Reader
from .writer import Appender, NewRow, Writer, WriterNamespace, explained

IN_FLIGHT = 8_192
"""The default limit of appends of one namespace that wait for their commit."""
IN_FLIGHT_BYTES = 128 << 20
"""The default limit of bytes, over all namespaces, that wait for their commit."""
CLOSE_SECONDS = 10.0
"""The default time that closing waits for pending commits."""

_TURNS = 12
"""Parts of the compaction's interval: after each part namespaces with many superseded events are compacted, after the last one all are
considered."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class InFlight:
    """Limits and state of the appends in flight; all namespaces of a file share one."""

    events: int
    """The limit of appends of one namespace that wait for their commit."""
    bytes: int
    """The limit of bytes, over all namespaces, that wait for their commit."""
    close_seconds: float
    """How long closing a log waits for its pending commits."""
    bytes_now: int = 0
    """Bytes that wait for their commit now, over all namespaces."""
    doubt: sqlite3.Error | None = None
    """Why nothing can be written for now, so that appends are refused (state *doubtful* of ``writer``); None: appends are taken."""
    refused: sqlite3.Error | None = None
    """Why the last commit was refused; None: it succeeded."""


@dataclass(slots=True)
class NamespaceState:
    """What the event loop's side knows of a namespace in the file, whether its log is open or not."""

    namespace: WriterNamespace
    committed: int
    """The highest row number that was reported as committed, or found in the file when it was opened."""
    considered: int
    """The highest row number that a compaction has considered since the file was opened; at first that at which the file's life began."""
    compacted: int = 0
    """The highest row number that a compaction may have deleted."""
    kept: int = 0
    """How many of the events that it considered the last compaction kept: about one for each key at that time."""
    bytes_since: int = 0
    """Bytes of the events that were appended since the last compaction, or since the file was opened."""
    damage: str = ""
    """The damage that was last logged; "" if the last load found none."""
    appended: bool = False
    """Whether an event was handed to the writer since the file was opened."""
    log: SqliteNamespaceLog | None = field(default=None, repr=False)
    """The open log of the namespace; None if it is not open."""

    @property
    def is_needed(self) -> bool:
        """Whether the state may not be forgotten: the log is open, or the namespace has, or may get, events."""
        return self.log is not None or self.appended or self.namespace.id != 0

    @property
    def begun(self) -> bool:
        """Whether an event was ever appended to the namespace."""
        return self.namespace.id != 0 and self.committed > 0

    def note_compacted(self, row: int) -> None:
        """Records that a compaction may delete rows up to this one from now on."""
        self.compacted = max(self.compacted, row)


class SqliteNamespaceLog(rows.Brokerless):
    """One namespace's log, with one partition and dense row numbers. Made by ``SqliteLog.open``."""

    def __init__(
        self,
        identity: str,
        state: NamespaceState,
        sink: LogSink,
        codec: Codec,
        in_flight: InFlight,
        append: Callable[[NewRow], None],
        ended: Callable[[NamespaceState], None],
    ) -> None:
        """Opens the log; ``ended`` is called when it is not open any more."""
        self.identity = identity
        """The file's own identity, and the namespace's name."""
        self._state = state
        self._sink = sink
        self._encode = codec.encode
        self._in_flight = in_flight
        self._append = append
        self._tell_end = ended
        self._pending: deque[NewRow] = deque()
        self._compacted = 0
        self.resumed = False
        """See ``change_log.NamespaceLog.resumed``."""
        self._ended: LogError | None = None
        self._drained: asyncio.Event = asyncio.Event()
        self._waiting: deque[Placed] | None = deque()
        """Entries that were committed while older ones are still being read from the file; None once all are read."""
        self._loading: asyncio.Task[None] | None = None
        self._owned = TaskSet(f"the change log of {state.namespace.name}")
        state.log = self

    @property
    def in_flight(self) -> int:
        """The number of appends that wait for their commit."""
        return len(self._pending)

    def complete_after(self, partition: int) -> Position | None:
        """The newest row that a compaction may have deleted before the opening; "" if there is none."""
        del partition
        return rows.position_of(self._compacted) if self._compacted else ""

    async def end(self, partition: int) -> Position:
        """Returns the position of the newest committed row; "" if there is none.

        Raises:
            LogError: the log is closed or lost.
        """
        del partition
        if self._ended is not None:
            raise LogError(self._ended.state or self._ended.reason, self._ended.message)
        return rows.position_of(self._state.committed) if self._state.committed else ""

    def append(self, event: Event) -> None:
        """Takes an event for appending (see ``change_log.NamespaceLog.append``)."""
        in_flight = self._in_flight
        if self._ended is not None:
            raise LogError(self._ended.state or self._ended.reason, self._ended.message)
        if in_flight.doubt is not None:
            raise LogError(LogState.APPEND_FAILED, f"The change log can't be written now: {explained(in_flight.doubt)}")
        if len(self._pending) >= in_flight.events or in_flight.bytes_now >= in_flight.bytes:
            of_events = len(self._pending) >= in_flight.events
            raise beyond(
                "max_in_flight_per_namespace" if of_events else "max_in_flight_bytes",
                in_flight.events if of_events else in_flight.bytes,
                f"{len(self._pending)} events of the namespace and {in_flight.bytes_now} bytes of all already wait for the change log:"
                " send fewer at once, or raise max_in_flight_per_namespace or max_in_flight_bytes.",
            )
        key, payload, properties, _ = self._encode(event)
        text = file.text_of(properties)
        row = NewRow(self, self._state.namespace, event, key, text, payload, len(key) + len(text) + (len(payload) if payload else 0))
        in_flight.bytes_now += row.size
        self._state.appended = True
        self._pending.append(row)
        self._append(row)

    def committed(self, placed: Sequence[Placed]) -> None:
        """Reports the next pending events as durable (``writer.Appender``).

        They are reported as read first, then as appended: an event that was read needs no proof that no other event stands before it.
        """
        self._in_flight.refused = None
        self._state.committed += len(placed)
        awaited = bool(self._pending)  # False if close gave up waiting: the events were reported as failed then
        if awaited:
            size = sum([self._pending.popleft().size for _ in placed])
            self._in_flight.bytes_now -= size
            self._state.bytes_since += size
        if self._state.log is not None:
            self._state.log.show(placed)
        if awaited:
            self._sink.appended(placed)
        if not self._pending:
            self._drained.set()

    def refused(self, count: int, error: sqlite3.Error) -> None:
        """Reports the next ``count`` pending events as failed: they certainly are not in the file (``writer.Appender``)."""
        self._in_flight.refused = error
        self._fail(
            min(count, len(self._pending)), LogError(LogState.APPEND_FAILED, f"The change log could not be written: {explained(error)}")
        )

    def lose(self, unknown: int, error: LogError) -> None:
        """Ends the log because the file can't be used: fails the pending events, then reports the loss to the sink.

        Args:
            unknown: how many of the next pending events may be in the file or not; those behind them certainly are not.
            error: why.
        """
        self._ended = error
        self._leave()
        if self._loading is None:  # still in ``load``, which raises the error to the opener
            return
        self._loading.cancel()
        self._fail(min(unknown, len(self._pending)), LogError(error.state or error.reason, error.message, outcome_unknown=True))
        self._fail(len(self._pending), LogError(error.state or error.reason, error.message))
        self._sink.lost(error)

    def _fail(self, count: int, error: LogError) -> None:
        for _ in range(count):
            row = self._pending.popleft()
            self._in_flight.bytes_now -= row.size
            self._sink.append_failed(row.event, error)
        if not self._pending:
            self._drained.set()

    def show(self, placed: Sequence[Placed]) -> None:
        """Reports committed entries as read, or, while older ones are still being read from the file, queues them behind these."""
        if self._waiting is None:
            self._sink.read(placed)
        else:
            self._waiting.extend(placed)

    async def load(self, reader: Reader | None, readers: Executor) -> None:
        """Starts reading what the file held at the opening, on ``readers``; ``reader`` is None if it held nothing.

        Raises:
            LogError: the file can't be read, or was lost meanwhile.
        """
        try:
            if reader is not None:
                await asyncio.get_running_loop().run_in_executor(readers, reader.begin)
                self.resumed = reader.resumed
            if self._ended is not None:
                raise self._ended
        except BaseException as error:
            self._leave()
            if reader is not None:
                with suppress(RuntimeError):  # the readers were shut down: the connection is closed when its object is collected
                    readers.submit(reader.close)
            if isinstance(error, ERRORS):
                raise file.unreadable(f"The change log of {self._state.namespace.name}", error) from error
            raise
        self._compacted = self._state.compacted  # reading has begun: rows that were deleted before stood at or below this one
        self._loading = self._owned.begin(self._load(reader, readers), "reading it")

    async def _load(self, reader: Reader | None, readers: Executor) -> None:
        name = self._state.namespace.name
        try:
            await self._read_all(reader, readers)
            self._state.damage = ""
        except ERRORS as error:
            loss = file.unreadable(f"The change log of {name}", error)
            if loss.message != self._state.damage:  # each opening finds the same damage again: log it once
                _log.error("%s", loss.message)
            self._state.damage = loss.message
            self.lose(len(self._pending), loss)
        except (Exception, asyncio.CancelledError) as error:  # an unforeseen error must not leave the namespace loading for ever
            if asked_to_end(error):
                raise
            _log.exception("the change log of %s can't be read", name)
            self.lose(len(self._pending), LogError(LogState.LOST, f"The change log's file can't be read: {error!r}."))

    async def _read_all(self, reader: Reader | None, readers: Executor) -> None:
        loop = asyncio.get_running_loop()
        if reader is not None:
            try:
                while page := await loop.run_in_executor(readers, reader.next_page):
                    self._sink.read(page)
            finally:
                readers.submit(reader.close)  # queued behind a page that may still be read on that thread
        self._sink.caught_up()
        while self._waiting:
            waiting = self._waiting
            self._sink.read([waiting.popleft() for _ in range(min(PAGE, len(waiting)))])
            await asyncio.sleep(0)
        self._waiting = None

    async def close(self) -> None:
        """Waits for pending commits, ``close_seconds`` at the most; events that are left then fail with an unknown outcome."""
        if self._ended is None:
            self._ended = closed(self._state.namespace.name)
        if self._pending:
            self._drained.clear()
            try:
                await asyncio.wait_for(self._drained.wait(), self._in_flight.close_seconds)
            except TimeoutError:
                self._fail(
                    len(self._pending),
                    LogError(Reason.LOG_UNAVAILABLE, "The change log was closed before it could write.", outcome_unknown=True),
                )
        if self._loading is not None:
            self._loading.cancel()
            await asyncio.wait([self._loading])
        if self._state.log is self:
            self._leave()

    def _leave(self) -> None:
        self._state.log = None
        self._tell_end(self._state)


class SqliteLog:
    """The change logs of one file, which belongs to one process at a time."""

    def __init__(
        self,
        path: Path | str,
        *,
        codec: Codec | None = None,
        compaction: Compaction | None = None,
        now: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        in_flight_limit: int = IN_FLIGHT,
        in_flight_bytes: int = IN_FLIGHT_BYTES,
        close_seconds: float = CLOSE_SECONDS,
        connection: type[sqlite3.Connection] = sqlite3.Connection,
    ) -> None:
        """Keeps the path and the settings; ``start`` opens the file.

        Args:
            path: the file; its directory exists. Beside it stand ``-wal`` and ``-shm`` (SQLite's), ``-mark`` and ``.lock``.
            codec: the codec that payloads are written with.
            compaction: when events are deleted.
            now: the clock, in milliseconds since 1970; called on the event loop's thread and the writer's.
            in_flight_limit: how many appends of one namespace may wait for their commit.
            in_flight_bytes: how many bytes of appends, over all namespaces, may wait for their commit.
            close_seconds: how long closing waits for pending commits.
            connection: the class of the connection that writes; tests inject faults with it.
        """
        self.path = Path(path).resolve()
        self._codec = codec or Codec()
        self._compaction = compaction or Compaction()
        self._now = now
        self._in_flight = InFlight(in_flight_limit, in_flight_bytes, close_seconds)
        self._connection_kind = connection
        self._lock = FileLock(self.path)
        self._readers = DaemonThreads(1, "sqlite-reader")
        self._starting = asyncio.Lock()
        self._compacting = asyncio.Lock()
        self._opened: file.Opened | None = None
        self._writer: Writer | None = None
        self._namespaces: dict[str, NamespaceState] = {}
        self._compactor: RestartedTask | None = None
        self._closed = False

    async def start(self) -> None:
        """Locks and opens the file, and creates it if there is none; does nothing if it is open. After a loss, opens it anew.

        ``open`` calls this too; a server calls it first, to fail at startup if the file can't be used.

        Raises:
            LogError: another process has the file (reason ``LOG_FILE_IN_USE``), its format is unknown to this release
                (``LOG_FORMAT_UNKNOWN``), it can't be used (``LOG_FILE_UNUSABLE``), or the log was closed (``LOG_CLOSED``).
        """
        async with self._starting:
            if self._closed:
                raise LogError(Reason.LOG_UNAVAILABLE, f"The change log {self.path} is closed.")
            if self._opened is not None:
                return
            self._opened = opened = await asyncio.get_running_loop().run_in_executor(
                self._readers, file.open_file, self.path, self._lock, self._connection_kind, self._codec
            )
            self._namespaces = {
                row.name: NamespaceState(WriterNamespace(row.name, row.id, row.last), row.last, opened.identity.base, row.compacted)
                for row in opened.namespaces
            }
            reopen = partial(file.connect, self.path, self._connection_kind)
            self._writer = Writer(opened, self._now, reopen, self)
            self._in_flight.doubt = self._in_flight.refused = None
            if self._compactor is None:
                self._compactor = RestartedTask("Compacting change logs", self._compact_for_ever)
                self._compactor.start()

    def namespaces(self) -> list[str]:
        """The names of the namespaces to which an event was ever appended, sorted."""
        return sorted(name for name, state in self._namespaces.items() if state.begun)

    async def open(self, namespace: str, sink: LogSink, start: Start | None = None) -> SqliteNamespaceLog:
        """Opens a namespace's log (see ``change_log.ChangeLog.open``). A namespace that is not in the file is empty."""
        await self.start()
        opened = self._opened
        if opened is None or self._writer is None:
            raise LogError(LogState.LOST, f"The change log's file {self.path} was lost again while it was opened.")
        identity, base = opened.identity
        state = self._namespaces.setdefault(namespace, NamespaceState(WriterNamespace(namespace, 0, base), base, base))
        if state.log is not None:
            raise already_open(namespace)
        log = SqliteNamespaceLog(f"{identity}/{namespace}", state, sink, self._codec, self._in_flight, self._writer.append, self._forget)
        known = None
        if start is not None and start.identity == log.identity and len(start.positions) == 1 and not start.in_place:
            known = Known(start.positions[0], start.anchors[0])
        reader = Reader(self.path, opened.codecs, state.namespace.id, namespace, state.committed, known) if state.begun else None
        await log.load(reader, self._readers)
        return log

    def _forget(self, state: NamespaceState) -> None:
        """Forgets a namespace to which nothing was ever appended: callers may ask for any number of them."""
        name = state.namespace.name
        if not state.is_needed and self._namespaces.get(name) is state:
            del self._namespaces[name]

    async def reach(self) -> None:
        """Returns when the file can be written (see ``change_log.Reached``); opens the file anew after a loss.

        The last commit's outcome tells; only if that was refused, a small write is tried.
        """
        await self.start()
        writer, in_flight = self._writer, self._in_flight
        if writer is None:
            raise LogError(LogState.APPEND_FAILED, f"The change log's file {self.path} was lost again while it was opened.")
        try:
            if in_flight.doubt is not None:
                raise in_flight.doubt
            if in_flight.refused is not None:
                await writer.run(writer.probe)
                in_flight.refused = None
        except sqlite3.Error as error:
            raise LogError(LogState.APPEND_FAILED, f"The change log can't be written now: {explained(error)}") from error

    def cut_off(self, error: LogError) -> None:
        """Does nothing: appends to a file that can't be written are refused at once, so none of them waits."""

    async def close(self) -> None:
        """Commits pending appends, closes the file and releases its lock; takes three times ``close_seconds`` at the most."""
        async with self._starting:
            if self._closed:
                return
            self._closed = True
            writer, self._writer = self._writer, None
            self._opened = None
            if self._compactor is not None:
                await self._compactor.stop()
            await asyncio.gather(*(state.log.close() for state in self._namespaces.values() if state.log is not None))
            # The readers' connections are closed first: SQLite removes -wal and -shm with the last connection, which is the writer's.
            await asyncio.wait([asyncio.wrap_future(self._readers.submit(int))], timeout=self._in_flight.close_seconds)
            if writer is None or await writer.stop(self._in_flight.close_seconds):
                self._lock.release()
            else:  # the writer's thread still uses the file, so no other process may open it before this one has ended
                _log.error("%s is still being written to; it stays locked until this process ends", self.path)
            self._readers.shutdown(wait=False)

    def broken(self, error: BaseException, unknown: Mapping[Appender, int]) -> None:
        """Reports all open logs as lost; the next ``start`` opens the file anew (``writer.Owner``)."""
        self._writer = self._opened = None
        loss = LogError(LogState.LOST, f"The change log's file {self.path} can't be written: {error}. Open the log again.")
        if file.is_damage(error):
            loss = file.unreadable(f"The change log {self.path}", error)
        for state in list(self._namespaces.values()):
            if state.log is not None:
                state.log.lose(unknown.get(state.log, 0), loss)

    def doubtful(self, error: sqlite3.Error | None) -> None:
        """Has appends refused for now because of ``error``, while logs are still read; None: writing works again (``writer.Owner``)."""
        self._in_flight.doubt = error

    async def compact(self, namespace: str) -> int:
        """Compacts a namespace now, according to the settings; returns how many events were deleted.

        Raises:
            LogError: the file could not be read or written.
        """
        await self.start()
        async with self._compacting:
            state, writer = self._namespaces.get(namespace), self._writer
            if state is None or writer is None or state.namespace.id == 0:
                return 0
            size = state.bytes_since
            try:
                done = await Pass(self.path, writer, self._readers, self._compaction).run(
                    state.namespace.id, state.committed, self._now(), state.note_compacted
                )
            except sqlite3.Error as error:
                raise LogError(Reason.LOG_UNAVAILABLE, f"{namespace} could not be compacted: {error}.") from error
            state.considered, state.kept = max(state.considered, done.considered), done.kept
            state.bytes_since = max(state.bytes_since - size, 0)
            return done.deleted

    async def _compact_for_ever(self) -> None:
        turn = 0
        while True:
            await asyncio.sleep(self._compaction.interval_seconds / _TURNS)
            turn = (turn + 1) % _TURNS
            for name, state in list(self._namespaces.items()):
                if not self._is_worth_a_pass(state, in_turn=not turn):
                    continue
                try:
                    deleted = await self.compact(name)
                except LogError as error:
                    _log.warning("%s", error)
                except Exception:  # noqa: BLE001 - whatever it is, the others are compacted, and this one later
                    _log.exception("%s could not be compacted", name)
                else:
                    if deleted:
                        _log.info("forgot %d superseded events of %s", deleted, name)

    def _is_worth_a_pass(self, state: NamespaceState, *, in_turn: bool) -> bool:
        settings, superseded = self._compaction, state.committed - state.considered
        if state.bytes_since >= settings.retained_bytes:
            return True
        return superseded >= max(settings.minimum, state.kept) and (in_turn or superseded >= 2 * settings.retained)
