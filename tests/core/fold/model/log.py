"""A change log that is compacted, and that remembers what its events were meant to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from topicpolicies_server.core.names import PolicyKey
from topicpolicies_server.core.policies.documents import Settings
from topicpolicies_server.core.policies.events import Event, Placed, Position

from .intents import Intent


class Entry(NamedTuple):
    """An event in the log."""

    placed: Placed
    event: Event
    intent: Intent | None
    """What its writer wanted; None for repairs and tombstones that follow a deletion."""
    base: Settings | None
    """The document that its writer computed it from."""
    number: int


class Log:
    """One partition. Readers hear of entries in order; when they take them is their business."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.horizon = 0
        """So many of the entries have been compacted."""
        self.readers: list[Callable[[Entry], None]] = []

    def append(self, event: Event, writer: str, intent: Intent | None, base: Settings | None, published_at: int) -> Entry:
        """Places an event."""
        number = len(self.entries)
        entry = Entry(Placed(0, position(number), event, published_at, writer), event, intent, base, number)
        self.entries.append(entry)
        for reader in list(self.readers):
            reader(entry)
        return entry

    def compact(self) -> None:
        """Erases all but the newest event of each key, and that too if it is a message without a value."""
        self.horizon = len(self.entries)

    def compacted(self, recalled: int = 0) -> list[Entry]:
        """What a new reader gets; so many of the entries before the compaction's end as they were, as long as they are there."""
        newest: dict[PolicyKey, Entry] = {entry.event.key: entry for entry in self.entries[: self.horizon]}
        whole = max(self.horizon - recalled, 0)
        kept = [entry for entry in newest.values() if entry.event.document is not None and entry.number < whole]
        return sorted(kept, key=lambda entry: entry.number) + self.entries[whole:]


def position(number: int) -> Position:
    """Where the entry of a number stands."""
    return f"{number + 1:08d}"
