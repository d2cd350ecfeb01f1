"""The logs of one process: they can be slow to open, and after a crash of the process no log can be opened."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tests.memory_log import MemoryLog, MemoryNamespaceLog, StoredNamespace
from tests.memory_log.led import LedMemoryLog
from tests.memory_log.ledgered import LedgeredLog
from topicpolicies_server.core.reasons import Reason
from topicpolicies_server.logs.change_log import LogError, LogSink, Start

from .faults import SimulatedFaults


class ProcessLog(MemoryLog):
    """Logs that any process may write."""

    dead = False
    openings = 0
    opened_one: Callable[[], None] | None = None
    """Called at each opening, before an entry is read."""

    async def open(self, namespace: str, sink: LogSink, start: Start | None = None) -> MemoryNamespaceLog:
        slow, stalled = self.faults.opening() if isinstance(self.faults, SimulatedFaults) else (0.0, 0.0)
        if slow:
            await asyncio.sleep(slow)
        if self.dead:
            raise LogError(Reason.LOG_UNAVAILABLE, "The process has crashed.")
        log = await super().open(namespace, sink, start)
        self.openings += 1
        if self.opened_one is not None:
            self.opened_one()
        if stalled:
            for channel in log.reads:
                channel.hold()
                asyncio.get_running_loop().call_later(stalled, channel.release)
        return log

    def _opening(self, stored: StoredNamespace, sink: LogSink, start: Start | None) -> MemoryNamespaceLog:
        if self.dead:
            raise LogError(Reason.LOG_UNAVAILABLE, "The process has crashed.")
        return super()._opening(stored, sink, start)

    def crash(self) -> None:
        self.dead = True
        super().crash()

    def has_open(self, namespace: str) -> bool:
        """Whether a namespace's log is open."""
        return namespace in self._open

    def in_flight(self, namespace: str) -> int:
        """Returns the number of appends without an outcome."""
        return self._open[namespace].in_flight if namespace in self._open else 0


class LedgeredProcessLog(ProcessLog, LedgeredLog):
    """Logs that consist of ledgers, which are compacted while they are read."""


class LedProcessLog(ProcessLog, LedMemoryLog):
    """Logs that have one writer at a time."""
