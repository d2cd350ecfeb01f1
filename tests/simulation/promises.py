"""Promises of some profiles only.

Where sidecars start and end: about changes through newcomers, and about keys of which no sidecar has seen all events. At brokers that
change documents in place: about the last calls. With one writer at a time: leaders write only in their own terms, and nothing stale.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet

from tests.memory_log import StoredNamespace
from tests.validators.documents import Document, Edit
from tests.validators.records import Answer, Broken, Change, Failure, History, Key, Read
from tests.validators.timeline import Timeline
from topicpolicies_server.core.names import PolicyKey
from topicpolicies_server.core.policies.events import Placed, Position, StampKind
from topicpolicies_server.core.reasons import Reason
from topicpolicies_server.logs.leadership import leader_of


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


class CallUndone(Broken):
    """In the end a setting does not have the value of its last call at a broker."""


def calls_are_there(history: History, calls: list[tuple[Key, Edit]]) -> Iterator[CallUndone]:
    """In the end each setting that was changed at brokers which change documents in place has the value of its last call."""
    last = {head.key: head.document for head in history.heads}
    wanted: dict[Key, Document | None] = {}
    for key, edit in calls:
        wanted[key] = edit.after(wanted.get(key))
    for key, document in wanted.items():
        if last.get(key) != document:
            yield CallUndone(f"{key}: {last.get(key)} is not what the calls make, {document}")


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


class Intruded(Broken):
    """A leader wrote an event after another leader's announcement, or before any announcement."""


class Stale(Broken):
    """A leader wrote a document without some change that was in the log before it."""


class TurnedAwayButApplied(Broken):
    """All sidecars that were sent a request refused it because they do not lead, but the request is in the log."""


class Unled(Broken):
    """The cluster has come to rest, but no sidecar accepts an update."""


def written_in_turns(entries: Iterable[Placed]) -> Iterator[Intruded]:
    """In each partition, every event was written by the leader that announced itself last before it."""
    terms: dict[int, str] = {}
    for placed in entries:
        if placed.problem:
            continue  # an unreadable entry has no writer
        if placed.event is None:
            terms[placed.partition] = placed.producer
        elif placed.producer != terms.get(placed.partition):
            yield Intruded(f"{placed.producer} wrote in the term of {terms.get(placed.partition, 'no leader')}", placed)


def nothing_is_stale(stale: Iterable[Placed]) -> Iterator[Stale]:
    """No change of a leader has to be repaired."""
    for placed in stale:
        yield Stale(f"the document of {placed.position} is not the head of its key", placed)


def turned_away_leave_no_trace(history: History) -> Iterator[TurnedAwayButApplied]:
    """A request that every sidecar refused with NOT_LEADER is not in the log."""
    timeline = Timeline(history)
    for (key, request_id), attempts in timeline.attempts.items():
        made = timeline.by_request.get((key, request_id))
        if made and all(isinstance(each.answer, Failure) and each.answer.reason == Reason.NOT_LEADER for each in attempts):
            yield TurnedAwayButApplied(f"{key}: {request_id} was refused by every sidecar but applied", *attempts, made[0])


def counts_of(history: History, entries: Iterable[Placed]) -> Counter[str]:
    """Counts terms and failovers, repeats that another leader answered, and changes that followers streamed."""
    counts: Counter[str] = Counter()
    leader, writers = "", {}
    for placed in entries:
        address = leader_of(placed.producer)
        if placed.event is not None:
            writers[placed.partition, placed.position] = address
        elif placed.partition == 0 and not placed.problem:
            counts["terms"] += 1
            counts["failovers"] += leader not in ("", address)
            leader = address
    for update in history.updates:
        if isinstance(update.answer, Answer) and update.answer.replayed:
            writer = writers.get((history.partitions[update.key], update.answer.version))
            counts["repeats that another leader settled"] += writer not in (None, update.sidecar)
    for watch in history.watches:
        for message in watch.messages:
            if isinstance(message, Change) and watch.every:
                writer = writers.get((history.partitions.get(message.key, 0), message.version))
                counts["changes told by followers"] += writer not in (None, watch.sidecar)
    return counts
