"""The change log in memory: a server for trials needs neither a broker nor a disk. What it holds ends with the process.

A namespace's log is one list. Appending adds to it; a callback of the event loop then reports what was added, as an acknowledgement and as
an entry that was read, so nothing is reported from inside a call.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Sequence

from ..core.policies.events import Event, Placed, Position
from .change_log import LogSink, Start, already_open, anchor_of, busy, closed
from .rows import Brokerless, position_of, row_of

IN_FLIGHT = 65_536
"""The default limit of appends of one open log that wait for their outcome."""
_BATCH = 512
"""The most entries of one report."""


class MemoryNamespaceLog(Brokerless):
    """The open log of one namespace (``change_log.NamespaceLog``)."""

    def __init__(self, identity: str, namespace: str, entries: list[Placed], sink: LogSink, start: Start | None, most: int) -> None:
        """``entries``: all that the log holds; ``most``: how many appends may wait for their outcome."""
        self.identity = identity
        known = _known(start, identity, entries)
        self.resumed = known is not None
        """See ``change_log.NamespaceLog.resumed``."""
        self._namespace = namespace
        self._entries = entries
        self._sink = sink
        self._most = most
        self._loop = asyncio.get_running_loop()
        self._read = known or 0
        """How many entries were reported as read."""
        self._acknowledged = self._at_opening = len(entries)
        """How many entries were stored before the opening, or reported as appended."""
        self._caught_up = False
        self._closing = False
        self.closed = False
        self._report_due: asyncio.Handle | None = self._loop.call_soon(self._report)

    def complete_after(self, partition: int) -> Position:
        """The beginning: nothing is ever compacted."""
        del partition
        return ""

    async def end(self, partition: int) -> Position:
        """Returns the position of the newest entry; "" if there is none.

        Raises:
            LogError: the log is closed.
        """
        del partition
        if self._closing:
            raise closed(self._namespace)
        return position_of(len(self._entries)) if self._entries else ""

    def append(self, event: Event) -> None:
        """Appends an event (see ``change_log.NamespaceLog.append``)."""
        if self._closing:
            raise closed(self._namespace)
        waiting = len(self._entries) - self._acknowledged
        if waiting >= self._most:
            raise busy(waiting)
        self._entries.append(Placed(0, position_of(len(self._entries) + 1), event, time.time_ns() // 1_000_000, "memory"))
        self._report_soon()

    async def close(self) -> None:
        """Reports what was appended, then stops."""
        self._closing = True
        while self._acknowledged < len(self._entries):  # noqa: ASYNC110 - reports come soon
            await asyncio.sleep(0)
        self.closed = True
        if self._report_due is not None:
            self._report_due.cancel()

    def _report_soon(self) -> None:
        if self._report_due is None:
            self._report_due = self._loop.call_soon(self._report)

    def _report(self) -> None:
        self._report_due = None
        appended = self._entries[self._acknowledged : self._acknowledged + _BATCH]
        read = self._entries[self._read : self._read + _BATCH]
        self._acknowledged += len(appended)
        self._read += len(read)
        if read:
            self._sink.read(read)
        if appended:
            self._sink.appended(appended)
        if not self._caught_up and self._read >= self._at_opening:
            self._caught_up = True
            self._sink.caught_up()
        if self._read < len(self._entries):
            self._report_soon()


class MemoryLog:
    """The change logs of all namespaces (``change_log.ChangeLog``)."""

    def __init__(self, *, in_flight_limit: int = IN_FLIGHT) -> None:
        """Has no entries. ``in_flight_limit``: how many appends of one open log may wait for their outcome."""
        self._in_flight_limit = in_flight_limit
        self._life = uuid.uuid4().hex
        """A part of the logs' identities: positions of another process's log mean nothing here."""
        self._entries: dict[str, list[Placed]] = {}
        self._open: dict[str, MemoryNamespaceLog] = {}

    async def open(self, namespace: str, sink: LogSink, start: Start | None = None) -> MemoryNamespaceLog:
        """Opens a namespace's log (see ``change_log.ChangeLog.open``). Every namespace exists.

        Raises:
            LogError: the log is already open.
        """
        opened = self._open.get(namespace)
        if opened is not None and not opened.closed:
            raise already_open(namespace)
        entries = self._entries.setdefault(namespace, [])
        log = MemoryNamespaceLog(f"memory/{self._life}/{namespace}", namespace, entries, sink, start, self._in_flight_limit)
        self._open[namespace] = log
        return log

    async def close(self) -> None:
        """Closes all open logs."""
        await asyncio.gather(*(log.close() for log in self._open.values()))


def _known(start: Start | None, identity: str, entries: Sequence[Placed]) -> int | None:
    """How many entries of this log ``start`` says are known; None if it belongs to another log."""
    if start is None or start.identity != identity or start.in_place or len(start.positions) != 1:
        return None
    try:
        row = row_of(start.positions[0])
    except ValueError:
        return None
    fits = row <= len(entries) and (row == 0 or start.anchors[0] in ("", anchor_of(entries[row - 1])))
    return row if fits else None
