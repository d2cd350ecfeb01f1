"""Promises for sidecars that start and end: about changes through newcomers, and about keys of which no sidecar has seen all events."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from tests.memory_log import StoredNamespace
from tests.validators.documents import Document
from tests.validators.records import Broken, History, Key, Read
from tests.validators.timeline import Timeline
from topicpolicies_server.core.names import PolicyKey
from topicpolicies_server.core.policies.events import Position, StampKind


def repaired_late(stored: StoredNamespace, misleading: AbstractSet[tuple[int, Position]], window_ms: int) -> bool:
    """Whether a new reader of a log sees, of some key, a stale event and its repair W or more later, but not the event that made it stale.

    Args:
        stored: the log.
        misleading: the places of events whose document is not the head.
        window_ms: W, in milliseconds.
    """
    for partition, entries in enumerate(stored.entries):
        stale: dict[PolicyKey, int] = {}
        for placed in entries:
            event, misleads = placed.event, (partition, placed.position) in misleading
            if event is None:
                continue
            if misleads and placed.position <= stored.compacted[partition]:
                stale[event.key] = placed.published_at
            repairs = not misleads and event.stamp is not None and event.stamp.kind in (StampKind.REPAIR, StampKind.TOMBSTONE)
            if repairs and event.key in stale and placed.published_at >= stale[event.key] + window_ms:
                return True
    return False


class Forgotten(Broken):
    """A newcomer acknowledged a change that is not in the log."""


class Divided(Broken):
    """The cluster has come to rest, but not all sidecars and brokers show the same document of a key."""


def acknowledged_is_there(history: History, acknowledged: set[tuple[Key, str]]) -> Iterator[Forgotten]:
    """A change that a newcomer acknowledged is in the log."""
    made = Timeline(history).by_request
    for key, request_id in sorted(acknowledged):
        if (key, request_id) not in made:
            yield Forgotten(f"{key}: {request_id} was acknowledged but is not in the log")


def all_agree(reads: list[Read]) -> Iterator[Divided]:
    """In the end all sidecars and brokers show the same document, whichever that is."""
    of_key: defaultdict[Key, list[Read]] = defaultdict(list)
    for read in reads:
        of_key[read.key].append(read)
    for key, found in of_key.items():
        first = found[0]
        other = next((read for read in found if read.failure is not None or read.document != first.document), None)
        if other is not None:
            yield Divided(f"{key}: {first.sidecar} and {other.sidecar} show different documents", first, other)


def leave_out_orphans(history: History, orphans: dict[Key, float], counts: Counter[str]) -> list[Read]:
    """Removes from a history the final reads of keys of which no live sidecar had seen all events, and counts those that lost something.

    Returns:
        The removed reads.
    """
    taken = [read for read in (*history.reads, *history.raw) if read.final and read.key in orphans]
    history.reads = [read for read in history.reads if not (read.final and read.key in orphans)]
    history.raw = [read for read in history.raw if read.key not in orphans]
    last: dict[Key, Document | None] = {head.key: head.document for head in history.heads}
    for key in orphans:
        counts["keys of which nobody alive had seen everything"] += 1
        shown = next((read.document for read in taken if read.key == key), None)
        counts["of them, keys of which something was lost for good"] += shown != last.get(key)
    return taken
