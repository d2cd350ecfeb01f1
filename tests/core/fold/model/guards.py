"""Guards: they fold the log, and write repairs while they run and are not paused."""

from __future__ import annotations

import itertools
import random
from collections import Counter

from topicpolicies_server.core.fold import fold as rules
from topicpolicies_server.core.fold.fold import FoldContext, KeyState
from topicpolicies_server.core.fold.keystate import WINDOW_MS

from .clock import Clock
from .in_place_broker import KEY
from .log import Entry, Log


class Guard:
    """One guard of one topic, from its start to its end."""

    def __init__(
        self,
        name: str,
        clock: Clock,
        log: Log,
        chance: random.Random,
        counts: Counter[str],
        *,
        known: bool = True,
        repairs: bool = True,
        recalls: int = 0,
    ) -> None:
        """Begins to read what compaction has left of the log.

        Args:
            name: the producer name of its events.
            clock: the simulated time.
            log: the log of the topic's namespace.
            chance: the source of randomness.
            counts: counts what the fold reports, and ``repairs``.
            known: whether it knows that brokers change their documents in place.
            repairs: whether it writes repairs that are due; if not, it only reads.
            recalls: how many entries before the compaction's end it reads as they were.
        """
        self.name = name
        self.state = KeyState()
        self.alive = True
        self.paused = False
        self._clock = clock
        self._log = log
        self._chance = chance
        self._counts = counts
        self._repairs = repairs
        self._complete_after = log.horizon
        self._context = FoldContext(in_place=known, joined_at=clock.now if log.horizon else None)
        self._ids = itertools.count(1)
        self._started_at = clock.now
        self._recalls = recalls > 0 or not log.horizon
        self._heard_until = clock.now
        self._read_entries = 0
        self._due = 0
        self._begun_with = len(log.entries)
        for entry in log.compacted(recalls):
            self._hear(entry)
        log.readers.append(self._hear)

    @property
    def read_until(self) -> int:
        """How many of the log's entries it has read."""
        return self._read_entries

    @property
    def loaded(self) -> bool:
        """Whether it has read the entries that were in the log when it started."""
        return self._read_entries >= self._begun_with

    @property
    def sees_all(self) -> bool:
        """Whether it has seen every document that brokers may compute from: it recalled entries, or has run for W."""
        return self._recalls or self._clock.now >= self._started_at + WINDOW_MS

    @property
    def at_rest(self) -> bool:
        """Whether it has read everything, and has nothing to repair."""
        return self._read_entries == len(self._log.entries) and not self.state.due

    def pause(self) -> None:
        """Holds back its repairs: they were paused, there are too many, or the log cannot be reached."""
        self.paused = True

    def resume(self) -> None:
        """Schedules the repair that is due."""
        self.paused = False
        self._consider()

    def end(self) -> None:
        """Ends, and loses its state."""
        self.alive = False
        self._log.readers.remove(self._hear)

    def _hear(self, entry: Entry) -> None:
        now = self._clock.now
        self._heard_until = max(self._heard_until + 1, now + self._chance.randint(2, 20))
        self._clock.after(self._heard_until - now, lambda: self._read(entry))

    def _read(self, entry: Entry) -> None:
        if not self.alive:
            return
        context = self._context._replace(joining=entry.number < self._complete_after)
        folded = rules.fold(self.state, entry.placed, context)
        self._read_entries = entry.number + 1
        self._counts["stale"] += folded.stale
        self._counts["unexplained"] += folded.unexplained
        self._counts["ambiguous"] += folded.ambiguous
        self._consider()

    def _consider(self) -> None:
        """Schedules a repair that is due, a little after the newest event."""
        self._due += 1
        number = self._due
        if self._repairs and self.loaded and self.state.due:
            self._clock.after(self._chance.randint(20, 60), lambda: self._repair(number))

    def _repair(self, number: int) -> None:
        if self.alive and not self.paused and number == self._due and self.state.due:
            self._counts["repairs"] += 1
            event = rules.restatement(KEY, self.state, f"{self.name}-{next(self._ids)}")
            self._log.append(event, self.name, None, None, self._clock.now)
