"""The log of one namespace in the SQLite file (``change_log.NamespaceLog``), on the event loop's side."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass, field

from ...core.names import PolicyKey
from ...core.policies.events import Event, Placed, Position
from ...core.reasons import LogState, Reason
from ...sqlite_file import ERRORS
from ...tasks import TaskSet, asked_to_end
from .. import rows
from ..avro import Codec
from ..brokerless import Brokerless
from ..change_log import LogError, LogSink, beyond, closed
from .appending import NewRow, WriterNamespace
from .events import text_of
from .loading import PAGE, Loading
from .refusals import explained, unreadable

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
    compacted: int = 0
    """The highest row number that a compaction may have deleted."""
    considered: int = 0
    """The highest row number that a compaction has considered since the file was opened."""
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

    @property
    def superseded(self) -> int:
        """How many events no compaction has considered since the file was opened, at most."""
        return self.committed - self.considered

    def note_compaction(self, row: int) -> None:
        """Records that a compaction may delete rows up to this one from now on."""
        self.compacted = max(self.compacted, row)


class SqliteNamespaceLog(Brokerless):
    """One namespace's log, with one partition and dense row numbers. Made by ``SqliteLog.open``."""

    def __init__(
        self,
        identity: str,
        state: NamespaceState,
        sink: LogSink,
        codec: Codec,
        in_flight: InFlight,
        append: Callable[[NewRow], None],
        ended: Callable[[NamespaceState], None] = lambda _: None,
    ) -> None:
        """Opens the log; ``ended`` is called when it is not open any more."""
        self._identity = identity
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
    def identity(self) -> str:
        """The file's own identity, and the namespace's name."""
        return self._identity

    @property
    def partitions(self) -> int:
        """One."""
        return 1

    @property
    def in_flight(self) -> int:
        """The number of appends that wait for their commit."""
        return len(self._pending)

    def partition_of(self, key: PolicyKey) -> int:
        """0: there is one partition."""
        del key
        return 0

    def complete_after(self, partition: int) -> Position | None:
        """The newest row that a compaction may have deleted before the opening; "" if there is none."""
        del partition
        return rows.position_of(self._compacted) if self._compacted else ""

    @property
    def shared(self) -> bool:
        """False: only this process writes the file."""
        return False

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
        text = text_of(properties)
        row = NewRow(self, self._state.namespace, event, key, text, payload, len(key) + len(text) + (len(payload) if payload else 0))
        in_flight.bytes_now += row.size
        self._state.appended = True
        self._pending.append(row)
        self._append(row)

    def committed(self, placed: Sequence[Placed], size: int) -> None:
        """Reports the next pending events as durable (``appending.Appender``).

        They are reported as read first, then as appended: an event that was read needs no proof that no other event stands before it.
        """
        self._in_flight.refused = None
        self._state.committed += len(placed)
        self._state.bytes_since += size
        awaited = bool(self._pending)  # False if close gave up waiting: the events were reported as failed then
        if awaited:
            self._in_flight.bytes_now -= sum([self._pending.popleft().size for _ in placed])
        if self._state.log is not None:
            self._state.log.show(placed)
        if awaited:
            self._sink.appended(placed)
        if not self._pending:
            self._drained.set()

    def refused(self, count: int, error: sqlite3.Error) -> None:
        """Reports the next ``count`` pending events as failed: they certainly are not in the file (``appending.Appender``)."""
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

    async def load(self, loading: Loading | None, readers: Executor) -> None:
        """Starts reading what the file held at the opening, on ``readers``; ``loading`` is None if it held nothing.

        Raises:
            LogError: the file can't be read, or was lost meanwhile.
        """
        try:
            if loading is not None:
                await asyncio.get_running_loop().run_in_executor(readers, loading.begin)
                self.resumed = loading.resumed
            if self._ended is not None:
                raise self._ended
        except BaseException as error:
            self._leave()
            if loading is not None:
                with suppress(RuntimeError):  # the readers were shut down: the connection is closed when its object is collected
                    readers.submit(loading.close)
            if isinstance(error, ERRORS):
                raise unreadable(f"The change log of {self._state.namespace.name}", error) from error
            raise
        self._compacted = self._state.compacted  # reading has begun: rows that were deleted before stood at or below this one
        self._loading = self._owned.begin(self._load(loading, readers), "reading it")

    async def _load(self, loading: Loading | None, readers: Executor) -> None:
        name = self._state.namespace.name
        try:
            await self._read_all(loading, readers)
            self._state.damage = ""
        except ERRORS as error:
            loss = unreadable(f"The change log of {name}", error)
            if loss.message != self._state.damage:  # each opening finds the same damage again: log it once
                _log.error("%s", loss.message)
            self._state.damage = loss.message
            self.lose(len(self._pending), loss)
        except (Exception, asyncio.CancelledError) as error:  # an unforeseen error must not leave the namespace loading for ever
            if asked_to_end(error):
                raise
            _log.exception("the change log of %s can't be read", name)
            self.lose(len(self._pending), LogError(LogState.LOST, f"The change log's file can't be read: {error!r}."))

    async def _read_all(self, loading: Loading | None, readers: Executor) -> None:
        loop = asyncio.get_running_loop()
        if loading is not None:
            try:
                while page := await loop.run_in_executor(readers, loading.next_page):
                    self._sink.read(page)
            finally:
                readers.submit(loading.close)  # queued behind a page that may still be read on that thread
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
