"""What is known of the connections to brokers: whether readers have theirs, and who waits for a producer.

A log that is open says ten times a second whether its readers, one for each partition, are connected; what it has not said for a moment
does not count: it is closed, or being opened.
"""

from __future__ import annotations

import time
from typing import NamedTuple, Protocol

from ..change_log import Connections, LogError

_HOLDS_SECONDS = 2.0
"""For so long what a log has said counts."""


class _Said(NamedTuple):
    """What a log has said last."""

    at: float
    all_connected: bool
    any_connected: bool


class Waiting(Protocol):
    """Whoever has events that wait for a producer."""

    def fail_waiting(self, error: LogError) -> None:
        """Fails them: they certainly were not sent."""


class Contacts:
    """The connections of all logs of one cluster."""

    def __init__(self) -> None:
        """Nothing is known."""
        self._said: dict[str, _Said] = {}
        self._waiting: set[Waiting] = set()

    def seen(self, log: str, *, connected: bool, partly: bool = False) -> None:
        """A log that is open says whether all of its readers are connected (``connected``), or some of them (``partly``)."""
        self._said[log] = _Said(time.monotonic(), connected, connected or partly)

    def forget(self, log: str) -> None:
        """A log that is open no more says nothing."""
        self._said.pop(log, None)

    def connected(self) -> bool | None:
        """Whether any reader of any log is connected; None: no log is open."""
        oldest = time.monotonic() - _HOLDS_SECONDS
        self._said = {log: said for log, said in self._said.items() if said.at >= oldest}
        return any(said.any_connected for said in self._said.values()) if self._said else None

    def without(self) -> list[str]:
        """The open logs of which no reader is connected, by their namespaces."""
        return [log for log, said in self._said.items() if not said.any_connected]

    def connections(self) -> Connections:
        """How many logs are open, and of how many all readers are connected. Other threads may ask."""
        oldest = time.monotonic() - _HOLDS_SECONDS
        said = [said.all_connected for said in list(self._said.values()) if said.at >= oldest]
        return Connections(len(said), sum(said))

    def waits(self, waiting: Waiting) -> None:
        """Somebody's events wait for a producer."""
        self._waiting.add(waiting)

    def goes_on(self, waiting: Waiting) -> None:
        """They wait no more."""
        self._waiting.discard(waiting)

    def cut_off(self, error: LogError) -> None:
        """The brokers are out of reach: what was not sent fails."""
        for waiting in list(self._waiting):
            waiting.fail_waiting(error)
