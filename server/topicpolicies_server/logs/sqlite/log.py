"""The change logs of one SQLite file (``change_log.ChangeLog``)."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ...core.errors import Kind
from ...core.reasons import Reason
from ..avro import Codec
from ..change_log import LogError, LogSink
from . import file
from .compaction import Compaction, Pass
from .loading import Codecs, Loading, definition_of
from .lock import FileLock
from .namespace import Flight, SqliteNamespaceLog, Stored
from .writer import Appender, Space, Writer, certainly_failed

IN_FLIGHT = 8_192
"""Appends of one namespace that may wait for their commit, unless told otherwise."""
IN_FLIGHT_BYTES = 128 << 20
"""Bytes that may wait for their commit, of all namespaces together."""
CLOSE_SECONDS = 10.0
"""How long closing waits for what was appended, unless told otherwise."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Opened:
    """A file that was opened and found in order."""

    connection: sqlite3.Connection
    identity: str
    schema: int
    codecs: Codecs
    namespaces: list[file.NamespaceRow]


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
        close_seconds: float = CLOSE_SECONDS,
        connection: type[sqlite3.Connection] = sqlite3.Connection,
    ) -> None:
        """Names the file; ``start`` opens it.

        Args:
            path: the file; its directory exists. Beside it stand ``-wal`` and ``-shm`` (SQLite's) and ``.lock``.
            codec: what payloads are written with.
            compaction: when events are forgotten.
            now: milliseconds since 1970; called on the loop's thread and the writer's.
            in_flight_limit: appends of one namespace that may wait for their commit.
            close_seconds: how long closing waits for what was appended.
            connection: the class of the connection that writes; tests put faults in it.
        """
        self.path = Path(path).resolve()
        self._codec = codec or Codec()
        self._compaction = compaction or Compaction()
        self._now = now
        self._flight = Flight(in_flight_limit, IN_FLIGHT_BYTES, close_seconds)
        self._connection_kind = connection
        self._lock = FileLock(self.path)
        self._readers = ThreadPoolExecutor(1, thread_name_prefix="sqlite-reader")
        self._starting = asyncio.Lock()
        self._compacting = asyncio.Lock()
        self._opened: _Opened | None = None
        self._writer: Writer | None = None
        self._namespaces: dict[str, Stored] = {}
        self._compactor: asyncio.Task[None] | None = None
        self._closed = False

    async def start(self) -> None:
        """Locks and opens the file, and makes it if there is none; does nothing if that was done. After a loss, opens it anew.

        ``open`` does this too; a server does it first, to learn at once what is wrong.

        Raises:
            LogError: another process has the file (reason ``LOG_FILE_IN_USE``), its format is not known here (``LOG_FORMAT_UNKNOWN``), it
                can't be used (``LOG_FILE_UNUSABLE``), or the log was closed.
        """
        async with self._starting:
            if self._closed:
                raise LogError(Reason.LOG_CLOSED, f"The change log {self.path} is closed.")
            if self._opened is not None:
                return
            self._opened = opened = await asyncio.get_running_loop().run_in_executor(self._readers, self._open_file)
            self._namespaces = {row.name: Stored(Space(row.name, row.id, row.last), row.last, row.floor) for row in opened.namespaces}
            self._writer = Writer(opened.connection, opened.schema, self._now, self._broken)
            if self._compactor is None:
                self._compactor = asyncio.create_task(self._compact_for_ever())

    def _open_file(self) -> _Opened:
        self._lock.acquire()
        connection: sqlite3.Connection | None = None
        try:
            file.create_private(self.path)
            connection = file.connect(self.path, self._connection_kind)
            identity = file.prepare(connection, self.path)
            # What a last life left in the write-ahead log is written to the file and to the disk again: it may have failed to get there.
            try:
                file.checkpoint(connection, truncate=True)
            except sqlite3.Error as error:
                if not certainly_failed(error):
                    raise
                _log.warning("the change log's write-ahead log could not be moved into its file: %s", error)
            schema = file.schema_id(connection, definition_of(self._codec))
            return _Opened(connection, identity, schema, Codecs(self._codec, file.schemas(connection)), file.namespaces(connection))
        except sqlite3.Error as error:
            self._give_up(connection)
            raise LogError(Reason.LOG_FILE_UNUSABLE, f"{self.path} can't be opened: {error}.") from error
        except BaseException:
            self._give_up(connection)
            raise

    def _give_up(self, connection: sqlite3.Connection | None) -> None:
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()
        self._lock.release()

    def namespaces(self) -> list[str]:
        """The namespaces to which something was ever appended, in order."""
        return sorted(name for name, stored in self._namespaces.items() if stored.committed > 0)

    async def open(self, namespace: str, sink: LogSink) -> SqliteNamespaceLog:
        """Opens a namespace's log (see ``change_log.ChangeLog.open``). One that the file does not know is empty."""
        await self.start()
        if self._opened is None or self._writer is None:
            raise LogError(Reason.LOG_LOST, f"The change log's file {self.path} was lost again while it was opened.")
        stored = self._namespaces.setdefault(namespace, Stored(Space(namespace), 0))
        if stored.log is not None:
            raise LogError(Reason.LOG_OPEN, f"The change log of {namespace} is open already.", kind=Kind.FAILED_PRECONDITION)
        log = SqliteNamespaceLog(f"{self._opened.identity}/{namespace}", stored, sink, self._codec, self._flight, self._writer.append)
        loading = Loading(self.path, self._opened.codecs, stored.space.id, stored.committed) if stored.committed else None
        stored.rows = 0
        await log.load(loading, self._readers)
        return log

    async def close(self) -> None:
        """Commits what was appended, closes the file and gives up its lock; bounded in time, three times ``close_seconds`` at the worst."""
        async with self._starting:
            if self._closed:
                return
            self._closed = True
            writer, self._writer = self._writer, None
            self._opened = None
            if self._compactor is not None:
                self._compactor.cancel()
                await asyncio.wait([self._compactor])
            await asyncio.gather(*(stored.log.close() for stored in self._namespaces.values() if stored.log is not None))
            # Readers' connections go first: the last one to be closed leaves a single file behind.
            await asyncio.wait([asyncio.wrap_future(self._readers.submit(int))], timeout=self._flight.close_seconds)
            if writer is None or await writer.stop(self._flight.close_seconds):
                self._lock.release()
            else:  # whoever takes the file must wait until we are gone
                _log.error("%s is still being written to; it stays locked until this process ends", self.path)
            self._readers.shutdown(wait=False)

    def _broken(self, error: BaseException, unknown: Mapping[Appender, int]) -> None:
        """Nothing can be written any more: all logs are lost, and the next opening starts anew."""
        self._writer = self._opened = None
        loss = LogError(Reason.LOG_LOST, f"The change log's file {self.path} can't be written: {error}. Open the log again.")
        for stored in list(self._namespaces.values()):
            if stored.log is not None:
                stored.log.lose(unknown.get(stored.log, 0), loss)

    async def compact(self, namespace: str) -> int:
        """Forgets now what is superseded in a namespace, as the settings have it; how many events that were.

        Raises:
            LogError: the file could not be read or written.
        """
        await self.start()
        async with self._compacting:
            stored, writer = self._namespaces.get(namespace), self._writer
            if stored is None or writer is None or stored.space.id == 0:
                return 0
            try:
                deleted, stored.kept = await Pass(self.path, writer, self._readers, self._compaction).run(
                    stored.space.id, stored.committed, self._now(), stored.raise_floor
                )
            except sqlite3.Error as error:
                raise LogError(Reason.COMPACTION_FAILED, f"{namespace} could not be compacted: {error}.") from error
            stored.rows -= deleted
            return deleted

    async def _compact_for_ever(self) -> None:
        while True:
            await asyncio.sleep(self._compaction.interval_seconds)
            for name, stored in list(self._namespaces.items()):
                if stored.rows - stored.kept < max(self._compaction.minimum, stored.kept):
                    continue
                try:
                    deleted = await self.compact(name)
                except LogError as error:
                    _log.warning("%s", error)
                else:
                    _log.info("forgot %d superseded events of %s", deleted, name)
