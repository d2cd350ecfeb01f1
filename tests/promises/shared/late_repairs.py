"""Documents that were repaired late, as a reader finds them that starts to read a compacted log after the repair.

Compaction has left a broker's stale event of such a topic, followed by a repair that was published half a minute later, or more.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.promises.change_log import ChangeLog, Stored

from .run import Place
from .settings import ALL

LATE_MS = 30_000


class LateRepair(NamedTuple):
    """A stale event, which is the first event of its topic that can be read, and the repair that follows it."""

    topic: str
    late_ms: int
    restored: tuple[str, ...]
    """The settings that the repair restores."""


def late_repairs(place: Place) -> list[LateRepair]:
    """Returns the documents of a place that were repaired late, as a reader of the compacted log finds them now. Blocking."""
    found, read = [], dict[str, list[Stored]]()
    with ChangeLog(place.broker, place.namespace) as log:
        for stored in log.stored(compacted=True):
            read.setdefault(stored.topic, []).append(stored)
    for topic, events in read.items():
        if len(events) > 1 and events[0].by_broker and not events[1].by_broker:
            stale, repair = events[:2]
            late_ms = repair.published_ms - stale.published_ms
            restored = tuple(owned.setting for owned in ALL if owned.of(repair.policies) > owned.of(stale.policies))
            if restored and late_ms >= LATE_MS:
                found.append(LateRepair(topic, late_ms, restored))
    return found
