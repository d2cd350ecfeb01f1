"""A namespace's change log: every event, the fold's state after it, and how long brokers showed another document."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from topicpolicies_server.core.fold.fold import FoldContext, KeyState, fold
from topicpolicies_server.core.names import PolicyKey
from topicpolicies_server.core.policies.documents import Settings
from topicpolicies_server.core.policies.events import Event, Placed, StampKind
from topicpolicies_server.logs.change_log import LogError
from topicpolicies_server.logs.pulsar import PulsarLimits, PulsarLog, PulsarNamespaceLog
from topicpolicies_server.namespaces.wording import difference, event_in_words

from .acknowledged import Cell
from .settings import ALL

_STORY = 60
"""How many events of a topic are kept for its story."""


class RawLog:
    """Follows a log from its beginning. If it is opened before the first write, it has seen every event and has no guesses."""

    def __init__(self, service_url: str, admin_url: str, namespace: str) -> None:
        self._change_log = PulsarLog(service_url, admin_url, limits=PulsarLimits(creation_seconds=0.5, recalled=0))
        self._namespace = namespace
        self._opened: PulsarNamespaceLog | None = None
        self._ready = asyncio.Event()
        self._context = FoldContext()
        self._states: dict[PolicyKey, KeyState] = defaultdict(KeyState)
        self._wrong_since: dict[PolicyKey, int] = {}
        self._numbers: dict[Cell, int] = defaultdict(int)
        self._raw: dict[PolicyKey, Settings | None] = {}
        self._stories: dict[str, deque[str]] = defaultdict(lambda: deque(maxlen=_STORY))
        self.counts: Counter[str] = Counter()
        """``changes``, ``repairs``, ``stale``, ``unexplained``, ``ambiguous``; ``went back``: numbers in raw documents that decreased."""
        self._longest_wrong_ms = 0
        self.doubtful: set[str] = set()
        """Topics with an event that is unexplained or ambiguous."""
        self.problems: list[str] = []
        self.listeners: list[Callable[[Sequence[Placed]], None]] = []

    async def __aenter__(self) -> Self:
        self._opened = await self._change_log.open(self._namespace, self)
        self._context = FoldContext(in_place=self._opened.in_place)
        try:
            await asyncio.wait_for(self._ready.wait(), 30)
        except TimeoutError:
            self.problems.append("not read in 30 s")
        if self.problems:
            await self._change_log.close()
            raise AssertionError(f"{self._namespace}: {self.problems}")
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self._change_log.close()
        if error is None:
            assert not self.problems, self.problems
        elif self.problems:
            error.add_note(f"The raw log of {self._namespace}: {self.problems}")

    @property
    def wrong(self) -> int:
        """The number of keys of which brokers show another document than the head now."""
        return len(self._wrong_since)

    @property
    def wrong_keys(self) -> frozenset[PolicyKey]:
        """The keys of which brokers show another document than the head now."""
        return frozenset(self._wrong_since)

    @property
    def longest_wrong_ms(self) -> int:
        """The longest time for which brokers showed another document than the head; documents that are still wrong count until now."""
        now = time.time_ns() // 1_000_000
        return max([self._longest_wrong_ms, *(now - since for since in self._wrong_since.values())])

    def raw(self, key: PolicyKey) -> Settings | None:
        """Returns the newest raw document of a key."""
        return self._raw.get(key)

    def append(self, event: Event) -> None:
        """Writes an event."""
        assert self._opened is not None, "opened"
        self._opened.append(event)

    def story(self, topic: str) -> str:
        """Describes the last events of a topic."""
        return "\n".join(self._stories[topic])

    # --- the log's sink (``change_log.LogSink``)

    def read(self, events: Sequence[Placed]) -> None:
        """Folds events."""
        for placed in events:
            if placed.event is not None:
                self._take(placed, placed.event)
            elif placed.problem:
                self.problems.append(placed.problem)
        for listener in self.listeners:
            listener(events)

    def caught_up(self) -> None:
        """Notes that the existing events have been read."""
        self._ready.set()

    def appended(self, events: Sequence[Placed]) -> None:
        """Does nothing: appended events are read too."""

    def append_failed(self, event: Event, error: LogError) -> None:
        """Notes an unexpected failure."""
        self.problems.append(f"append failed: {error.message}")

    def lost(self, error: LogError) -> None:
        """Notes an unexpected loss of the log."""
        self.problems.append(f"lost: {error.reason} {error.message}")
        self._ready.set()  # the opening caller then raises the problem

    def led(self) -> None:
        """Does nothing: any process may write this log."""

    def _take(self, placed: Placed, event: Event) -> None:
        state = self._states[event.key]
        head = state.document
        folded = fold(state, placed, self._context)
        counts = self.counts
        counts["changes"] += folded.changed
        counts["stale"] += folded.stale
        counts["unexplained"] += folded.unexplained
        counts["ambiguous"] += folded.ambiguous
        if folded.unexplained or folded.ambiguous:
            self.doubtful.add(event.key.topic)
        restates = event.stamp is not None and event.stamp.kind in (StampKind.REPAIR, StampKind.TOMBSTONE)
        counts["repairs"] += restates
        story = f"{event_in_words(placed, folded.settings)}: {folded.status.value}"
        story += " stale" * folded.stale + " UNEXPLAINED" * folded.unexplained + " AMBIGUOUS" * folded.ambiguous
        story += f"; head {difference(head, state.document)}; raw {difference(self._raw.get(event.key), state.live)}"
        self._stories[event.key.topic].append(story)
        self._look_back(event.key, self._raw.get(event.key), state.live)
        self._raw[event.key] = state.live
        if state.live != state.document:
            self._wrong_since.setdefault(event.key, placed.published_at)
        elif event.key in self._wrong_since:
            self._longest_wrong_ms = max(self._longest_wrong_ms, placed.published_at - self._wrong_since.pop(event.key))

    def _look_back(self, key: PolicyKey, before: Settings | None, after: Settings | None) -> None:
        for owned in ALL:
            if (before or {}).get(owned.setting) != (after or {}).get(owned.setting):
                cell, number = Cell(key.topic, owned), owned.of(after)
                self.counts["went back"] += number < self._numbers[cell]
                self._numbers[cell] = number
