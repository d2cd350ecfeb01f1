"""Documents that are left stale on purpose, and repaired late, as a reader finds them that starts to read a compacted log after the repair.

Compaction has left a broker's stale event of such a topic, followed by a repair that was published half a minute later, or more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from tests.promises.change_log import ChangeLog, Stored

from .acknowledged import Acknowledged, Cell
from .raw_log import RawLog
from .run import Place
from .settings import ALL, Owned

LATE_MS = 30_000


class LateRepair(NamedTuple):
    """A stale event, which is the first event of its topic that can be read, and the repair that follows it."""

    topic: str
    late_ms: int
    restored: tuple[str, ...]
    """The settings that the repair restores."""


def write_stale(log: RawLog, cell: Cell, read: Mapping[Owned, int], acknowledged: Acknowledged) -> None:
    """Sets the cell's next number as a broker does that has read nothing but ``read`` of the topic. Blocking.

    The document is written into the log as a broker writes it: a real one is so late only if requests meet within some milliseconds.
    """
    number, document = acknowledged.next(cell), dict[str, Any]()
    for owned, value in {**read, cell.owned: number}.items():
        document = owned.put(document, value)
    log.log.write(cell.topic, document)
    acknowledged.acknowledge(cell, number, "a late broker")


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
