"""Readers that resume at other sidecars, in any state of them, end up with what the log says.

Several sidecars follow one log, each at its own pace; they forget deletions, lose the log and open it again after a compaction, and are
restarted. Readers come with tokens of another sidecar. The model to compare with is the log itself.
"""

from __future__ import annotations

import random
from typing import NamedTuple

import pytest

from tests.core.test_view import update
from tests.core.views import heads_of
from topicpolicies_server.core.fold.fold import FoldContext
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.policies.events import Action, Event, Placed, Position
from topicpolicies_server.core.reading import watch
from topicpolicies_server.core.reading.cell import Head
from topicpolicies_server.core.reading.tokens import Lagged, Mode, OutOfRange, Selection, Token
from topicpolicies_server.core.reading.view import View
from topicpolicies_server.core.reading.watch import Watcher, WatchHub
from topicpolicies_server.namespaces.follower import known_behind

LOG = "a log"
PARTITIONS = 2
KEYS = [PolicyKey(f"persistent://acme/orders/{name}", scope) for name in "abcd" for scope in Scope]
SELECTIONS = [Selection(None), Selection(None, frozenset({Scope.GLOBAL})), Selection(frozenset(key.topic for key in KEYS[:4]))]
CONTEXT = FoldContext(window_ms=2)


class Log:
    """The model: every event, by partition, and the position up to which it was compacted."""

    def __init__(self) -> None:
        self.entries: list[list[Placed]] = [[] for _ in range(PARTITIONS)]
        self.compacted: list[Position] = [""] * PARTITIONS
        self.identity = LOG
        self.partitions = PARTITIONS
        self._rows = 0

    def write(self, key: PolicyKey, *, deletes: bool) -> None:
        self._rows += 1
        partition = KEYS.index(key) % PARTITIONS
        placed = update(key, self._rows, self._rows % 100, partition=partition)._replace(published_at=self._rows)
        if deletes:
            placed = placed._replace(event=Event(key, Action.DELETE, None))
        self.entries[partition].append(placed)

    def compact(self, partition: int) -> None:
        if self.entries[partition]:
            self.compacted[partition] = self.entries[partition][-1].position

    def complete_after(self, partition: int) -> Position | None:
        return self.compacted[partition]

    def left(self, partition: int) -> list[Placed]:
        """Returns what an opening reads: of the compacted part the newest event of each key, without deletions, and all later events."""
        until = self.compacted[partition]
        newest = {placed.event.key: placed for placed in self.entries[partition] if placed.event and placed.position <= until}
        kept = [placed for placed in newest.values() if placed.event is not None and placed.event.document is not None]
        return sorted(kept, key=lambda placed: placed.position) + [p for p in self.entries[partition] if p.position > until]

    def documents(self) -> dict[PolicyKey, Position]:
        """Returns the version of each document at the end of the log."""
        view = View(CONTEXT)
        for placed in (placed for entries in self.entries for placed in entries):
            view.fold(placed)
        return {head.key: head.version for head in heads_of(view) if head.document is not None}

    def changes(self, partition: int) -> list[Position]:
        """Returns the positions of a partition's events that changed a head."""
        view = View(CONTEXT)
        return [placed.position for placed in self.entries[partition] if view.fold(placed).head is not None]


class Sidecar:
    """A sidecar that follows the log at its own pace."""

    def __init__(self, log: Log, chance: random.Random, absences: int, ring: int) -> None:
        self.log = log
        self.chance = chance
        self.absences = absences
        self.ring = ring
        self.life = 0
        """The number of restarts; watchers from before a restart are gone."""
        self.hub: WatchHub | None = None
        self.positions: list[Position] = []
        self.open()

    def open(self) -> None:
        """Opens the log, for the first time or again."""
        log, hub = self.log, self.hub
        view = View(CONTEXT, absences=self.absences)
        left = [log.left(partition) for partition in range(PARTITIONS)]
        while any(left):  # each partition is read at its own pace
            view.fold(self.chance.choice([events for events in left if events]).pop(0))
        self.positions = [entries[-1].position if entries else "" for entries in log.entries]
        token = Token(LOG, tuple(self.positions))
        behind = known_behind(log.complete_after, view, token.positions)
        if hub is not None:
            hub.replace(Lagged, trusted=True)
        self.hub = WatchHub(view, token, self.ring, behind)

    def restart(self) -> None:
        self.life += 1
        self.hub = None
        self.open()

    def read(self, most: int) -> None:
        self._read(self.chance.randrange(PARTITIONS), most)

    def read_all(self) -> None:
        for partition in range(PARTITIONS):
            self._read(partition, 1_000)

    def _read(self, partition: int, most: int) -> None:
        assert self.hub is not None
        for placed in [p for p in self.log.entries[partition] if p.position > self.positions[partition]][:most]:
            _, change, before, _ = self.hub.view.fold(placed)
            if change is not None:
                self.hub.publish(change, before)
            self.positions[partition] = placed.position
            self.hub.token = Token(LOG, tuple(self.positions))

    def check(self) -> None:
        """Checks that the heads of the view are those of the fold."""
        assert self.hub is not None
        for head in heads_of(self.hub.view):
            state = self.hub.view.state(head.key)
            assert state is not None and (state.document, state.version) == (head.document, head.version)


