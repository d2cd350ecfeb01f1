"""What is promised besides where a log has one writer at a time: leaders write in turns, and nothing that they write is stale."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from tests.validators.records import Answer, Broken, Change, Failure, History
from tests.validators.timeline import Timeline
from topicpolicies_server.core.policies.events import Placed
from topicpolicies_server.core.reasons import Reason
from topicpolicies_server.logs.producer_names import leader_of


class Intruded(Broken):
    """An event stands behind the announcement of another leader than the one that wrote it, or before any."""


class Stale(Broken):
    """A leader wrote a document that did not contain everything which was written before it."""


class TurnedAwayButApplied(Broken):
    """A request was refused by all that were asked because they do not lead, and is in the log all the same."""


class Unled(Broken):
    """Everything has come to rest, and nobody takes an update."""


def written_in_turns(entries: Iterable[Placed]) -> Iterator[Intruded]:
    """In each partition, every event is by the leader that announced itself last before it."""
    terms: dict[int, str] = {}
    for placed in entries:
        if placed.problem:
            continue  # it is nobody's
        if placed.event is None:
            terms[placed.partition] = placed.producer
        elif placed.producer != terms.get(placed.partition):
            yield Intruded(f"{placed.producer} wrote in the term of {terms.get(placed.partition, 'nobody')}", placed)


def nothing_is_stale(stale: Iterable[Placed]) -> Iterator[Stale]:
    """No change has to be repaired."""
    for placed in stale:
        yield Stale(f"the document of {placed.position} is not what its key came to", placed)


def turned_away_leave_no_trace(history: History) -> Iterator[TurnedAwayButApplied]:
    """Who does not lead has not written either."""
    timeline = Timeline(history)
    for (key, request_id), attempts in timeline.attempts.items():
        made = timeline.by_request.get((key, request_id))
        if made and all(isinstance(each.answer, Failure) and each.answer.reason == Reason.NOT_LEADER for each in attempts):
            yield TurnedAwayButApplied(f"{key}: {request_id} was turned away and applied", *attempts, made[0])


def told(history: History, entries: Iterable[Placed]) -> Counter[str]:
    """How often one leader followed another, and what the others had to do with it."""
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
                counts["changes told by followers"] += writers.get((message.partition, message.position)) not in (None, watch.sidecar)
    return counts
