"""The questions to brokers that are due: the one that has been due for the longest time comes first; urgent ones and others take turns."""

from __future__ import annotations

import enum
import heapq
from collections.abc import Iterator
from itertools import count
from typing import NamedTuple

_SPARE = 64
"""Up to this many outdated entries stay in a heap: fewer are not worth clearing."""


class About(enum.Enum):
    """What a question to brokers is about."""

    TENANTS = "tenants"
    """Which tenants there are."""
    NAMESPACES = "namespaces"
    """Which namespaces a tenant has."""
    CLUSTER = "cluster"
    """The name of the brokers' cluster."""
    BROKERS = "brokers"
    """Which brokers a cluster has."""
    LOADED = "loaded"
    """Which namespaces a broker has loaded."""
    LOG = "log"
    """Whether a namespace has a change log."""


class Question(NamedTuple):
    """A question to the brokers."""

    about: About
    name: str = ""
    """The name of the tenant, the broker or the namespace."""


class _Entry(NamedTuple):
    due: float
    number: int
    question: Question


class Agenda:
    """The questions, each with the time when it is due. It has no clock: the caller passes the time."""

    def __init__(self) -> None:
        """Begins without questions."""
        self._current: dict[Question, _Entry] = {}
        self._urgent: list[_Entry] = []
        self._others: list[_Entry] = []
        self._numbers = count()
        self._urgent_next = True

    def __len__(self) -> int:
        return len(self._current)

    def __contains__(self, question: Question) -> bool:
        return question in self._current

    def __iter__(self) -> Iterator[Question]:
        return iter(self._current)

    def put(self, question: Question, due: float, *, urgent: bool = False) -> None:
        """Schedules a question; one that is scheduled already gets the new time instead."""
        entry = self._current[question] = _Entry(due, next(self._numbers), question)
        heap = self._urgent if urgent else self._others
        heapq.heappush(heap, entry)
        if len(heap) > 2 * len(self._current) + _SPARE:
            heap[:] = filter(self._holds, heap)
            heapq.heapify(heap)

    def drop(self, question: Question) -> None:
        """Removes a question."""
        self._current.pop(question, None)

    def take(self, now: float) -> Question | None:
        """Removes and returns a question that is due; None if none is."""
        heaps = (self._urgent, self._others) if self._urgent_next else (self._others, self._urgent)
        for heap in heaps:
            first = self._first(heap)
            if first is not None and first.due <= now:
                heapq.heappop(heap)
                del self._current[first.question]
                self._urgent_next = heap is not self._urgent
                return first.question
        return None

    def next_due(self) -> float | None:
        """Returns when the next question is due; None if there is none."""
        return min((first.due for first in map(self._first, (self._urgent, self._others)) if first is not None), default=None)

    def _first(self, heap: list[_Entry]) -> _Entry | None:
        while heap and not self._holds(heap[0]):
            heapq.heappop(heap)
        return heap[0] if heap else None

    def _holds(self, entry: _Entry) -> bool:
        return self._current.get(entry.question) is entry
