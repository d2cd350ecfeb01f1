"""Which producer may write a partition that has one writer at a time (PIP-68), as the storage sees it.

A partition has one *seat*. A producer takes the seat if it is free, or queues for it. While a producer has the seat, the storage takes
events only from that producer. A producer that has left a seat never gets any seat again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple


class Producer:
    """One process's exclusive producer of one partition.

    Attributes:
        name: the name of the writer in its entries.
        partition: the partition that it writes.
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
        """The seat is free."""
        self.holder: Producer | None = None
        """The producer that has the seat."""
        self._line: deque[_Waiting] = deque()

    @property
    def waiting(self) -> int:
        """The number of producers that wait for the seat."""
        return len(self._line)

    def take(self, producer: Producer) -> bool:
        """Gives the seat to a producer if it is free. Returns whether the producer has it now."""
        if self.holder is None:
            self.holder = producer
        return self.holder is producer

    def wait(self, producer: Producer, seated: Callable[[], None]) -> None:
        """Queues a producer; when it gets the seat, after those that have it or wait for it have left, calls ``seated``."""
        self._line.append(_Waiting(producer, seated))
        self._seat_next()

    def leave(self, producer: Producer) -> bool:
        """Takes the seat, or the place in the queue, from a producer. Returns whether it had either."""
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
