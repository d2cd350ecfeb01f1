"""A broker that changes the document in its cache in place, as 4.0.0 does.

An admin call takes the cached document, changes its setting in it, and publishes the document as it is when it is encoded. Until an event
is read, which puts another document into the cache, all calls change the same one: so an event can carry the changes of calls whose own
events come after it, and events can be appended in another order than that of the changes.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.policies.documents import Setting, Settings
from topicpolicies_server.core.policies.events import Action, Event

from .clock import Clock
from .log import Entry, Log

KEY = PolicyKey("persistent://t/n/0", Scope.LOCAL)


class InPlaceBroker:
    """One broker, with one topic."""

    def __init__(self, clock: Clock, log: Log, chance: random.Random, lag: tuple[int, int], *, fresh: bool = False, busy: int = 0) -> None:
        """Follows the log.

        Args:
            clock: the simulated time.
            log: the log of the topic's namespace.
            chance: the source of randomness.
            lag: how long it takes to read an event, in milliseconds.
            fresh: whether it has no document at first: then each call makes one of its own, until an event is read.
            busy: for how many milliseconds at most an encoded document waits until it gets its publish time.
        """
        self._clock = clock
        self._log = log
        self._chance = chance
        self._lag = lag
        self._busy = busy
        self._cached: dict[Setting, bytes] | None = None if fresh else {}
        self._read_until = 0
        self._read_entries = 0
        log.readers.append(self._hear)

    @property
    def behind(self) -> bool:
        """Whether the log has an event that it has not read."""
        return self._read_entries < len(self._log.entries)

    def call(self, setting: Setting, value: bytes | None, answered: Callable[[], None]) -> bool:
        """Receives a call of the admin API that sets a setting, or removes it (None). Returns whether that changes the document."""
        cached = {} if self._cached is None else self._cached
        changes = cached.get(setting) != value
        if value is None:
            cached.pop(setting, None)
        else:
            cached[setting] = value
        self._clock.after(self._chance.randint(0, 3), lambda: self._encode(dict(cached), answered))
        return changes

    def stall(self, stalls: tuple[int, int]) -> None:
        """Reads nothing for some milliseconds."""
        self._read_until = max(self._read_until, self._clock.now + self._chance.randint(*stalls))

    def _encode(self, document: Settings, answered: Callable[[], None]) -> None:
        wait = self._chance.randint(0, self._busy) if self._busy else 0
        at = self._clock.now + wait

        def append() -> None:
            self._log.append(Event(KEY, Action.UPDATE, document), "broker", None, None, at)
            answered()

        self._clock.after(wait + self._chance.randint(0, 3), append)

    def _hear(self, entry: Entry) -> None:
        now = self._clock.now
        self._read_until = max(self._read_until + 1, now + self._chance.randint(*self._lag))
        self._clock.after(self._read_until - now, lambda: self._read(entry.event))

    def _read(self, event: Event) -> None:
        self._read_entries += 1
        self._cached = dict(event.document or {})
