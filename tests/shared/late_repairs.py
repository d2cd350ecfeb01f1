"""Documents that were repaired late, as a reader finds them that starts to read a compacted log after the repair.

Compaction has left a broker's stale event of such a key, followed by a repair that was published half a minute later, or more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from topicpolicies_server.core.fold.keystate import WINDOW_MS
from topicpolicies_server.core.names import PolicyKey
from topicpolicies_server.core.policies.documents import Setting, differing
from topicpolicies_server.core.policies.events import Event, Placed, StampKind

from .run import Place


class LateRepair(NamedTuple):
    """A stale event, which is the first event of its key that can be read, and the repair that follows it."""

    key: PolicyKey
    late_ms: int
    restored: tuple[Setting, ...]
    """The settings that the repair restores."""


async def late_repairs(place: Place) -> list[LateRepair]:
    """Returns the documents of a place that were repaired late, as a reader of the compacted log finds them now."""
    found = []
    for key, events in (await compacted(place)).items():
        if len(events) < 2:
            continue
        (stale, one), (repair, other) = events[:2]
        late_ms = repair.published_at - stale.published_at
        restored = tuple(differing(one.document, other.document))
        restates = other.stamp is not None and other.stamp.kind is StampKind.REPAIR
        if one.stamp is None and restates and restored and late_ms >= WINDOW_MS:
            found.append(LateRepair(key, late_ms, restored))
    return found


async def compacted(place: Place) -> dict[PolicyKey, list[tuple[Placed, Event]]]:
    """Returns the events of each key that a new reader gets now."""
    read: dict[PolicyKey, list[tuple[Placed, Event]]] = {}

    def note(events: Sequence[Placed]) -> None:
        for placed in events:
            if placed.event is not None:
                read.setdefault(placed.event.key, []).append((placed, placed.event))

    log = place.log()
    log.listeners.append(note)
    async with log:
        return read
