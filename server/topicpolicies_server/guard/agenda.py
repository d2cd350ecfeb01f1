"""Which question is to be asked next: the one that is due for longest, and of those that are urgent and those that are not in turns."""

from __future__ import annotations

import enum
import heapq
from collections.abc import Iterator
from itertools import count
from typing import NamedTuple

_SPARE = 64
"""So many outdated entries of a heap are never worth clearing."""


class About(enum.Enum):
    """What a question is about."""

    TENANTS = "tenants"
    """Which tenants there are."""
    NAMESPACES = "namespaces"
    """Which namespaces a tenant has."""
    CLUSTER = "cluster"
    """How the brokers' cluster is called."""
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
    """Of the tenant, the broker or the namespace."""


class _Entry(NamedTuple):
    due: float
    number: int
    question: Question


class Agenda:
    """The questions, each with the time when it is due. What time it is, others say."""

    def __init__(self) -> None:
        """Begins empty."""
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
        """Has a question asked at a time; one that is there already gets that time instead of its own."""
        entry = self._current[question] = _Entry(due, next(self._numbers), question)
        heap = self._urgent if urgent else self._others
        heapq.heappush(heap, entry)
        if len(heap) > 2 * len(self._current) + _SPARE:
            heap[:] = filter(self._holds, heap)
            heapq.heapify(heap)

    def drop(self, question: Question) -> None:
        """Has a question not asked any more."""
        self._current.pop(question, None)

    def take(self, now: float) -> Question | None:
        """Takes a question that is due off the agenda; None if none is."""
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
        """When the next question is due; None if there is none."""
        return min((first.due for first in map(self._first, (self._urgent, self._others)) if first is not None), default=None)

    def _first(self, heap: list[_Entry]) -> _Entry | None:
        while heap and not self._holds(heap[0]):
            heapq.heappop(heap)
        return heap[0] if heap else None

    def _holds(self, entry: _Entry) -> bool:
        return self._current.get(entry.question) is entry
