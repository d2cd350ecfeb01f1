"""What a watcher wants of a namespace, and from which place on."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from itertools import zip_longest
from typing import NamedTuple

from ..names import PolicyKey, Scope
from ..policies.events import Position
from .cells import Trace
from .heads import Head


class Mode(enum.IntEnum):
    """What is owed to a watcher that falls behind. The numbers are those of ``topicpolicies.v1.WatchMode``."""

    LATEST = 1
    EVERY = 2
    ENTRIES = 3
    """Every event, by the history; the hub has nothing to do with these."""


class Token(NamedTuple):
    """A place in a namespace's log: the position per partition, and whose positions they are."""

    log: str
    positions: tuple[Position, ...]
    left_out: str = ""
    """Names the topics that were left out because their policies are disabled; empty: none were."""

    def widened(self, partitions: int) -> Token:
        """The same place in a log that has so many partitions, or more, by now."""
        return self._replace(positions=(*self.positions, *[""] * (partitions - len(self.positions))))

    def reaches(self, other: Token) -> bool:
        """Whether this place is another one of the same log, or behind it in every partition."""
        return all(theirs <= mine for mine, theirs in zip_longest(self.positions, other.positions, fillvalue=""))

    def furthest(self, other: Token) -> Token:
        """Of each partition the greater position of two places of the same log."""
        pairs = zip_longest(self.positions, other.positions, fillvalue="")
        return self._replace(positions=tuple(max(pair) for pair in pairs))

    def moved(self, changes: Iterable[Head]) -> Token:
        """The place behind some changes."""
        positions = list(self.positions)
        for change in changes:
            placed = change.placed
            if placed is not None:
                positions += [""] * (placed.partition + 1 - len(positions))
                positions[placed.partition] = max(positions[placed.partition], placed.position)
        return self._replace(positions=tuple(positions))

    def is_before(self, change: Head | Trace) -> bool:
        """Whether a change comes behind this place."""
        return change.partition >= len(self.positions) or change.place > self.positions[change.partition]


class Selection(NamedTuple):
    """What a watcher wants of a namespace."""

    topics: frozenset[str] | None
    """Full names; None: all topics."""
    scopes: frozenset[Scope] = frozenset(Scope)

    def includes(self, key: PolicyKey) -> bool:
        """Whether a policy key is wanted."""
        return key.scope in self.scopes and (self.topics is None or key.topic in self.topics)

    def keys(self) -> list[PolicyKey] | None:
        """The wanted keys in order; None: all."""
        if self.topics is None:
            return None
        return [PolicyKey(topic, scope) for topic in sorted(self.topics) for scope in sorted(self.scopes)]


class OutOfRange(Exception):
    """A token that can't be resumed from: of another log, or older than the horizon. Start over with a snapshot.

    Attributes:
        older: whether it is one of this log, but older than what the ring holds: the history may have what it lacks.
    """

    def __init__(self, why: str, *, older: bool = False) -> None:
        super().__init__(why)
        self.older = older


class Lagged(Exception):
    """A watcher is behind: changes that it is owed have left the ring (EVERY), or are deletions that are forgotten (LATEST).

    Its token says where it stands.
    """


class Replaced(Exception):
    """The log that was watched has been replaced by another one: begin anew."""
