"""A log whose existing entries are delivered undecoded, as from brokers (``change_log.UndecodedSink``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from topicpolicies_server.core.policies.events import Placed
from topicpolicies_server.core.reading.lazy_view import UndecodedEntry
from topicpolicies_server.logs.change_log import LogSink, UndecodedSink


class DecodedLater(UndecodedEntry):
    """An entry that is decoded already, but has the interface of an undecoded one."""

    def __init__(self, placed: Placed, topic: str, decoded: Callable[[Placed], Placed]) -> None:
        super().__init__(placed.partition, placed.position, topic, placed.published_at)
        self._placed = placed
        self._decoded = decoded

    @property
    def producer(self) -> str:
        return self._placed.producer

    @property
    def size(self) -> int:
        return 50

    def decode(self) -> Placed:
        return self._decoded(self._placed)


class UndecodingSink:
    """A sink in front of another one, to which it passes the entries that existed at the opening undecoded."""

    def __init__(self, sink: LogSink, decoded: Callable[[Placed], Placed] = lambda placed: placed) -> None:
        """``decoded``: returns the result of decoding an entry."""
        self._sink = sink
        self._decoded = decoded
        self._caught_up = False

    def read(self, events: Sequence[Placed]) -> None:
        if self._caught_up or not isinstance(self._sink, UndecodedSink):
            self._sink.read(events)
        else:
            self._sink.read_undecoded([self._undecoded(placed) for placed in events])

    def caught_up(self) -> None:
        self._caught_up = True
        self._sink.caught_up()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sink, name)

    def _undecoded(self, placed: Placed) -> Placed | DecodedLater:
        return placed if placed.event is None else DecodedLater(placed, placed.event.key.topic, self._decoded)
