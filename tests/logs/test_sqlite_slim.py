"""Slim rows of the embedded log leave out what an older row of their key holds: readers get the events as they were appended."""

from __future__ import annotations

import json
import random
import sqlite3
import uuid
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.logs.recorder import Recorder
from tests.logs.samples import a_document, a_key, a_tombstone
from topicpolicies_server.core.fold.fold import FoldContext
from topicpolicies_server.core.policies.events import Action, Event, Placed, Position, Remembered, Stamp, StampKind
from topicpolicies_server.core.reading.view import View
from topicpolicies_server.logs.change_log import LogError
from topicpolicies_server.logs.rows import position_of, row_of
from topicpolicies_server.logs.sqlite import Compaction, SqliteLog, events, floors, slim
from topicpolicies_server.logs.sqlite.slim import Completing, Shortening
from topicpolicies_server.logs.stamps import to_properties
from topicpolicies_server.sqlite_file import Damaged

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


def properties_of(event: Event) -> dict[str, str]:
    assert event.stamp is not None
    return to_properties(event.stamp)


def text_of(event: Event) -> str:
    assert event.stamp is not None
    return slim.text_of(to_properties(event.stamp, carried=False))


SIZES = st.integers(1, 5)


@given(st.randoms(use_true_random=False), SIZES, SIZES, SIZES, st.integers(1, 60))
def test_slim_rows_are_completed_wherever_reading_begins(chance: random.Random, written: int, read: int, depth: int, count: int) -> None:
    chains = [Chain(chance, topic) for topic in range(3)]
    shortening = Shortening(written, depth)
    stored: dict[int, tuple[str, str]] = {}
    expected: dict[int, dict[str, str]] = {}
    for row in range(1, count + 1):
        event = chance.choice(chains).next()
        expected[row] = properties_of(event)
        stored[row] = event.key.topic, shortening.properties(1, row, event.key.topic, event, text_of(event))
        if chance.random() < 0.05:
            shortening.forget()

    def look(row: int) -> events.EventRow:
        key, text = stored[row]
        return row, 0, 1, events.checksum_of(row, 0, 1, key, text, None), key, text, None

    completing = Completing(look, NAMESPACE, 0, read)
    for row in range(chance.randrange(count) + 1, count + 1):
        key, text = stored[row]
        assert completing.completed(row, key, slim.strings(text)) == expected[row]


@given(st.dictionaries(st.sampled_from(["tp-v", "tp-reason", "tp-actor"]), st.text()))
def test_properties_are_stored_in_a_row_as_compact_json(properties: dict[str, str]) -> None:
    text = slim.text_of(properties)
    assert text == json.dumps(properties, separators=(",", ":"))
    assert slim.strings(text) == properties


def test_rows_of_a_busy_key_are_slim_and_small_though_their_events_carry_sixteen_requests() -> None:
    shortening, chain = Shortening(), Chain(random.Random(1), 0)
    stored = []
    for row in range(1, 200):
        stamp = Stamp(f"{row:032x}", StampKind.UPDATE, f"{row:032x}", f"{row:016x}", remembered=chain.known)
        event = Event(chain.key, Action.UPDATE, a_document(), stamp)
        stored.append(shortening.properties(1, row, chain.key.topic, event, text_of(event)))
        chain.known = (*chain.known, Remembered(stamp.request_id, stamp.digest, position_of(row), position_of(row - 1)))[-16:]
    assert sum(map(slim.is_slim, stored)) > 180
    assert max(len(text) for text in stored if slim.is_slim(text)) < 300 < max(map(len, stored))


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
    view = View(FoldContext(sole_writer=True, joining=True), [upto])
    for placed in read:
        view.take(placed)
    view.loaded()
    return {
        key: (state.document, state.version, state.head_event, state.remembered, state.due, state.newest) for key, state in view.states()
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

    monkeypatch.setattr("topicpolicies_server.logs.sqlite.compaction.DELETED", 3)
    monkeypatch.setattr("topicpolicies_server.logs.sqlite.compaction.COMPLETED", 2)
    monkeypatch.setattr(floors, "delete", breaking(floors.delete))
    monkeypatch.setattr(floors, "complete", breaking(floors.complete))
    slims = forgotten = 0
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
        slims += stored_slim(world.path)
        before = stored(world.path)
        read = await world.read()
        forgotten += before - len(read)
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
    assert slims, "the test needs slim rows"


async def test_rows_forgotten_by_an_interrupted_compaction_are_deleted_by_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path / "changes.db", 3)
    world.log = SqliteLog(
        world.path, compaction=Compaction(retention_ms=-1, interval_seconds=3_600, pause_seconds=0), now=lambda: world.now
    )
    world.chains = [Chain(world.chance, 0)]
    monkeypatch.setattr("topicpolicies_server.logs.sqlite.compaction.DELETED", 4)
    deleting = floors.delete
    calls = 0

    def breaking(connection: sqlite3.Connection, namespace_id: int, places: list[int]) -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise error
        deleting(connection, namespace_id, places)

    monkeypatch.setattr(floors, "delete", breaking)
    chain = world.chains[0]
    recorder = Recorder()
    log = await world.log.open(NAMESPACE, recorder)
    for number in range(12):
        stamp = Stamp(f"{number:032x}", StampKind.UPDATE, f"{number:032x}", "d", remembered=chain.known)
        recorder.append(log, Event(chain.key, Action.UPDATE, a_document(number), stamp))
        chain.known = (*chain.known, Remembered(stamp.request_id, "d", position_of(number + 1), position_of(number)))[-16:]
    await recorder.until_settled(12)
    await log.close()
    with pytest.raises(LogError):
        await world.log.compact(NAMESPACE)
    assert stored(world.path) == 8
    read = await world.read()
    assert [row_of(placed.position) for placed in read] == [12], "rows 5 to 11 lean on the deleted row 4 and are forgotten"
    last = read[0].event
    assert last is not None and last.stamp is not None
    assert last.stamp.remembered == chain.known[:-1]
    assert await world.log.compact(NAMESPACE) == 7
    assert await world.read() == read
    await world.log.close()