class Received(NamedTuple):
    """A change that a reader got."""

    partition: int
    position: Position


class Reader:
    """A client that follows the rules of docs/watch.md."""

    def __init__(self, mode: Mode, selection: Selection) -> None:
        self.mode = mode
        self.selection = selection
        self.token: Token | None = None
        self.known: dict[PolicyKey, Head] = {}
        self.fresh: set[PolicyKey] | None = set()
        self.received: list[Received] = []
        self.since: Token | None = None
        """The token at which its last snapshot was complete."""
        self.resets = 0
        self._sidecar: Sidecar | None = None
        self._life = 0
        self._watcher: Watcher | None = None

    def connect(self, sidecar: Sidecar) -> None:
        self.disconnect()
        self._sidecar, self._life = sidecar, sidecar.life
        self.fresh = set() if self.token is None else None
        self._begin()

    def disconnect(self) -> None:
        if self._watcher is not None and self._sidecar is not None and self._sidecar.hub is not None:
            self._sidecar.hub.unsubscribe(self._watcher)
        self._sidecar = self._watcher = None

    @property
    def connected(self) -> bool:
        return self._sidecar is not None and self._sidecar.life == self._life

    def take(self, most: int) -> bool:
        """Takes one batch; returns whether there is more."""
        if not self.connected or self._watcher is None:
            return False
        try:
            batch = self._watcher.take(most)
        except Lagged:
            if self.token is None:
                self.fresh = set()  # the snapshot was not complete
            else:
                self.token = self._watcher.resume_from
                if self.token is None:
                    self.resets, self.fresh = self.resets + 1, set()
            self._begin()
            return True
        for change in batch.heads:
            self._apply(change)
        if self.token is not None and self._watcher.token is not None:
            self.token = self._watcher.token
        if not batch.more:
            self._synced()
        return batch.more

    def take_all(self) -> None:
        while self.take(3):
            pass

    def bookmark(self) -> None:
        if self.connected and self._watcher is not None and self.token is not None and self._watcher.token is not None:
            assert self._watcher.token.reaches(self.token), "a token never goes back"
            self.token = self._watcher.token

    def _begin(self) -> None:
        assert self._sidecar is not None and self._sidecar.hub is not None
        hub = self._sidecar.hub
        try:
            self._watcher = hub.subscribe(self.selection, self.mode, self.token, lambda: None)
        except OutOfRange:
            self.resets += 1
            self.token, self.fresh = None, set()
            self._watcher = hub.subscribe(self.selection, self.mode, None, lambda: None)

    def _apply(self, change: Head) -> None:
        old = self.known.get(change.key)
        if old is None or change.version > old.version or (self.fresh is not None and change.key not in self.fresh):
            self.known[change.key] = change
        if self.fresh is not None:
            self.fresh.add(change.key)
        if self.token is not None:
            assert self.mode is Mode.LATEST or change.placed is not None, "in this mode every change has its event"
            if change.placed is not None:
                self.received.append(Received(change.placed.partition, change.placed.position))

    def _synced(self) -> None:
        assert self._watcher is not None and self._watcher.token is not None
        if self.fresh is not None:
            self.known = {key: head for key, head in self.known.items() if key in self.fresh}
            self.since, self.received, self.fresh = self._watcher.token, [], None
        self.token = self._watcher.token

    def check(self, log: Log) -> None:
        """Checks that the reader, which has taken everything, knows what the log says."""
        shown = {key: head.version for key, head in self.known.items() if head.document is not None}
        assert shown == {key: version for key, version in log.documents().items() if self.selection.includes(key)}
        if self.mode is Mode.EVERY and self.since is not None:
            for partition in range(PARTITIONS):
                begun = self.since.positions[partition]
                received = [each.position for each in self.received if each.partition == partition]
                wanted = {p.position for p in log.entries[partition] if p.event is not None and self.selection.includes(p.event.key)}
                assert received == [p for p in log.changes(partition) if p > begun and p in wanted]


class Lister:
    """Reads a listing page by page, each page from another sidecar."""

    def __init__(self) -> None:
        self.after: PolicyKey | None = None
        self.listed: list[PolicyKey] = []
        self.throughout: set[PolicyKey] | None = None
        """The keys that had a document at each of these sidecars when its page was read."""

    def page(self, sidecar: Sidecar) -> None:
        assert sidecar.hub is not None
        view = sidecar.hub.view
        there = {head.key for head in heads_of(view) if head.document is not None}
        self.throughout = there if self.throughout is None else self.throughout & there
        heads, more = view.page(frozenset(Scope), self.after, 2)
        assert all(head.document is not None for head in heads)
        self.listed += [head.key for head in heads]
        self.after = self.listed[-1] if more else None
        if not more:
            assert self.listed == sorted(set(self.listed)), "each key is listed once, in order"
            assert self.throughout <= set(self.listed)
            self.listed, self.throughout = [], None


