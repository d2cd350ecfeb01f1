"""Brokers: they keep whole documents, and write whole documents computed from what they have read so far."""

from __future__ import annotations

import random
from collections import defaultdict, deque
from dataclasses import dataclass

from topicpolicies_server.core.names import PolicyKey
from topicpolicies_server.core.policies.documents import Settings
from topicpolicies_server.core.policies.events import Action, Event

from .clock import Clock
from .intents import Chooser, Intent
from .log import Entry, Log


@dataclass(frozen=True)
class BrokerKind:
    """How a broker behaves."""

    chained: bool
    """Whether an admin call of a key waits for the event of the one before, as in 4.2.4 (PIP-428); 4.0.0 computes each at once."""
    lag: tuple[int, int] = (2, 30)
    """Milliseconds between the append of an event and its reading by the broker."""
    known: frozenset[str] | None = None
    """The families that its schema knows; None: all."""
    writes_two: float = 0.0
    """The share of admin calls that change two settings, which no released broker does."""


class Broker:
    """One broker."""

    def __init__(self, name: str, kind: BrokerKind, clock: Clock, log: Log, chance: random.Random, chooser: Chooser) -> None:
        self.name = name
        self.kind = kind
        self.shown: dict[PolicyKey, Settings] = {}
        """The documents that it applies to its topics."""
        self._clock = clock
        self._log = log
        self._chance = chance
        self._chooser = chooser
        self._read_until = 0
        self._published_until = 0
        self._waiting: dict[PolicyKey, deque[None]] = defaultdict(deque)
        self._in_flight: dict[PolicyKey, Event] = {}
        log.readers.append(self._hear)

    def admin(self, key: PolicyKey) -> None:
        """Receives a call of the admin API."""
        if self.kind.chained and key in self._in_flight:
            self._waiting[key].append(None)
        else:
            self._call(key)

    def _call(self, key: PolicyKey) -> None:
        base = self.shown.get(key)
        intent = self._chooser.admin(base, self.kind.known)
        if self._chance.random() < self.kind.writes_two:
            intent = Intent({**intent.values, **self._chooser.admin(base, self.kind.known).values})
        if intent.delete and base is None:
            return
        event = Event(key, Action.DELETE if intent.delete else Action.UPDATE, intent.apply(base), known=self.kind.known)
        self._in_flight[key] = event
        at = self._clock.now
        self._published_until = max(self._published_until + 1, at + self._chance.randint(1, 6))

        def publish() -> None:
            self._log.append(event, self.name, intent, base, at)

        self._clock.after(self._published_until - at, publish)

    def _hear(self, entry: Entry) -> None:
        self._read_until = max(self._read_until, self._clock.now + self._chance.randint(*self.kind.lag))
        self._clock.after(self._read_until - self._clock.now, lambda: self._read(entry))

    def _read(self, entry: Entry) -> None:
        event = entry.event
        show(self.shown, event, self.kind.known)
        if self._in_flight.get(event.key) is event:
            del self._in_flight[event.key]
            if self._waiting[event.key]:
                self._waiting[event.key].popleft()
                self._call(event.key)


def seen_by(document: Settings | None, known: frozenset[str] | None) -> Settings | None:
    """Returns the part of a document that a broker's schema knows."""
    if document is None or known is None:
        return document
    return {name: value for name, value in document.items() if name.partition("/")[0] in known}


def show(shown: dict[PolicyKey, Settings], event: Event, known: frozenset[str] | None) -> None:
    """Applies an event to a broker's documents (``SystemTopicBasedTopicPoliciesService.refreshTopicPoliciesCache``)."""
    if event.document is None or event.action is Action.DELETE:
        shown.pop(event.key, None)
    elif event.action is Action.UPDATE or (event.action is Action.INSERT and event.key not in shown):
        shown[event.key] = seen_by(event.document, known) or {}