async def test_events_appended_after_a_refused_commit_are_read_as_they_were_appended(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    inserting = events.insert
    refusing = False

    def insert(connection: sqlite3.Connection, values: list[int | str | bytes | None], rows: int) -> None:
        if refusing:
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise error
        inserting(connection, values, rows)

    monkeypatch.setattr(events, "insert", insert)
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


async def test_a_row_that_leans_on_a_missing_or_invalid_row_is_reported_as_damage(tmp_path: Path) -> None:
    for attempt, change in enumerate(('"tp-since":"9,', '"tp-since":"x,', '"tp-since":"0,', '"tp-since":"1,7,')):
        path = tmp_path / f"{attempt}.db"
        world = World(path, 1)
        world.chains = [Chain(world.chance, 0)]
        known: tuple[Remembered, ...] = ()
        recorder = Recorder()
        log = await world.log.open(NAMESPACE, recorder)
        for number in range(1, 4):
            stamp = Stamp(f"{number:032x}", StampKind.UPDATE, f"{number:032x}", "d", remembered=known)
            recorder.append(log, Event(a_key(NAMESPACE), Action.UPDATE, a_document(), stamp))
            known = (*known, Remembered(stamp.request_id, "d", position_of(number), ""))
        await recorder.until_settled(3)
        await world.log.close()
        with closing(sqlite3.connect(path)) as connection:
            place, *rest = connection.execute(
                "SELECT place, published_at, schema, key, properties, payload FROM events ORDER BY place DESC LIMIT 1"
            ).fetchone()
            assert '"tp-since":"2,0,1"' in rest[3]
            rest[3] = rest[3].replace('"tp-since":"2,0,' if change.endswith("7,") else '"tp-since":"2,', change)
            connection.execute(
                "UPDATE events SET properties = ?, checksum = ? WHERE place = ?", (rest[3], events.checksum_of(place, *rest), place)
            )
            connection.commit()
        again = Recorder()
        change_log = SqliteLog(path)
        await change_log.open(NAMESPACE, again)
        await again.until(lambda again=again: bool(again.losses))  # type: ignore[misc]
        assert "row 3" in again.losses[0].message and "damaged" in again.losses[0].message
        await change_log.close()


def test_a_row_that_leans_on_a_row_of_another_key_is_damage() -> None:
    text = '{"tp-v":"1","tp-since":"1,0,1"}'
    found = (1, 0, 1, events.checksum_of(1, 0, 1, "other", "{}", None), "other", "{}", None)
    with pytest.raises(Damaged, match="has another key"):
        Completing(lambda _row: found, NAMESPACE, 0).completed(2, "key", slim.strings(text))


def test_rows_without_a_document_are_complete_and_no_row_leans_on_them() -> None:
    shortening = Shortening()
    tombstone = a_tombstone(a_key(NAMESPACE))
    assert tombstone.stamp is not None
    stamp = tombstone.stamp._replace(remembered=(Remembered("r", "d", "11", ""),))
    update, tombstone = Event(tombstone.key, Action.UPDATE, {}, stamp), tombstone._replace(stamp=stamp)
    texts = [
        shortening.properties(1, row, event.key.topic, event, text_of(event))
        for row, event in enumerate((update, update, tombstone, update, update), start=1)
    ]
    assert list(map(slim.is_slim, texts)) == [False, True, False, False, True]


def stored(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("SELECT count(*) FROM events").fetchone()[0])


def stored_slim(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return sum(slim.is_slim(text) for (text,) in connection.execute("SELECT properties FROM events"))


def compacted(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("SELECT compacted FROM namespaces").fetchone()[0])
