"""A log as brokers keep it: entries in ledgers, old ones of which are trimmed, and what compaction leaves for readers.

As on Pulsar, the place of an entry is its ledger and its number there, and markers of the broker's own have places too. Compaction writes
the newest entry of each key, and no deletion, to a ledger of its own. Readers get those entries up to the compaction's horizon, and
everything after it. The new compacted ledger is reported at once, its horizon a moment later. The topic's ledgers hold everything that was
compacted until they are trimmed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Sequence
from typing import NamedTuple

from topicpolicies_server.core.names import PolicyKey
from topicpolicies_server.core.policies.events import Placed, Position
from topicpolicies_server.logs.pulsar.ids import MessageId, message_id_of, position_of
from topicpolicies_server.logs.pulsar.topics import Compaction, Gap, State

from .storage import MemoryStorage, StoredNamespace

_FIRST_LEDGER = 7
_LEDGER = 12
"""How many entries a ledger has."""


class Entry(NamedTuple):
    """What stands at a place of a ledger."""

    place: MessageId
    placed: Placed | None
    """None: a marker of the broker's own, which readers don't get."""


class Ledgers:
    """The ledgers of one partition.

    Attributes:
        told: the compaction as the broker reports it now.
        first: the oldest ledger that is left.
        last: the place of the last entry that is not a marker; None: there was none yet.
    """

    def __init__(self) -> None:
        self.first = _FIRST_LEDGER
        self.last: MessageId | None = None
        self._next = MessageId(_FIRST_LEDGER, 0)
        self._entries: list[Entry] = []
        self._compaction = self.told = Compaction(-1, MessageId(_FIRST_LEDGER, -1))

    @property
    def place(self) -> MessageId:
        """The place of the next entry."""
        return self._next

    def add(self, placed: Placed | None) -> None:
        """Adds an entry; None: a marker."""
        place = self._next
        self._entries.append(Entry(place, placed))
        if placed is not None:
            self.last = place
        self._next = MessageId(place.ledger, place.entry + 1)
        if self._next.entry == _LEDGER:
            self.roll()

    def roll(self) -> None:
        """Begins another ledger."""
        if self._next.entry > 0:
            self._next = MessageId(self._next.ledger + 1, 0)

    def compacted(self, horizon: MessageId) -> None:
        """Makes a new compaction effective; its horizon is reported later (``tell``)."""
        self._compaction = Compaction(self._compaction.ledger + 100, horizon)
        self.told = Compaction(self._compaction.ledger, self.told.horizon)

    def tell(self) -> None:
        """Reports the horizon of the last compaction from now on."""
        self.told = self._compaction

    @property
    def next_first(self) -> int:
        """The oldest ledger that is not entirely compacted."""
        horizon = self._compaction.horizon
        return max(self.first, horizon.ledger if horizon is not None else 0)

    def divides_what_overlaps(self, first: int, told: Collection[Position] | None = None) -> bool:
        """Whether an event in the ledger ``first`` or later was written without knowledge of an event of its key in an earlier ledger.

        Args:
            first: the number of the ledger.
            told: the positions of the events before that ledger that count; None: all of them.
        """
        last: dict[PolicyKey, Position] = {}
        for place, placed in self._entries:
            event = placed.event if placed is not None else None
            if placed is None or event is None:
                continue
            if place.ledger < first:
                if told is None or placed.position in told:
                    last[event.key] = placed.position
            elif event.key in last:
                seen = event.stamp.history if event.stamp is not None else None
                if seen is None or seen.upto < last[event.key]:
                    return True
        return False

    def last_forgotten(self, first: int, left: Collection[PolicyKey]) -> Position:
        """Returns the place of the last deletion before the ledger ``first`` of a key that is not ``left``; empty if there is none."""
        forgotten = ""
        for place, placed in self._entries:
            event = placed.event if placed is not None and self.first <= place.ledger < first else None
            if placed is not None and event is not None and event.document is None and event.key not in left:
                forgotten = placed.position
        return forgotten

    def trim(self) -> bool:
        """Drops the ledgers that are entirely compacted; returns whether there were any."""
        before, self.first = self.first, self.next_first
        return self.first > before

    def next(self, first: MessageId) -> Placed | None:
        """Returns the first entry from a place on that is left, as it was written; markers are none."""
        at = max(first, MessageId(self.first, 0))
        found = self._entries[bisect_left(self._entries, at, key=lambda entry: entry.place) :]
        return next((each.placed for each in found if each.placed is not None), None)

    def state(self) -> State:
        """Returns how far the partition is written and compacted, as the broker reports it."""
        last = self._entries[-1].place if self._entries else MessageId(_FIRST_LEDGER, -1)
        horizon = self.told.horizon
        first = MessageId(self.first, 0)
        if self.told.ledger != -1 and horizon is not None and horizon.ledger < self.first:
            first = MessageId(horizon.ledger, horizon.entry + 1)
        return State(self.told, last, first)

    def gap(self, after: MessageId, before: MessageId) -> Gap:
        """Returns what stands between two places."""
        message = next((each.place for each in self._standing(after, before) if each.placed is not None), None)
        return Gap(message, after.ledger < self.first, self.told.ledger)

    def _standing(self, after: MessageId, before: MessageId) -> list[Entry]:
        first = bisect_right(self._entries, after, key=lambda entry: entry.place)
        found = self._entries[first : bisect_left(self._entries, before, key=lambda entry: entry.place)]
        return [each for each in found if each.place.ledger >= self.first]


class LedgeredNamespace(StoredNamespace):
    """The stored events of one namespace, in ledgers; ``entries`` is what readers get."""

    def __init__(self, name: str, partitions: int, identity: str) -> None:
        super().__init__(name, partitions, identity)
        self.ledgers = [Ledgers() for _ in range(partitions)]

    def _next_place(self, partition: int) -> Position:
        return position_of(self.ledgers[partition].place)

    def _keep(self, placed: Placed) -> None:
        self.ledgers[placed.partition].add(placed)
        super()._keep(placed)

    def skip(self, partition: int, count: int) -> None:
        """Writes a marker if ``count`` is 1; otherwise begins another ledger."""
        if count == 1:
            self.ledgers[partition].add(None)
        else:
            self.ledgers[partition].roll()

    def compact(self, kept_from: int | None, *, deletions_kept: bool = False) -> None:
        """Leaves the newest entry of each key; the horizon is reported after ``tell``."""
        before = list(self.compacted)
        super().compact(kept_from, deletions_kept=deletions_kept)
        for ledgers, then, now in zip(self.ledgers, before, self.compacted, strict=True):
            if now != then:
                ledgers.compacted(message_id_of(now))

    def tell(self) -> None:
        """Reports the horizon of the last compaction from now on."""
        for ledgers in self.ledgers:
            ledgers.tell()

    def trim(self) -> int:
        """Drops the ledgers that are entirely compacted; returns in how many partitions there were some."""
        return sum(ledgers.trim() for ledgers in self.ledgers)

    def divides_what_overlaps(self) -> bool:
        """Whether ``trim`` would drop an event and leave one of the same key whose writer did not know the dropped one."""
        return any(ledgers.divides_what_overlaps(ledgers.next_first) for ledgers in self.ledgers)

    def forgotten_by_trimming(self) -> list[Position]:
        """Returns the place of the last deletion in each partition that nothing in the log would tell of after ``trim``; empty: none."""
        left = [{placed.event.key for placed in entries if placed.event is not None} for entries in self.entries]
        return [ledgers.last_forgotten(ledgers.next_first, keys) for ledgers, keys in zip(self.ledgers, left, strict=True)]

    def tells_what_was_divided(self) -> bool:
        """Whether an event is left only in a compacted ledger, while the topic's ledgers hold a later one whose writer did not know it.

        The next compaction erases the earlier event: a process that starts afterwards gets only what stands in the topic's ledgers.
        """
        told = [{placed.position for placed in entries} for entries in self.entries]
        return any(ledgers.divides_what_overlaps(ledgers.first, left) for ledgers, left in zip(self.ledgers, told, strict=True))

    def next(self, partition: int, first: MessageId, most: int) -> Sequence[Placed]:
        """Returns what a compacted reader gets now from a place on: what compaction left, and everything after the horizon."""
        entries = self.entries[partition]
        begin = bisect_left(entries, first, key=lambda placed: message_id_of(placed.position))
        return entries[begin : begin + most]


class LedgeredStorage(MemoryStorage):
    """The stored events of all namespaces."""

    def namespace(self, name: str) -> LedgeredNamespace:
        """Returns what is stored of a namespace; creates an empty one if it is new."""
        stored = super().namespace(name)
        assert isinstance(stored, LedgeredNamespace)
        return stored

    def _made(self, name: str, partitions: int, identity: str) -> LedgeredNamespace:
        return LedgeredNamespace(name, partitions, identity)
