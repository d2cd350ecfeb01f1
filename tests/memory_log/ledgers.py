"""A log as brokers keep it: entries in ledgers, of which old ones are trimmed, and what compaction left over for readers.

As on Pulsar: an entry's place is its ledger and its number there, and markers of the broker's own have places too. Compaction writes the
newest entry of each key, and no deletion, to a ledger of its own; readers get those up to its horizon, and behind it what there is. That a
compaction counts is told at once, how far it went a moment later. Until they are trimmed the topic's ledgers have all that was compacted.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Sequence
from typing import NamedTuple

from topicpolicies_server.core.names import PolicyKey
from topicpolicies_server.core.policies.events import Placed, Position
from topicpolicies_server.logs.pulsar.admin.topics import Compaction
from topicpolicies_server.logs.pulsar.ids import MessageId, message_id_of, position_of

from .storage import MemoryStorage, StoredNamespace

_FIRST_LEDGER = 7
_LEDGER = 12
"""So many entries are in a ledger."""


class Entry(NamedTuple):
    """What stands at a place of a ledger."""

    place: MessageId
    placed: Placed | None
    """None: a marker of the broker's own, which readers don't get."""


class Ledgers:
    """One partition.

    Attributes:
        told: what a broker says of its compaction now.
        first: the oldest ledger that there still is.
        last: where the last entry stands that is no marker; None: there was none yet.
    """

    def __init__(self) -> None:
        self.first = _FIRST_LEDGER
        self.last: MessageId | None = None
        self._next = MessageId(_FIRST_LEDGER, 0)
        self._entries: list[Entry] = []
        self._compaction = self.told = Compaction(-1, MessageId(_FIRST_LEDGER, -1))

    @property
    def fresh(self) -> int | None:
        """If nothing was ever written: the ledger that the first entry goes to."""
        return None if self._entries else self._next.ledger

    @property
    def place(self) -> MessageId:
        """Where the next entry will stand."""
        return self._next

    def add(self, placed: Placed | None) -> None:
        """Puts an entry there; None: a marker."""
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
        """A compaction counts from now on; how far it went is told later."""
        self._compaction = Compaction(self._compaction.ledger + 100, horizon)
        self.told = Compaction(self._compaction.ledger, self.told.horizon)

    def tell(self) -> None:
        """How far the last compaction went is told from now on."""
        self.told = self._compaction

    @property
    def next_first(self) -> int:
        """The oldest ledger that is not wholly compacted."""
        horizon = self._compaction.horizon
        return max(self.first, horizon.ledger if horizon is not None else 0)

    def divides_what_overlaps(self, first: int, told: Collection[Position] | None = None) -> bool:
        """Whether an event stands from the ledger ``first`` on whose writer had not seen all that is before it of its key.

        Args:
            first: the number of the ledger.
            told: of what is before it, that which still counts; None: all of it.
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
                seen = event.stamp.seen if event.stamp is not None else None
                if seen is None or seen.upto < last[event.key]:
                    return True
        return False

    def trim(self) -> bool:
        """Drops the ledgers that are wholly compacted; whether there were any."""
        before, self.first = self.first, self.next_first
        return self.first > before

    def between(self, after: MessageId, before: MessageId, most: int) -> list[Entry] | None:
        """The first entries between two, as they were written; None if some were trimmed, or a marker stands there."""
        if after.ledger < self.first:
            return None
        found = self._standing(after, before)[:most]
        return None if any(each.placed is None for each in found) else found

    def upto(self, horizon: MessageId) -> list[Entry]:
        """The entries that there still are up to one, as they were written; none if a marker stands there."""
        found = self._standing(MessageId(self.first, -1), MessageId(horizon.ledger, horizon.entry + 1))
        return [] if any(each.placed is None for each in found) else found

    def message(self, after: MessageId, before: MessageId) -> MessageId | None:
        """The first entry between two that is no marker, of those that there still are."""
        return next((each.place for each in self._standing(after, before) if each.placed is not None), None)

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
        """Writes a marker, or begins another ledger."""
        if count == 1:
            self.ledgers[partition].add(None)
        else:
            self.ledgers[partition].roll()

    def compact(self, kept_from: int | None, *, deletions_kept: bool = False) -> None:
        """Leaves over the newest entry of each key; how far that went is told by ``tell``."""
        before = list(self.compacted)
        super().compact(kept_from, deletions_kept=deletions_kept)
        for ledgers, then, now in zip(self.ledgers, before, self.compacted, strict=True):
            if now != then:
                ledgers.compacted(message_id_of(now))

    def tell(self) -> None:
        """How far the last compaction went is told from now on."""
        for ledgers in self.ledgers:
            ledgers.tell()

    def trim(self) -> int:
        """Drops the ledgers that are wholly compacted; in how many partitions there were some."""
        return sum(ledgers.trim() for ledgers in self.ledgers)

    def divides_what_overlaps(self) -> bool:
        """Whether ``trim`` would drop an event, and leave one of the same key whose writer had not seen it."""
        return any(ledgers.divides_what_overlaps(ledgers.next_first) for ledgers in self.ledgers)

    def tells_what_was_divided(self) -> bool:
        """Whether compaction's own ledger alone has an event, and the topic's have one of the same key whose writer had not seen it.

        Another compaction takes it from there: who starts then is given what stands in the topic's ledgers, and knows of it no more.
        """
        told = [{placed.position for placed in entries} for entries in self.entries]
        return any(ledgers.divides_what_overlaps(ledgers.first, left) for ledgers, left in zip(self.ledgers, told, strict=True))

    def next(self, partition: int, after: Position, most: int) -> Sequence[Placed]:
        """What a reader gets behind a position, by now: what compaction left over, and behind its horizon everything."""
        entries = self.entries[partition]
        first = bisect_right(entries, after, key=lambda placed: placed.position)
        return entries[first : first + most]


class LedgeredStorage(MemoryStorage):
    """What is stored of all namespaces."""

    def namespace(self, name: str) -> LedgeredNamespace:
        """What is stored of a namespace; nothing yet, if it is new."""
        stored = super().namespace(name)
        assert isinstance(stored, LedgeredNamespace)
        return stored

    def _made(self, name: str, partitions: int, identity: str) -> LedgeredNamespace:
        return LedgeredNamespace(name, partitions, identity)
