"""The embedded change log as its callers use it: the log of a file (``change_log.ChangeLogs``), and that of each namespace in it.

All of this runs on the event loop; the file itself is read and written on other threads (``file.read``, ``writer``).
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from ...core.names import PolicyKey
from ...core.policies.events import Event, Placed, Position
from ...core.reasons import LogState, Reason
from ...sqlite_file import ERRORS, FileLock
from ...tasks import DaemonThreads, RestartedTask, TaskSet, asked_to_end
from ..avro import Codec
from ..avro.codec import EMBEDDED_CLUSTER
from ..change_log import ANYBODY, LogError, LogSink, Start, already_open, beyond, busy, closed
from . import compaction as compacting
from . import file
from .compaction import Compaction
from .writer import Appender, FileWriter, NamespaceRecord, NewRow, explained

IN_FLIGHT = 10_000
"""The default limit of appends of one namespace that wait for their commit."""
IN_FLIGHT_BYTES = 128 << 20
"""The default limit of bytes, over all namespaces, that wait for their commit."""
CLOSE_SECONDS = 10.0
"""The default time that closing waits for pending commits."""

_log = logging.getLogger(__name__)


class SqliteNamespaceLog:
    """One namespace's log, with one partition, one writer and dense row numbers. Made by ``SqliteLog.open``."""

    partitions = 1
    shared = False
    cluster = EMBEDDED_CLUSTER
    in_place = False
    leadership = ANYBODY

    def __init__(self, change_log: SqliteLog, writer: FileWriter, identity: str, namespace: NamespaceRecord, sink: LogSink) -> None:
        """Opens the log; ``load`` reads it."""
        self.identity = identity
        """The file's own identity, and the namespace's name."""
        self._change_log = change_log
        self._writer = writer
        self._namespace = namespace
        self._sink = sink
        self._pending: deque[NewRow] = deque()
        self._compacted = 0
        self.resumed = False
        """See ``change_log.NamespaceLog.resumed``."""
        self._ended: LogError | None = None
        self._drained = asyncio.Event()
        self._waiting: deque[Placed] | None = deque()
        """Entries that were committed while older ones are still being read from the file; None once all are read."""
        self._loading: asyncio.Task[None] | None = None
        self._owned = TaskSet(f"the change log of {namespace.name}")

    def partition_of(self, key: PolicyKey) -> int:
        """0: there is one partition."""
        del key
        return 0

    def follows(self, earlier: Position, later: Position) -> bool:
        """Whether the row numbers are adjacent: rows are numbered without gaps."""
        return file.directly_follows(earlier, later)

    def contend(self) -> None:
        """Does nothing: there is no leader to elect."""

    def complete_after(self, partition: int) -> Position | None:
        """The newest row that a compaction may have deleted before the opening; "" if there is none."""
        del partition
        return file.position_of(self._compacted) if self._compacted else ""

    async def end(self, partition: int) -> Position:
        """Returns the position of the newest committed row; "" if there is none.

        Raises:
            LogError: the log is closed or lost.
        """
        del partition
        if self._ended is not None:
            raise self._refusal()
        return file.position_of(self._namespace.committed) if self._namespace.committed else ""

    def append(self, event: Event) -> None:
        """Takes an event for appending (see ``change_log.NamespaceLog.append``)."""
        log = self._change_log
        if self._ended is not None or len(self._pending) >= log.in_flight_limit or log.bytes_in_flight >= log.in_flight_bytes:
            raise self._refusal()
        key, payload, properties, _ = log.codec.encode(event)
        text = file.text_of(properties)
        row = NewRow(self, self._namespace, event, key, text, payload, len(key) + len(text) + (len(payload) if payload else 0))
        log.bytes_in_flight += row.size
        self._namespace.appended = True
        self._pending.append(row)
        self._writer.append(row)

    def committed(self, placed: Sequence[Placed]) -> None:
        """Reports the next pending events as durable.

        They are reported as read first, then as acknowledged: an event that was read needs no proof that no other event stands before it.
        """
        self._change_log.refused = None
        self._namespace.committed += len(placed)
        awaited = bool(self._pending)  # False if close gave up waiting: the events were reported as failed then
        if awaited:
            size = sum([self._pending.popleft().size for _ in placed])
            self._change_log.bytes_in_flight -= size
            self._namespace.bytes_since += size
        if (log := self._change_log.opened(self._namespace)) is not None:
            log.show(placed)
        if awaited:
            self._sink.acknowledged(placed)
        if not self._pending:
            self._drained.set()

    def refused(self, count: int, error: sqlite3.Error) -> None:
        """Reports the next ``count`` pending events as failed: they certainly are not in the file."""
        self._change_log.refused = error
        self._fail(count, LogError(LogState.APPEND_FAILED, f"The change log could not be written: {explained(error)}"))

    def lose(self, unknown: int, error: LogError) -> None:
        """Ends the log because the file can't be used: fails the pending events, then reports the loss to the sink.

        ``unknown``: how many of the next pending events may be in the file or not; those behind them certainly are not.
        """
        self._ended = error
        self._leave()
        if self._loading is None:  # still in ``load``, which raises the error to the opener
            return
        self._loading.cancel()
        self._fail(unknown, LogError(error.state or error.reason, error.message, outcome_unknown=True))
        self._fail(len(self._pending), LogError(error.state or error.reason, error.message))
        self._sink.lost(error)

    def show(self, placed: Sequence[Placed]) -> None:
        """Reports committed entries as read, or, while older ones are still being read from the file, queues them behind these."""
        if self._waiting is None:
            self._sink.read(placed)
        else:
            self._waiting.extend(placed)

    async def load(self, opened: file.Opened, readers: DaemonThreads, start: Start | None) -> None:
        """Starts reading what the file held at the opening, on ``readers``, from ``start`` on if that is possible.

        Raises:
            LogError: the file can't be read, or was lost meanwhile.
        """
        entries: file.Entries | None = None
        try:
            if self._namespace.begun:
                arguments = opened, self._namespace.id, self._namespace.committed, start
                entries = await asyncio.get_running_loop().run_in_executor(readers, file.read, *arguments)
                self.resumed, self._compacted = entries.resumed, entries.compacted
            if self._ended is not None:
                raise self._refusal()
        except BaseException as error:
            self._leave()
            if entries is not None:
                with suppress(RuntimeError):  # the threads have ended, and so has the process's use of the file
                    readers.submit(entries.connection.close)
            if isinstance(error, ERRORS):
                raise file.unreadable(f"The change log of {self._namespace.name}", error) from error
            raise
        self._loading = self._owned.begin(self._load(entries, readers), "reading it")

    async def close(self) -> None:
        """Waits for pending commits, ``close_seconds`` at the most; events that are left then fail with an unknown outcome."""
        if self._ended is None:
            self._ended = closed(self._namespace.name)
        if self._pending:
            self._drained.clear()
            try:
                await asyncio.wait_for(self._drained.wait(), self._change_log.close_seconds)
            except TimeoutError:
                why = "The change log was closed before it could write."
                self._fail(len(self._pending), LogError(Reason.LOG_UNAVAILABLE, why, outcome_unknown=True))
        if self._loading is not None:
            self._loading.cancel()
            await asyncio.wait([self._loading])
        self._leave()

    async def _load(self, entries: file.Entries | None, readers: DaemonThreads) -> None:
        name = self._namespace.name
        try:
            await self._read_all(entries, readers)
            self._namespace.damage = ""
        except ERRORS as error:
            loss = file.unreadable(f"The change log of {name}", error)
            if loss.message != self._namespace.damage:  # each opening finds the same damage again: log it once
                _log.error("%s", loss.message)
            self._namespace.damage = loss.message
            self.lose(len(self._pending), loss)
        except (Exception, asyncio.CancelledError) as error:  # an unforeseen error must not leave the namespace loading for ever
            if asked_to_end(error):
                raise
            _log.exception("the change log of %s can't be read", name)
            self.lose(len(self._pending), LogError(LogState.LOST, f"The change log's file can't be read: {error!r}."))

    async def _read_all(self, entries: file.Entries | None, readers: DaemonThreads) -> None:
        loop, no_more = asyncio.get_running_loop(), list[Placed]()
        if entries is not None:
            try:
                while page := await loop.run_in_executor(readers, next, entries.pages, no_more):
                    self._sink.read(page)
            finally:
                readers.submit(entries.connection.close)  # queued behind a page that may still be read on that thread
        self._sink.caught_up()
        while self._waiting:
            waiting = self._waiting
            self._sink.read([waiting.popleft() for _ in range(min(file.PAGE, len(waiting)))])
            await asyncio.sleep(0)
        self._waiting = None

    def _refusal(self) -> LogError:
        """Makes the error with which another event is refused: the log has ended, or the limit of events or that of bytes is reached."""
        if self._ended is not None:
            return LogError(self._ended.state or self._ended.reason, self._ended.message)
        log = self._change_log
        if log.bytes_in_flight < log.in_flight_bytes:
            return busy(len(self._pending))
        why = f"{log.bytes_in_flight} bytes already wait for the change log: send fewer at once."
        return beyond("max_in_flight_bytes", log.in_flight_bytes, why)

    def _fail(self, count: int, error: LogError) -> None:
        for _ in range(min(count, len(self._pending))):
            row = self._pending.popleft()
            self._change_log.bytes_in_flight -= row.size
            self._sink.append_failed(row.event, error)
        if not self._pending:
            self._drained.set()

    def _leave(self) -> None:
        self._change_log.left(self, self._namespace)


