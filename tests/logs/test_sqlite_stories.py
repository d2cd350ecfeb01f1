"""Stories of keys in the embedded log: whatever is compacted, refused or interrupted, each event is read as it was appended."""

from __future__ import annotations

import json
import random
import sqlite3
import uuid
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.views import states_of
from tests.logs.recorder import Recorder
from tests.logs.samples import a_document, a_key
from topicpolicies_server import sqlite_file
from topicpolicies_server.core.fold.fold import FoldContext
from topicpolicies_server.core.policies.events import Action, Event, Placed, Position, Remembered, Stamp, StampKind
from topicpolicies_server.core.reading.view import View
from topicpolicies_server.logs.change_log import LogError
from topicpolicies_server.logs.sqlite import Compaction, SqliteLog, compaction, file, writer
from topicpolicies_server.logs.sqlite.file import position_of

NAMESPACE = "acme/orders"


class Chain:
    """Generates the events of one key as a chain of updates does: some in flight, some with applied requests, some with rejected ones."""

    def __init__(self, chance: random.Random, topic: int) -> None:
        self.chance = chance
        self.key = a_key(NAMESPACE, topic)
        self.known: tuple[Remembered, ...] = ()
        self.flight: list[Stamp] = []

    def next(self) -> Event:
        """Returns the next event."""
        while self.flight and self.chance.random() < 0.5:
            self._settle()
        if self.chance.random() < 0.08:
            kind = self.chance.choice([StampKind.TOMBSTONE, StampKind.REPAIR])
            stamp = Stamp(uuid.UUID(int=self.chance.getrandbits(128)).hex, kind, remembered=self.known[-16:])
            if kind is StampKind.TOMBSTONE:
                return Event(self.key, Action.DELETE, None, stamp)
            return Event(self.key, Action.UPDATE, a_document(self.chance.randrange(5)), stamp)
        number = self.chance.getrandbits(128)
        on_their_way = tuple(Remembered(stamp.request_id, stamp.digest, "", "") for stamp in self.flight)
        stamp = Stamp(
            uuid.UUID(int=number).hex,
            StampKind.UPDATE,
            request_id=self.chance.choice([uuid.UUID(int=number + 1).hex, f"with, comma and % {number}", f"größer {number}"]),
            digest=f"{number:016x}"[:16],
            mask=("max_producer_per_topic",),
            remembered=(*self.known, *on_their_way)[-16:],
        )
        self.flight.append(stamp)
        return Event(self.key, Action.UPDATE, a_document(self.chance.randrange(5)), stamp)

    def _settle(self) -> None:
        stamp = self.flight.pop(0)
        if self.chance.random() < 0.9:
            place = position_of(self.chance.randrange(1, 1_000))
            self.known = (*self.known, Remembered(stamp.request_id, stamp.digest, place, "0"))[-16:]


@given(st.dictionaries(st.sampled_from(["tp-v", "tp-reason", "tp-actor"]), st.text()))
def test_properties_are_stored_in_a_row_as_compact_json(properties: dict[str, str]) -> None:
    text = file.text_of(properties)
    assert text == json.dumps(properties, separators=(",", ":"), ensure_ascii=False)
    assert file.properties_of(text) == properties