class World:
    """Three sidecars, and readers of every kind."""

    def __init__(self, seed: int) -> None:
        self.chance = chance = random.Random(seed)
        self.log = Log()
        self.deletes = chance.choice([0.2, 0.5])
        absences, ring = chance.choice([0, 1, 3, 100]), chance.choice([2, 8, 1_000])
        self.sidecars = [Sidecar(self.log, chance, absences, ring) for _ in range(3)]
        self.readers = [Reader(mode, selection) for mode in (Mode.LATEST, Mode.LATEST, Mode.EVERY) for selection in SELECTIONS]
        self.lister = Lister()

    def run(self, steps: int) -> int:
        """Runs random steps; returns how often readers had to begin again with a snapshot."""
        chance = self.chance
        does = [self._write, self._read, self._take, self._connect, self._disconnect, self._bookmark, self._lose, self._restart]
        for _ in range(steps):
            sidecar = chance.choice(self.sidecars)
            chance.choices(does, (8, 6, 8, 6, 1, 1, 2, 0.3))[0](sidecar, chance.choice(self.readers))
            self.lister.page(sidecar)
            sidecar.check()
        self._end()
        return sum(reader.resets for reader in self.readers)

    def _end(self) -> None:
        for sidecar in self.sidecars:
            sidecar.read_all()
            sidecar.check()
        for reader in self.readers:
            if not reader.connected or self.chance.random() < 0.5:
                reader.connect(self.chance.choice(self.sidecars))
            reader.take_all()
            reader.check(self.log)

    def _write(self, _: Sidecar, __: Reader) -> None:
        self.log.write(self.chance.choice(KEYS), deletes=self.chance.random() < self.deletes)

    def _read(self, sidecar: Sidecar, _: Reader) -> None:
        sidecar.read(self.chance.randint(1, 5))

    def _take(self, _: Sidecar, reader: Reader) -> None:
        reader.take(self.chance.randint(1, 3))

    def _connect(self, sidecar: Sidecar, reader: Reader) -> None:
        reader.connect(sidecar)
        while reader.take(3) and self.chance.random() < 0.9:
            pass

    def _disconnect(self, _: Sidecar, reader: Reader) -> None:
        reader.disconnect()

    def _bookmark(self, _: Sidecar, reader: Reader) -> None:
        reader.bookmark()

    def _restart(self, sidecar: Sidecar, _: Reader) -> None:
        sidecar.restart()

    def _lose(self, sidecar: Sidecar, reader: Reader) -> None:
        """Lets a sidecar lose the log for a while, in which keys change, and a reader may get the changes from another sidecar."""
        chance, log = self.chance, self.log
        other = chance.choice(self.sidecars)
        for _ in range(chance.randint(0, 3)):
            key = chance.choice(KEYS)
            log.write(key, deletes=chance.random() < 0.3)
            if chance.random() < 0.5:
                other.read_all()
                reader.connect(other)
                reader.take_all()
            log.write(key, deletes=chance.random() < 0.7)
        for partition in range(PARTITIONS):
            if chance.random() < 0.7:
                log.compact(partition)
        sidecar.open()


@pytest.mark.parametrize("looks", [watch.LOOKS, pytest.param(2, marks=pytest.mark.slow)])
def test_readers_that_change_sidecars_end_up_with_what_the_log_says(looks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "LOOKS", looks)
    assert sum(World(seed).run(120) for seed in range(60)) > 0, "some readers had to begin again"


@pytest.mark.parametrize("lost", ["compacted away", "forgotten"])
def test_a_token_between_events_that_a_sidecar_missed_can_not_be_resumed_there(lost: str) -> None:
    log = Log()
    key, other = KEYS[0], KEYS[2]
    log.write(other, deletes=False)
    mine, theirs = (Sidecar(log, random.Random(1), 0, 8) for _ in range(2))
    before = Token(LOG, tuple(mine.positions))
    log.write(key, deletes=False)
    theirs.read_all()
    between = Token(LOG, tuple(theirs.positions))
    log.write(key, deletes=True)
    if lost == "compacted away":
        log.compact(0)
    else:
        for _ in range(9):
            log.write(other, deletes=False)
    mine.open()
    assert mine.hub is not None and mine.hub.view.head(key) is None, "the view has nothing of the key"
    mine.hub.subscribe(Selection(None), Mode.LATEST, mine.hub.token, lambda: None)
    for token in (before, between):
        with pytest.raises(OutOfRange):
            mine.hub.subscribe(Selection(None), Mode.LATEST, token, lambda: None)


def test_a_reader_ahead_of_a_sidecar_that_loses_the_log_begins_again_if_a_key_may_be_gone() -> None:
    log = Log()
    mine, theirs = (Sidecar(log, random.Random(1), 100, 8) for _ in range(2))
    log.write(KEYS[0], deletes=False)
    theirs.read_all()
    reader = Reader(Mode.LATEST, Selection(None))
    for sidecar in (theirs, mine):
        reader.connect(sidecar)
        reader.take_all()
    assert set(reader.known) == {KEYS[0]}, "the second sidecar has not read the key yet"
    log.write(KEYS[0], deletes=True)
    log.compact(0)
    mine.open()
    reader.take_all()
    reader.check(log)
    assert reader.resets == 1
