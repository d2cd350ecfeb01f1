"""Further promises for a log with one writer at a time: leaders write only in their own terms, and no document of theirs is stale."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from tests.validators.records import Answer, Broken, Change, Failure, History
from tests.validators.timeline import Timeline
from topicpolicies_server.core.policies.events import Placed
from topicpolicies_server.core.reasons import Reason
from topicpolicies_server.logs.leadership import leader_of


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
