"""A change log that can be compacted, and that keeps the intents of its events."""

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
    """The intent of its writer; None for repairs and for tombstones that follow a deletion."""
    base: Settings | None
    """The document that its writer computed it from."""
    number: int


class Log:
    """One partition. Notifies its readers of entries in order; each reader decides when it folds them."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.horizon = 0
        """How many of the entries have been compacted."""
        self.readers: list[Callable[[Entry], None]] = []

    def append(self, event: Event, writer: str, intent: Intent | None, base: Settings | None, published_at: int) -> Entry:
        """Appends an event, and notifies the readers."""
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
        """Returns the entries that a new reader gets; the last ``recalled`` ones before the compaction's end are not compacted."""
        newest: dict[PolicyKey, Entry] = {entry.event.key: entry for entry in self.entries[: self.horizon]}
        whole = max(self.horizon - recalled, 0)
        kept = [entry for entry in newest.values() if entry.event.document is not None and entry.number < whole]
        return sorted(kept, key=lambda entry: entry.number) + self.entries[whole:]


def position(number: int) -> Position:
    """Returns the position of the entry with a number."""
    return f"{number + 1:08d}"
