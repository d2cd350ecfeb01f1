"""The order of each partition's entries, known by proof or by reading."""

from __future__ import annotations

import random

import pytest

from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.policies.events import Action, Event, Placed, Stamp, StampKind
from topicpolicies_server.core.reading.log_order import Disagreement, LogOrder

KEY = PolicyKey("persistent://t/n/a", Scope.LOCAL)


def at(number: int, *, ours: str | None = None, partition: int = 0) -> Placed:
    """Returns an entry; ``ours`` is the id of an event that this sidecar wrote."""
    stamp = Stamp(ours, StampKind.UPDATE) if ours is not None else None
    return Placed(partition, f"{number:04d}", Event(KEY, Action.UPDATE, {}, stamp), 0)


def dense(earlier: str, later: str) -> bool:
    """Returns whether two positions of the test's log are neighbours."""
    return earlier != "" and int(later) == int(earlier) + 1


def numbers(events: list[Placed]) -> list[int]:
    """Returns the positions as numbers."""
    return [int(placed.position) for placed in events]


def test_an_acknowledged_event_that_is_proven_to_be_next_is_taken_before_it_is_read() -> None:
    order = LogOrder(1, dense)
    assert numbers(order.read([at(1)])) == [1]
    assert numbers(order.acknowledged([at(2, ours="a"), at(3, ours="b")])) == [2, 3]
    assert order.unread == 2
    assert numbers(order.read([at(2, ours="a"), at(3, ours="b"), at(4)])) == [4]
    assert order.unread == 0


def test_an_acknowledged_event_behind_a_gap_waits_for_the_reader() -> None:
    order = LogOrder(1, dense)
    order.read([at(1)])
    assert order.acknowledged([at(3, ours="b")]) == []
    assert order.waiting == 1
    assert numbers(order.read([at(2)])) == [2, 3]  # the gap is closed: 3 is proven to follow
    assert order.waiting == 0
    assert order.read([at(3, ours="b")]) == []


def test_the_first_event_of_an_unread_partition_is_not_proven() -> None:
    order = LogOrder(1, dense)
    assert order.acknowledged([at(1, ours="a")]) == []
    assert numbers(order.read([at(1, ours="a")])) == [1]


def test_a_redelivered_entry_is_taken_once() -> None:
    order = LogOrder(1, dense)
    assert numbers(order.read([at(1), at(2), at(1), at(2), at(3)])) == [1, 2, 3]


def test_partitions_are_independent() -> None:
    order = LogOrder(2, dense)
    order.read([at(1), at(7, partition=1)])
    assert numbers(order.acknowledged([at(8, ours="x", partition=1)])) == [8]
    assert order.positions == ["0001", "0008"]


@pytest.mark.parametrize("contradiction", [at(2), at(2, ours="other"), Placed(0, "0002", None, 0)])
def test_reading_an_entry_that_contradicts_a_proof_is_a_disagreement(contradiction: Placed) -> None:
    order = LogOrder(1, dense)
    order.read([at(1)])
    order.acknowledged([at(2, ours="a")])
    with pytest.raises(Disagreement):
        order.read([contradiction])


def test_reading_an_entry_in_a_gap_that_a_false_proof_excluded_is_a_disagreement() -> None:
    order = LogOrder(1, lambda earlier, later: earlier != "")  # wrongly claims that any two positions are neighbours
    order.read([at(1)])
    assert numbers(order.acknowledged([at(3, ours="a")])) == [3]
    with pytest.raises(Disagreement):
        order.read([at(2)])


@pytest.mark.parametrize("seed", range(40))
def test_every_entry_is_taken_once_and_in_order_however_reads_and_acknowledgements_interleave(seed: int) -> None:
    chance = random.Random(seed)
    entries = [at(number, ours=f"e{number}" if chance.random() < 0.6 else None) for number in range(1, 60)]
    reads, acks = list(entries), [entry for entry in entries if entry.event and entry.event.stamp]
    order = LogOrder(1, dense)
    taken: list[Placed] = []
    while reads or acks:
        if acks and (not reads or chance.random() < 0.5):
            some = [acks.pop(0) for _ in range(min(len(acks), chance.randint(1, 4)))]
            taken += order.acknowledged(some)
        elif reads:
            some = [reads.pop(0) for _ in range(min(len(reads), chance.randint(1, 4)))]
            taken += order.read(some)
    assert numbers(taken) == list(range(1, 60))
    assert order.unread == order.waiting == 0
