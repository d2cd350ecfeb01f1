"""The change logs of one SQLite file (``change_log.ChangeLog``)."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from ...core.reasons import LogState, Reason
from ...file_lock import FileLock
from ...tasks import RestartedTask
from ...threads import DaemonThreads
from ..avro import Codec
from ..change_log import LogError, LogSink, Start, already_open
from . import file
from .appending import Appender, WriterNamespace
from .compaction import Compaction, Pass
from .loading import Known, Loading
from .namespace import InFlight, NamespaceState, SqliteNamespaceLog
from .opening import Opened, open_file
from .reach import ask
from .refusals import is_damage, unreadable
from .writer import Tail, Writer

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
        self._opened: Opened | None = None
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
                self._readers, open_file, self.path, self._lock, self._connection_kind, self._codec
            )
            self._namespaces = {
                row.name: NamespaceState(WriterNamespace(row.name, row.id, row.last), row.last, row.compacted) for row in opened.namespaces
            }
            reopen = partial(file.connect, self.path, self._connection_kind)
            self._writer = Writer(opened.connection, opened.schema, self._now, Tail(opened.mark, opened.high_water), reopen, self)
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
        if self._opened is None or self._writer is None:
            raise LogError(LogState.LOST, f"The change log's file {self.path} was lost again while it was opened.")
        identity = self._opened.identity
        state = self._namespaces.setdefault(namespace, NamespaceState(WriterNamespace(namespace, 0, identity.base), identity.base))
        if state.log is not None:
            raise already_open(namespace)
        name = f"{identity.name}/{namespace}"
        log = SqliteNamespaceLog(name, state, sink, self._codec, self._in_flight, self._writer.append, self._forget)
        known = None
        if start is not None and start.identity == log.identity and len(start.positions) == 1 and not start.in_place:
            known = Known(start.positions[0], start.anchors[0])
        loading = Loading(self.path, self._opened.codecs, state.namespace.id, namespace, state.committed, known) if state.begun else None
        await log.load(loading, self._readers)
        return log

    def _forget(self, state: NamespaceState) -> None:
        """Forgets a namespace to which nothing was ever appended: callers may ask for any number of them."""
        name = state.namespace.name
        if not state.is_needed and self._namespaces.get(name) is state:
            del self._namespaces[name]

    async def reach(self) -> None:
        """Returns when the file can be written (see ``change_log.Reached``); opens the file anew after a loss."""
        await self.start()
        if self._opened is None or self._writer is None:
            raise LogError(LogState.APPEND_FAILED, f"The change log's file {self.path} was lost again while it was opened.")
        await ask(self._writer, self._in_flight)

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
        if is_damage(error):
            loss = unreadable(f"The change log {self.path}", error)
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
                    state.namespace.id, state.committed, self._now(), state.note_compaction
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
                    _log.info("forgot %d superseded events of %s", deleted, name)

    def _is_worth_a_pass(self, state: NamespaceState, *, in_turn: bool) -> bool:
        settings, superseded = self._compaction, state.superseded
        if state.bytes_since >= settings.retained_bytes:
            return True
        return superseded >= max(settings.minimum, state.kept) and (in_turn or superseded >= 2 * settings.retained)
