"""A namespace's change log as brokers apply it: which numbers went back, and how long brokers showed a document that lacks a change.

Each number of ``settings`` only grows, so what a document should show is the greatest number that the log has had. A document with less
is one that was computed from an old one.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, NamedTuple, Self

from tests.broker.pulsar_broker import Broker
from tests.promises.change_log import EMPTY, ChangeLog, Stored

from .acknowledged import Cell
from .settings import ALL

_STORY = 60
"""How many messages of a topic are kept for its story."""


class Wrong(NamedTuple):
    """A time in which brokers showed a document wrongly, in milliseconds since 1970 by the writers' clocks."""

    topic: str
    since: int
    until: int


class RawLog:
    """Follows a log from its beginning. Only LOCAL documents are looked at."""

    def __init__(self, broker: Broker, namespace: str) -> None:
        """Does not connect yet."""
        self._broker = broker
        self._namespace = namespace
        self._stack = contextlib.ExitStack()
        self._documents: dict[str, Mapping[str, Any]] = {}
        self._greatest: dict[Cell, int] = defaultdict(int)
        self._wrong_since: dict[str, int] = {}
        self._past: list[Wrong] = []
        self._stories: dict[str, deque[str]] = defaultdict(lambda: deque(maxlen=_STORY))
        self.counts: Counter[str] = Counter()
        """``events``; ``stale``: documents that lack a change; ``went back``: numbers that decreased; ``repairs``: documents of sidecars
        that have no new number."""
        self.listeners: list[Callable[[Stored], None]] = []
        """Called for each message, by the event loop."""

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self.log = await asyncio.to_thread(ChangeLog, self._broker, self._namespace)
        self._stack.callback(self.log.close)
        try:
            follow = self.log.followed(lambda stored: _called(loop, self._take, stored))
            await asyncio.to_thread(self._stack.enter_context, follow)
        except BaseException:
            self._stack.close()
            raise
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await asyncio.to_thread(self._stack.close)

    @property
    def wrong(self) -> int:
        """The number of topics of which brokers show a document that lacks a change now."""
        return len(self._wrong_since)

    @property
    def wrong_topics(self) -> frozenset[str]:
        """These topics."""
        return frozenset(self._wrong_since)

    @property
    def wrong_times(self) -> list[Wrong]:
        """All times in which a document was wrong; those that are not over end now."""
        now = now_ms()
        return [*self._past, *(Wrong(topic, since, now) for topic, since in self._wrong_since.items())]

    @property
    def longest_wrong_ms(self) -> int:
        """The longest time in which a document was wrong."""
        return max((each.until - each.since for each in self.wrong_times), default=0)

    def document(self, topic: str) -> Mapping[str, Any]:
        """Returns the newest document of a topic."""
        return self._documents.get(topic, EMPTY)

    def story(self, topic: str) -> str:
        """Describes the last messages of a topic."""
        return "\n".join(self._stories[topic])

    def _take(self, stored: Stored) -> None:
        topic = stored.topic
        if stored.key == topic and stored.action != "NONE":
            self._look(stored, self.document(topic), stored.policies or EMPTY)
        for listener in self.listeners:
            listener(stored)

    def _look(self, stored: Stored, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
        topic, counts, changed = stored.topic, self.counts, []
        lacking = grown = False
        for owned in ALL:
            cell, number, last = Cell(topic, owned), owned.of(after), owned.of(before)
            counts["went back"] += number < last
            lacking |= number < self._greatest[cell]
            grown |= number > self._greatest[cell]
            self._greatest[cell] = max(self._greatest[cell], number)
            if number != last:
                changed.append(f"{owned.setting} {last} -> {number}")
        counts["events"] += 1
        counts["stale"] += lacking
        counts["repairs"] += not (grown or stored.by_broker)
        self._documents[topic] = after
        writer = "broker" if stored.by_broker else "sidecar"
        self._stories[topic].append(
            f"{stored.published_ms} {writer} {stored.producer}: {', '.join(changed) or 'nothing'}{' LACKS' * lacking}"
        )
        if lacking:
            self._wrong_since.setdefault(topic, stored.published_ms)
        elif topic in self._wrong_since:
            self._past.append(Wrong(topic, self._wrong_since.pop(topic), stored.published_ms))


def _called(loop: asyncio.AbstractEventLoop, take: Callable[[Stored], None], stored: Stored) -> None:
    with contextlib.suppress(RuntimeError):  # the loop was closed
        loop.call_soon_threadsafe(take, stored)


def now_ms() -> int:
    """Returns the time now, in milliseconds since 1970."""
    return time.time_ns() // 1_000_000
