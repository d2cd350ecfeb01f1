"""Which connections to brokers there are: whether the logs' readers are connected, and which writers wait for a producer.

An open log reports ten times a second, or once a second if very many logs are open, whether its readers, one for each partition, are
connected. A log that has not reported for a moment does not count: it was closed, or is being opened.
"""

from __future__ import annotations

import time
from typing import NamedTuple, Protocol

from ..change_log import Connections, LogError

_HOLDS_SECONDS = 2.0
"""How long a log's report counts."""


class _Report(NamedTuple):
    """The last report of a log."""

    at: float
    all_connected: bool
    any_connected: bool


class Waiting(Protocol):
    """A writer with events that wait for a producer."""

    def fail_waiting(self, error: LogError) -> None:
        """Fails those events: they certainly were not sent."""


class BrokerConnections:
    """The connections of all logs of one cluster."""

    def __init__(self) -> None:
        """Nothing was reported yet."""
        self._reports: dict[str, _Report] = {}
        self._waiting: set[Waiting] = set()

    def report(self, log: str, *, connected: bool, partly: bool = False) -> None:
        """Takes the report of an open log: whether all of its readers are connected (``connected``), or some of them (``partly``)."""
        self._reports[log] = _Report(time.monotonic(), connected, connected or partly)

    def forget(self, log: str) -> None:
        """Removes the report of a log that is not open any more."""
        self._reports.pop(log, None)

    def any_connected(self) -> bool | None:
        """Whether any reader of any log is connected; None: no log is open."""
        oldest = time.monotonic() - _HOLDS_SECONDS
        self._reports = {log: report for log, report in self._reports.items() if report.at >= oldest}
        return any(report.any_connected for report in self._reports.values()) if self._reports else None

    def disconnected(self) -> list[str]:
        """The namespaces of the open logs of which no reader is connected."""
        return [log for log, report in self._reports.items() if not report.any_connected]

    def counts(self) -> Connections:
        """Returns how many logs are open, and how many of them have all their readers connected. May be called in any thread."""
        oldest = time.monotonic() - _HOLDS_SECONDS
        connected = [report.all_connected for report in list(self._reports.values()) if report.at >= oldest]
        return Connections(len(connected), sum(connected))

    def waits(self, waiting: Waiting) -> None:
        """Notes that events of a writer wait for a producer."""
        self._waiting.add(waiting)

    def waits_no_longer(self, waiting: Waiting) -> None:
        """Notes that no events of the writer wait any more."""
        self._waiting.discard(waiting)

    def cut_off(self, error: LogError) -> None:
        """Fails all events that wait for a producer: the brokers are out of reach."""
        for waiting in list(self._waiting):
            waiting.fail_waiting(error)