class World:
    """A file that is written, compacted and read, and what was appended to it."""

    def __init__(self, path: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.path = path
        self.now = 1_700_000_000_000
        self.chains = [Chain(self.chance, topic) for topic in range(6)]
        self.appended: list[Placed] = []
        self.begin()

    def begin(self) -> None:
        self.settings = Compaction(
            retention_ms=self.chance.choice([-1, 5_000, 60_000]),
            deletions_ms=self.chance.choice([-1, 20_000, 10**9]),
            interval_seconds=3_600,
            pause_seconds=0,
        )
        self.log = SqliteLog(self.path, compaction=self.settings, now=lambda: self.now)

    async def restart(self) -> None:
        await self.log.close()
        self.begin()

    async def write(self, count: int) -> None:
        recorder = Recorder()
        log = await self.log.open(NAMESPACE, recorder)
        left = count
        while left:
            group = min(self.chance.randrange(1, 6), left)
            left -= group
            for _ in range(group):
                recorder.append(log, self.chance.choice(self.chains[: self.chance.randrange(1, 7)]).next())
            await recorder.until_settled(count - left)
            self.now += self.chance.randrange(3_000)
        await recorder.until_caught_up()
        self.appended += recorder.places
        await log.close()

    async def read(self) -> list[Placed]:
        recorder = Recorder()
        log = await self.log.open(NAMESPACE, recorder)
        await recorder.until_caught_up()
        await log.close()
        return recorder.entries


@pytest.fixture(params=range(12))
async def world(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[World]:
    world = World(tmp_path / "changes.db", request.param)
    yield world
    await world.log.close()


def without_texts(placed: Placed) -> tuple[object, ...]:
    return placed.position, placed.published_at, placed.event


def state_of(read: list[Placed], upto: Position) -> dict[object, object]:
    view = View(FoldContext(sole_writer=True, joining=True, complete=[upto]))
    for placed in read:
        view.fold(placed)
    view.loaded()
    return {
        key: (state.document, state.version, state.head_event, state.remembered, state.repair_due, state.newest_event)
        for key, state in states_of(view)
    }


async def test_after_any_complete_or_interrupted_compaction_each_event_is_read_as_it_was_appended(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also, the events read of a key are its newest, without a gap."""
    left = 0

    def breaking(what: object) -> object:
        def step(*arguments: object, **named: object) -> object:
            nonlocal left
            left -= 1
            if left == 0:
                error = sqlite3.OperationalError("database or disk is full")
                error.sqlite_errorcode = sqlite3.SQLITE_FULL
                raise error
            assert callable(what)
            return what(*arguments, **named)

        return step

    monkeypatch.setattr(compaction, "DELETED", 3)
    monkeypatch.setattr(file, "delete_events", breaking(file.delete_events))
    for _ in range(6):
        await world.write(world.chance.randrange(10, 50))
        if world.chance.random() < 0.5:
            await world.restart()
        left = world.chance.choice([0, 0, world.chance.randrange(1, 12)])
        try:
            await world.log.compact(NAMESPACE)
        except LogError:
            assert left == 0, "only an injected fault may interrupt it"
        left = 0
        read = await world.read()
        by_position = {placed.position: placed for placed in world.appended}
        assert list(map(without_texts, read)) == [without_texts(by_position[placed.position]) for placed in read]
        upto = position_of(compacted(world.path)) if compacted(world.path) else ""
        stories: defaultdict[object, list[Placed]] = defaultdict(list)
        for placed in world.appended:
            assert placed.event is not None
            stories[placed.event.key].append(placed)
        remains: defaultdict[object, list[Position]] = defaultdict(list)
        for placed in read:
            assert placed.event is not None
            remains[placed.event.key].append(placed.position)
        for key, story in stories.items():
            left_of_it = [placed.position for placed in story][len(story) - len(remains[key]) :]
            assert remains[key] == left_of_it, "the newest events of the key, without a gap"
            newest = story[-1].event
            assert remains[key] or (newest is not None and newest.document is None)
            assert all(placed.position in remains[key] for placed in story if placed.position > upto)
        assert state_of(read, upto) == state_of([by_position[placed.position] for placed in read], upto)


async def test_events_appended_after_a_refused_commit_are_read_as_they_were_appended(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    inserting = sqlite_file.insert
    refusing = False

    def insert(*arguments: Any) -> None:
        if refusing:
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise error
        inserting(*arguments)

    monkeypatch.setattr(writer, "insert", insert)
    recorder = Recorder()
    log = await world.log.open(NAMESPACE, recorder)
    settled = 0
    for _ in range(30):
        refusing = world.chance.random() < 0.3
        for _ in range(world.chance.randrange(1, 5)):
            recorder.append(log, world.chance.choice(world.chains).next())
            settled += 1
        await recorder.until_settled(settled)
    await log.close()
    assert recorder.failures and recorder.places
    assert list(map(without_texts, await world.read())) == list(map(without_texts, recorder.places))


def compacted(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("SELECT compacted FROM namespaces").fetchone()[0])
