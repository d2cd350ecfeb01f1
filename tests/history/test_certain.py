"""What the history tells as certain is right: compared with a list of all events, whatever is compacted, trimmed, missed and restarted."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies_server.core.errors import PolicyError
from topicpolicies_server.core.fold.fold import FoldContext
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.policies.events import Action, Event, Placed, Stamp, StampKind
from topicpolicies_server.core.reading.view import View
from topicpolicies_server.history import Bounds, History, open_history
from topicpolicies_server.history.file import Query

from .conftest import BEGIN, BOUNDS, NAMESPACE, Log, Reader, position, reader_of, topic, trim, trim_oldest, update

NAMES = ("a", "b", "c")


def key(name: str) -> PolicyKey:
    return PolicyKey(topic(name), Scope.LOCAL)


class World:
    """A change log, a server that follows it or not, and its history; all events are remembered beside it."""

    def __init__(self, path: Path, seed: int) -> None:
        self.path = path
        self.chance = random.Random(seed)
        self.now = BEGIN
        self.history: History = self.opened()
        self.events: dict[str, list[Placed]] = {name: [] for name in NAMES}
        self.rows = 0
        self.log: list[Placed] = []
        """The events that the log still has."""
        self.compacted = 0
        self.reader: Reader | None = None

    def opened(self) -> History:
        return open_history(self.path, BOUNDS, now=lambda: self.now)

    def write(self) -> None:
        """Appends an update or a deletion, which says what it was computed from, as events of sidecars do."""
        name = self.chance.choice(NAMES)
        former = self.events[name][-1] if self.events[name] else None
        absent = former is None or is_deletion(former)
        if self.chance.random() < 0.35 and absent:
            return
        self.rows += 1
        placed = update(self.rows, self.chance.randrange(1, 9), name=name, at=self.now)
        assert placed.event is not None and placed.event.stamp is not None
        forgotten = absent and (former is None or int(former.position) <= self.compacted)
        stamp = placed.event.stamp._replace(base="0" if forgotten or former is None else former.position)
        event = placed.event._replace(stamp=stamp)
        if not absent and self.chance.random() < 0.35:
            event = deletion(event, stamp)
        placed = placed._replace(event=event)
        self.events[name].append(placed)
        self.log.append(placed)
        if self.reader is not None:
            self.reader.read(placed)

    async def follow_or_leave(self) -> None:
        if self.reader is not None:
            if self.chance.random() < 0.7:  # else it was killed
                self.reader.recorder.closed()
            self.reader = None
            return
        complete = position(self.compacted) if self.compacted else ""
        self.reader = await reader_of(self.history, Log(complete=complete))
        self.reader.view = View(FoldContext(joining=True, joined_at=self.now, complete=[complete]))
        killed = self.chance.random() < 0.2
        self.reader.read(*self.log[: self.chance.randrange(len(self.log) + 1) if killed else None])
        if killed:
            self.reader = None
            return
        self.reader.recorder.caught_up()
        self.reader.view.loaded()

    def compact(self) -> None:
        """Forgets superseded events, and deletions, up to one of the events."""
        self.compacted = max(self.compacted, int(self.chance.choice(self.log).position) if self.log else 0)
        old = [placed for placed in self.log if int(placed.position) <= self.compacted]
        newest = {placed.event.key: placed for placed in old if placed.event is not None}
        self.log = [placed for placed in newest.values() if not is_deletion(placed)] + self.log[len(old) :]
        self.log.sort(key=lambda placed: placed.position)

    async def trim(self) -> None:
        await self.history.page(Query(NAMESPACE))
        if self.chance.random() < 0.5:
            trim(self.path, Bounds(self.chance.choice((0.003, 0.01, 1.5)), 1 << 30), self.now)
        else:
            trim_oldest(self.path, self.chance.randrange(1, 4))

    async def restart(self) -> None:
        await self.history.close()
        self.reader, self.history = None, self.opened()

    def moment(self) -> int:
        """A time at, right before or right after an event, or now."""
        name = self.chance.choice(NAMES)
        times = [placed.published_at + by for placed in self.events[name][-6:] for by in (-1, 0, 1)]
        return min(self.chance.choice([BEGIN, self.now, *times]), self.now)

    def truth(self, name: str, at: int) -> int | None:
        """What the document was: the limit that it set; None: there was none."""
        last = next((placed for placed in reversed(self.events[name]) if placed.published_at <= at), None)
        if last is None or last.event is None or is_deletion(last):
            return None
        return TopicPolicies.FromString(b"".join((last.event.document or {}).values())).max_producer_per_topic

    async def told(self, name: str, at: int) -> int | None:
        """What the history tells; raises ``PolicyError`` if it is not certain."""
        head = self.reader.view.head(key(name)) if self.reader is not None else None
        past = await self.history.past(NAMESPACE, key(name), head, at=at, followed=self.reader is not None)
        return None if past.document is None else TopicPolicies.FromString(past.document).max_producer_per_topic


def is_deletion(placed: Placed) -> bool:
    return placed.event is not None and placed.event.action is Action.DELETE


def deletion(event: Event, stamp: Stamp) -> Event:
    return Event(event.key, Action.DELETE, None, stamp._replace(kind=StampKind.DELETE, mask=()))


@pytest.mark.parametrize("seed", range(30))
async def test_a_document_that_is_told_as_certain_is_the_one_that_there_was(path: Path, seed: int) -> None:
    world = World(path, seed)
    chance, certain = world.chance, 0
    for _ in range(40):
        world.now += chance.choice((0, 1, 2, 5, 1_000))
        match chance.choices(("write", "follow", "compact", "trim", "restart"), (50, 10, 10, 6, 4))[0]:
            case "write":
                world.write()
            case "follow":
                await world.follow_or_leave()
            case "compact":
                world.compact()
            case "trim":
                await world.trim()
            case "restart":
                await world.restart()
        for _ in range(3):
            name, at = chance.choice(NAMES), world.moment()
            try:
                told = await world.told(name, at)
            except PolicyError:
                continue
            certain += 1
            assert told == world.truth(name, at), f"{name} at {at - BEGIN}"
    await world.history.close()
    assert certain
