"""The simulation's judgements about which sidecars have seen which events, each with a right and a wrong example."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Sequence

import pytest

from tests.memory_log import StoredNamespace
from tests.memory_log.ledgers import LedgeredNamespace
from tests.validators.documents import Document
from tests.validators.records import Failure, ForgottenDeletion, Head, History, Key, Read
from topicpolicies_server.core.fold.fold import FoldContext
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.policies import documents
from topicpolicies_server.core.policies.events import Action, Event, Seen, Stamp, StampKind

from .broker import MOST_BEHIND
from .compaction import Compaction
from .loop import SimulatedLoop
from .profile import PROFILES
from .promises import Divided, Forgotten, acknowledged_is_there, all_agree, leave_out_orphans, repaired_late
from .traffic import message_of
from .world import NAMESPACE, WINDOW_MS, Journal, World

pytestmark = pytest.mark.simulation

KEY = Key("persistent://acme/orders/topic-0")
POLICY = PolicyKey(KEY.topic, Scope.LOCAL)
STALE = Event(POLICY, Action.UPDATE, {"max_producer_per_topic": b"\x01"})
REPAIR = Event(POLICY, Action.UPDATE, {}, Stamp("id", StampKind.REPAIR))


def _read(who: str, document: Document | None, failure: Failure | None = None) -> Read:
    return Read(client="inspector", sidecar=who, invoked=1.0, answered=1.0, key=KEY, document=document, failure=failure, final=True)


def _log(*events: tuple[int, Event], compacted: int) -> StoredNamespace:
    """Returns a log of one partition with these events and their times, of which the first ``compacted`` are in the compacted part."""
    stored = StoredNamespace("acme/orders", 1, "log")
    for at, event in events:
        stored.store(0, event, at, "a writer")
    stored.compacted[0] = stored.entries[0][compacted - 1].position if compacted else ""
    return stored


@pytest.mark.parametrize(
    ("late_ms", "compacted", "misleads", "expected"),
    [
        (WINDOW_MS, 1, True, True),
        (WINDOW_MS - 1, 1, True, False),
        (WINDOW_MS, 0, True, False),
        (WINDOW_MS, 1, False, False),
    ],
    ids=["late", "in time", "all of it is there", "nothing was stale"],
)
def test_a_late_repair_after_a_stale_event_that_compaction_left_is_detected(
    late_ms: int, compacted: int, misleads: bool, expected: bool
) -> None:
    stored = _log((1_000, STALE), (1_000 + late_ms, REPAIR), compacted=compacted)
    misleading = {(0, stored.entries[0][0].position)} if misleads else set()
    assert repaired_late(stored, misleading, WINDOW_MS) == expected


@pytest.mark.parametrize(("seen", "divided"), [("", True), ("a7a0", False)], ids=["stale", "seen"])
def test_erasing_an_event_of_a_trimmed_ledger_divides_if_a_later_writer_had_not_seen_it(seen: str, divided: bool) -> None:
    stored = LedgeredNamespace("acme/orders", 1, "log")
    change = stored.store(0, Event(POLICY, Action.UPDATE, {}, Stamp("0", StampKind.UPDATE)), 0, "a writer")
    stored.skip(0, 2)
    other = stored.store(0, Event(PolicyKey("persistent://acme/orders/topic-1", Scope.LOCAL), Action.UPDATE, {}), 0, "broker")
    stored.compact(None)
    assert not stored.divides_what_overlaps() and stored.trim() == 1, "no event was written without having seen it yet"
    assert not stored.tells_what_was_divided()
    stored.store(0, Event(POLICY, Action.UPDATE, {}, Stamp("1", StampKind.UPDATE, history=Seen("", seen))), 0, "another writer")
    last = stored.store(0, Event(POLICY, Action.UPDATE, {}, Stamp("2", StampKind.UPDATE, history=Seen("", change.position))), 0, "a writer")
    assert stored.tells_what_was_divided() == divided
    stored.compact(None)
    assert stored.entries[0] == [other, last] and not stored.tells_what_was_divided(), "the compaction has erased the event"


@pytest.mark.parametrize(("later", "forgotten"), [(False, True), (True, False)], ids=["gone", "created again"])
def test_a_trim_forgets_a_deletion_if_nothing_else_in_the_log_tells_of_its_key(later: bool, forgotten: bool) -> None:
    stored = LedgeredNamespace("acme/orders", 1, "log")
    deletion = stored.store(0, Event(POLICY, Action.DELETE, None, Stamp("0", StampKind.TOMBSTONE)), 0, "a writer")
    stored.skip(0, 2)
    stored.store(0, Event(PolicyKey("persistent://acme/orders/topic-1", Scope.LOCAL), Action.UPDATE, {}), 0, "broker")
    if later:
        stored.store(0, Event(POLICY, Action.UPDATE, {}), 0, "broker")
    assert stored.forgotten_by_trimming() == [""], "nothing is compacted, so nothing can be trimmed"
    stored.compact(None)
    assert stored.forgotten_by_trimming() == [deletion.position if forgotten else ""]
    stored.trim()
    assert stored.forgotten_by_trimming() == [""], "it is forgotten already"


def test_sidecars_run_until_no_broker_computes_from_what_a_compaction_erased() -> None:
    async def waited() -> float:
        world = World(PROFILES["guard"], random.Random(0))
        (guard,) = world.sidecars
        guard.start()
        await asyncio.sleep(3.0)
        for _ in range(2):
            world.storage.write(NAMESPACE, Event(POLICY, Action.UPDATE, {}))
        await asyncio.sleep(3.0)
        began = world.now()
        await Compaction(world, random.Random(0)).strike(wholly=True)
        took = world.now() - began
        assert len(world.stored.entries[world.history.partitions[KEY]]) == 1, "it was compacted"
        await guard.stop()
        return took

    assert SimulatedLoop(random.Random(0)).run(waited()) == pytest.approx(MOST_BEHIND)


def test_a_restatement_that_is_misleading_itself_is_not_a_late_repair() -> None:
    stored = _log((0, STALE), (WINDOW_MS, REPAIR), compacted=1)
    assert not repaired_late(stored, {(0, placed.position) for placed in stored.entries[0]}, WINDOW_MS)


@pytest.mark.parametrize("known", [True, False], ids=["some sidecar knows it", "nobody knows it"])
def test_the_journal_forgets_an_erased_deletion_if_and_only_if_every_sidecar_has(known: bool) -> None:
    old, new = {"max_producer_per_topic": 1}, {"compaction_threshold": 2}
    written = (documents.split(message_of(old)), None, documents.split(message_of({**old, **new})))
    events = (Event(POLICY, Action.UPDATE, document) for document in written)
    journal = Journal(FoldContext(window_ms=WINDOW_MS), lambda partition, position: known)

    async def main() -> None:
        made, deleted, again = _log(*enumerate(events), compacted=0).entries[0]
        journal.show(made)
        journal.show(deleted)
        journal.erased(POLICY, deleted)
        journal.show(again)
        assert journal.forgotten == ([] if known else [ForgottenDeletion(KEY, deleted.position, again.position)])

    SimulatedLoop(random.Random(1)).run(main())
    assert journal.heads[-1].document == (new if known else {**old, **new})


def test_a_change_that_a_newcomer_acknowledged_but_the_log_lacks_breaks_a_promise() -> None:
    history = History(heads=[Head(KEY, "1", "0", {}, 1.0, "there")])
    assert [*acknowledged_is_there(history, {(KEY, "there")})] == []
    assert [type(each) for each in acknowledged_is_there(history, {(KEY, "there"), (KEY, "not there")})] == [Forgotten]


@pytest.mark.parametrize(
    ("reads", "broken"),
    [
        ((_read("one", {"a": 1}), _read("two", {"a": 1})), 0),
        ((_read("one", {"a": 1}), _read("two", {"a": 2})), 1),
        ((_read("one", None), _read("two", None, Failure("UNAVAILABLE", "LOG_UNAVAILABLE"))), 1),
    ],
    ids=["they do", "one does not", "one does not answer"],
)
def test_final_reads_that_differ_or_fail_break_a_promise(reads: Sequence[Read], broken: int) -> None:
    assert [type(each) for each in all_agree([*reads])] == [Divided] * broken


def test_final_reads_of_orphaned_keys_are_removed_from_the_history_and_their_losses_counted() -> None:
    other = KEY._replace(scope=2)
    history = History(reads=[_read("one", {"a": 1})], raw=[_read("broker", {"a": 1})], heads=[Head(KEY, "1", "0", {"a": 2}, 1.0)])
    counts: Counter[str] = Counter()
    assert leave_out_orphans(history, {other: 0.5}, counts) == []
    assert len(history.reads) == len(history.raw) == 1
    taken = leave_out_orphans(history, {KEY: 0.5}, counts)
    assert [read.sidecar for read in taken] == ["one", "broker"]
    assert (history.reads, history.raw) == ([], [])
    assert counts["keys of which nobody alive had seen everything"] == 2
    assert counts["of them, keys of which something was lost for good"] == 1
