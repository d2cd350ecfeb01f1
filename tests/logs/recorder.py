"""A sink that records what a log reports, and notes a complaint for each report that violates the protocol."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Literal

from topicpolicies_server.core.names import PolicyKey
from topicpolicies_server.core.policies.events import Event, Placed, Position
from topicpolicies_server.logs.change_log import LogError, NamespaceLog

Report = Literal["read", "caught_up", "acknowledged", "append_failed", "lost", "led"]


def at(placed: Placed) -> tuple[int, Position]:
    """Returns the place of an entry in the whole log."""
    return placed.partition, placed.position


class Recorder:
    """Records every report in order. Violations of the protocol are kept in ``complaints``; tests assert at the end that there are none."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._changed = asyncio.Event()
        self._reporting = False
        self.appending = False
        self.closed = False
        self.reports: list[Report] = []
        self.entries: list[Placed] = []
        self.places: list[Placed] = []
        self.failures: list[tuple[Event, LogError]] = []
        self.losses: list[LogError] = []
        self.caught_up_after: list[int] = []
        self.complaints: list[str] = []
        self.then: Callable[[Report], None] = lambda _report: None
        """Called from inside every report: a sink may append from there."""

    def read(self, events: Sequence[Placed]) -> None:
        if not events:
            self.complaints.append("an empty read")
        self.entries.extend(events)
        self._note("read")

    def caught_up(self) -> None:
        self.caught_up_after.append(len(self.entries))
        self._note("caught_up")

    def acknowledged(self, events: Sequence[Placed]) -> None:
        if not events:
            self.complaints.append("an empty acknowledged")
        self.places.extend(events)
        self._note("acknowledged")

    def append_failed(self, event: Event, error: LogError) -> None:
        self.failures.append((event, error))
        self._note("append_failed")

    def lost(self, error: LogError) -> None:
        self.losses.append(error)
        self._note("lost")

    def led(self) -> None:
        self._note("led")

    def _note(self, report: Report) -> None:
        if threading.get_ident() != self._thread:
            self.complaints.append(f"{report} on another thread")
        elif asyncio.get_running_loop() is not self._loop:
            self.complaints.append(f"{report} on another loop")
        if self.appending:
            self.complaints.append(f"{report} from inside a call of append")
        if self.closed:
            self.complaints.append(f"{report} after close")
        if self.losses and report != "lost":
            self.complaints.append(f"{report} after lost")
        if self._reporting:
            self.complaints.append(f"{report} from inside another report")
        self.reports.append(report)
        self._changed.set()
        self._reporting = True
        try:
            self.then(report)
        finally:
            self._reporting = False

    def append(self, log: NamespaceLog, event: Event) -> None:
        """Appends; a report during the call is a complaint."""
        self.appending = True
        try:
            log.append(event)
        finally:
            self.appending = False

    async def close(self, log: NamespaceLog) -> None:
        """Closes the log; any later report is a complaint."""
        await log.close()
        self.closed = True

    async def until(self, condition: Callable[[], bool], seconds: float = 100.0) -> None:
        """Waits until a condition holds that only reports can make true."""
        async with asyncio.timeout(seconds):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    async def until_caught_up(self) -> None:
        await self.until(lambda: bool(self.caught_up_after or self.losses))
        assert self.caught_up_after, f"the log was lost before it was read: {self.losses}"

    async def until_settled(self, count: int) -> None:
        """Waits until ``count`` appends have an outcome, and all acknowledged events were read."""
        await self.until(lambda: len(self.places) + len(self.failures) >= count)
        await self.until(lambda: {at(placed) for placed in self.places} <= {at(placed) for placed in self.entries})

    def of(self, key: PolicyKey) -> list[Placed]:
        """Returns what was read of a key."""
        return [placed for placed in self.entries if placed.event is not None and placed.event.key == key]

    def ids(self, placed: Sequence[Placed] | None = None) -> list[str]:
        """Returns the event ids of what was read (or of the given entries), in order; "" for an entry without a stamp."""
        chosen = self.entries if placed is None else placed
        return [p.event.stamp.event_id if p.event is not None and p.event.stamp is not None else "" for p in chosen]