class SqliteLog:
    """The change logs of one file, which belongs to one process at a time."""

    def __init__(
        self,
        path: Path | str | None = None,
        *,
        codec: Codec | None = None,
        compaction: Compaction | None = None,
        now: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        in_flight_limit: int = IN_FLIGHT,
        close_seconds: float = CLOSE_SECONDS,
        connection: type[sqlite3.Connection] = sqlite3.Connection,
    ) -> None:
        """Keeps the path and the settings; ``start`` opens the file.

        ``path``: the file, whose directory exists; None: one in a temporary directory, which is removed by ``close``. Beside the file stand
        ``-wal`` and ``-shm`` (SQLite's), ``-mark`` and ``.lock``. ``now``: milliseconds since 1970; called on the event loop's thread and
        the writer's. ``in_flight_limit``: how many appends of one namespace may wait for their commit. ``connection``: the class of the
        connection that writes; tests inject faults with it.
        """
        self._temporary: TemporaryDirectory[str] | None = None
        if path is None:
            self._temporary = TemporaryDirectory(prefix="topicpolicies-")
            path = Path(self._temporary.name, "policies.db")
        self.path = Path(path).resolve()
        self.codec = codec or Codec()
        self.close_seconds = close_seconds
        self.bytes_in_flight = 0
        """Bytes of appends that wait for their commit, over all namespaces."""
        self.refused: sqlite3.Error | None = None
        """Why the last commit was refused; None: it succeeded."""
        self._compaction = compaction or Compaction()
        self._now = now
        self.in_flight_limit, self.in_flight_bytes = in_flight_limit, IN_FLIGHT_BYTES
        self._connection_kind = connection
        self._lock = FileLock(self.path)
        self._readers = DaemonThreads(1, "sqlite-reader")
        self._starting: asyncio.Task[None] | None = None
        """Opens the file; None: nothing does, or has since the file was lost."""
        self._compacting = asyncio.Lock()
        self._opened: file.Opened | None = None
        self._writer: FileWriter | None = None
        self._namespaces: dict[str, NamespaceRecord] = {}
        self._logs: dict[str, SqliteNamespaceLog] = {}
        self._compactor = RestartedTask("Compacting change logs", self._compact_for_ever)
        self._closed = False

    async def start(self) -> None:
        """Locks and opens the file, and creates it if there is none; does nothing if it is open. After a loss, opens it anew.

        ``open`` calls this too; a server calls it first, to fail at startup if the file can't be used. If the caller is cancelled, the file
        is opened all the same, and ``close`` closes it.

        Raises:
            LogError: another process has the file, its format is unknown to this release, or the log was closed (``LOG_UNAVAILABLE``);
                or the file can't be used (``LOG_FILE_UNUSABLE``).
        """
        if self._closed:
            raise LogError(Reason.LOG_UNAVAILABLE, f"The change log {self.path} is closed.")
        if self._starting is None:
            self._starting = asyncio.create_task(self._start())
        await asyncio.shield(self._starting)

    async def _start(self) -> None:
        try:
            arguments = self.path, self._lock, self._connection_kind, self.codec
            opened = await asyncio.get_running_loop().run_in_executor(self._readers, file.open_file, *arguments)
        except BaseException:
            self._starting = None
            raise
        self._namespaces = {
            row.name: NamespaceRecord(row.name, row.id, row.last, row.last, opened.identity.base) for row in opened.namespaces
        }
        self._opened, self._writer = opened, FileWriter(opened, self._now, self._broken)
        self.refused = None
        self._compactor.start()

    async def open(self, namespace: str, sink: LogSink, start: Start | None = None) -> SqliteNamespaceLog:
        """Opens a namespace's log (see ``change_log.ChangeLogs.open``). A namespace that is not in the file is empty."""
        opened, writer = await self._use()
        identity, base = opened.identity
        if namespace in self._logs:
            raise already_open(namespace)
        known = self._namespaces.setdefault(namespace, NamespaceRecord(namespace, 0, base, base, base))
        log = self._logs[namespace] = SqliteNamespaceLog(self, writer, f"{identity}/{namespace}", known, sink)
        if start is not None and (start.identity != log.identity or len(start.positions) != 1 or start.in_place):
            start = None
        await log.load(opened, self._readers, start)
        return log

    async def _use(self) -> tuple[file.Opened, FileWriter]:
        await self.start()
        if self._opened is None or self._writer is None:
            raise LogError(LogState.LOST, f"The change log's file {self.path} was lost again while it was opened.")
        return self._opened, self._writer

    def opened(self, namespace: NamespaceRecord) -> SqliteNamespaceLog | None:
        """The open log of a namespace; None if it is not open, or the file was opened anew since."""
        return self._logs.get(namespace.name) if self._namespaces.get(namespace.name) is namespace else None

    def left(self, log: SqliteNamespaceLog, namespace: NamespaceRecord) -> None:
        """Notes that a log is not open any more. A namespace without events is forgotten: callers may ask for any number of them."""
        if self._logs.get(namespace.name) is not log:
            return
        del self._logs[namespace.name]
        if namespace.id == 0 and not namespace.appended:
            self._namespaces.pop(namespace.name, None)

    async def reach(self) -> None:
        """Returns when the file can be written (see ``change_log.ChangeLogs.reach``); opens the file anew after a loss.

        The last commit's outcome tells; only if that was refused, a small write is tried.
        """
        _, writer = await self._use()
        if self.refused is None:
            return
        try:
            await writer.run(writer.probe)
            self.refused = None
        except sqlite3.Error as error:
            raise LogError(LogState.APPEND_FAILED, f"The change log can't be written now: {explained(error)}") from error

    def cut_off(self, error: LogError) -> None:
        """Does nothing: appends to a file that can't be written are refused at once, so none of them waits."""

    def connections(self) -> None:
        """There are none."""

    async def close(self) -> None:
        """Commits pending appends, closes the file and releases its lock; takes three times ``close_seconds`` at the most."""
        if self._closed:
            return
        self._closed = True
        if self._starting is not None:
            await asyncio.wait([self._starting])
        writer, self._writer, self._opened = self._writer, None, None
        await self._compactor.stop()
        await asyncio.gather(*(log.close() for log in self._logs.values()))
        # The readers' connections are closed first: SQLite removes -wal and -shm with the last connection, which is the writer's.
        await asyncio.wait([asyncio.wrap_future(self._readers.submit(int))], timeout=self.close_seconds)
        if writer is None or await writer.stop(self.close_seconds):
            self._lock.release()
        else:  # the writer's thread still uses the file, so no other process may open it before this one has ended
            _log.error("%s is still being written to; it stays locked until this process ends", self.path)
        self._readers.shutdown(wait=False)
        if self._temporary is not None:
            self._temporary.cleanup()

    def _broken(self, error: BaseException, unknown: Mapping[Appender, int]) -> None:
        """Reports all open logs as lost; the next ``start`` opens the file anew. See ``FileWriter``."""
        self._writer = self._opened = self._starting = None
        loss = LogError(LogState.LOST, f"The change log's file {self.path} can't be written: {error}. Open the log again.")
        if file.is_damage(error):
            loss = file.unreadable(f"The change log {self.path}", error)
        for log in list(self._logs.values()):
            log.lose(unknown.get(log, 0), loss)

    async def compact(self, name: str) -> int:
        """Compacts a namespace now, according to the settings; returns how many events were deleted.

        Raises:
            LogError: the file could not be read or written.
        """
        _, writer = await self._use()
        async with self._compacting:
            namespace = self._namespaces.get(name)
            if namespace is None or namespace.id == 0:
                return 0
            size = namespace.bytes_since
            try:
                done = await compacting.delete_superseded(
                    self.path, writer, self._readers, self._compaction, namespace.id, last=namespace.committed, now=self._now()
                )
            except sqlite3.Error as error:
                raise LogError(Reason.LOG_UNAVAILABLE, f"{name} could not be compacted: {error}.") from error
            namespace.considered, namespace.kept = max(namespace.considered, done.considered), done.kept
            namespace.bytes_since = max(namespace.bytes_since - size, 0)
            return done.deleted

    async def _compact_for_ever(self) -> None:
        while True:
            await asyncio.sleep(self._compaction.interval_seconds)
            for name, namespace in list(self._namespaces.items()):
                if not compacting.is_due(namespace, self._compaction):
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
