"""Who may write a partition that has one writer at a time (PIP-68), as the storage sees it.

A partition has one *seat*. A producer takes it if it is free, or waits for it in line. The storage takes events from whoever has the seat,
and while somebody has it, from nobody else. A producer that has left a seat never gets it, or another one, again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple


class Producer:
    """One process's exclusive producer of one partition.

    Attributes:
        name: what entries say of their writer.
        partition: what it writes.
    """

    def __init__(self, name: str, partition: int) -> None:
        """Has no seat yet."""
        self.name = name
        self.partition = partition


class _Waiting(NamedTuple):
    producer: Producer
    seated: Callable[[], None]


class Seat:
    """The right to write one partition."""

    def __init__(self) -> None:
        """Is free."""
        self.holder: Producer | None = None
        """Whose it is."""
        self._line: deque[_Waiting] = deque()

    @property
    def waiting(self) -> int:
        """How many producers wait for it."""
        return len(self._line)

    def take(self, producer: Producer) -> bool:
        """Gives the seat to a producer, unless it is taken. Returns whether it is the producer's now."""
        if self.holder is None:
            self.holder = producer
        return self.holder is producer

    def wait(self, producer: Producer, seated: Callable[[], None]) -> None:
        """Gives the seat to a producer, and calls ``seated``, when all that have it or wait for it have left."""
        self._line.append(_Waiting(producer, seated))
        self._seat_next()

    def leave(self, producer: Producer) -> bool:
        """Takes the seat, or the place in line, from a producer. Returns whether it had either."""
        if self.holder is producer:
            self.holder = None
            self._seat_next()
            return True
        before = len(self._line)
        self._line = deque(each for each in self._line if each.producer is not producer)
        return len(self._line) < before

    def _seat_next(self) -> None:
        if self.holder is None and self._line:
            producer, seated = self._line.popleft()
            self.holder = producer
            seated()
