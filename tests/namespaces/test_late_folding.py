"""A namespace answers for a topic as soon as its log is read, and folds the other topics later. The logs deliver undecoded entries."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import pytest

from tests.core.test_lazy_view import Entry
from tests.undecoded import UndecodingSink
from topicpolicies_server.core.fold.fold import FoldContext
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.policies.events import Action, Event, Placed
from topicpolicies_server.core.reading.lazy_view import LazyView
from topicpolicies_server.core.reading.watch import Mode, Selection
from topicpolicies_server.logs.change_log import LogError, NamespaceLog
from topicpolicies_server.namespaces import late_folding
from topicpolicies_server.namespaces.capacity import memory_of
from topicpolicies_server.namespaces.late_folding import AT_A_TIME, LateEntries, Step
from topicpolicies_server.namespaces.listeners import Taken

from .bench import NAMESPACE, Bench, document, error_of, simulate

TOPICS = 100
BOTH = frozenset(Scope)
OLD_SECONDS = 100.0


def key_of(number: int, scope: Scope = Scope.LOCAL) -> PolicyKey:
    return PolicyKey(f"persistent://{NAMESPACE}/topic-{number:03d}", scope)


def write(bench: Bench, number: int, value: int, **others: int) -> None:
    bench.storage.write(NAMESPACE, Event(key_of(number), Action.UPDATE, document(max_producer_per_topic=value, **others)))


async def filled(bench: Bench) -> None:
    """Writes an event of each topic, and lets some time pass."""
    for number in range(TOPICS):
        write(bench, number, number % 100 + 1)
    await asyncio.sleep(OLD_SECONDS)


def view_of(bench: Bench) -> LazyView:
    view = bench.namespace._life.served.view  # type: ignore[union-attr]
    assert isinstance(view, LazyView)
    return view


def shared(scenario: Any, **options: Any) -> None:
    simulate(scenario, sole_writer=False, window_ms=1_000, **options)


def test_a_topic_is_answered_before_the_others_are_folded() -> None:
    async def scenario(bench: Bench) -> None:
        await filled(bench)
        assert await bench.value(key_of(41)) == 42
        assert TOPICS - 2 * late_folding.AT_A_TIME <= view_of(bench).unfolded < TOPICS
        busy = [bench.namespace.busy]
        await asyncio.sleep(0.1)
        assert view_of(bench).unfolded == 0
        assert [*busy, bench.namespace.busy] == [True, False]
        assert bench.namespace.documents == TOPICS

    shared(scenario)


def test_listings_and_watches_wait_until_all_topics_are_folded() -> None:
    async def scenario(bench: Bench) -> None:
        await filled(bench)
        heads, more, _ = await bench.namespace.page(BOTH, None, TOPICS)
        assert [head.key for head in heads] == [key_of(number) for number in range(TOPICS)]
        assert not more

    async def watching(bench: Bench) -> None:
        await filled(bench)
        watcher = await bench.namespace.watch(Selection(None), Mode.LATEST, None, lambda: None)
        assert view_of(bench).unfolded == 0
        batch = watcher.take(TOPICS + 10)
        assert sorted(head.key for head in batch.changes) == [key_of(number) for number in range(TOPICS)]
        bench.namespace.unwatch(watcher)

    shared(scenario)
    shared(watching)


def test_a_resumed_watch_gets_only_changes_after_its_token_although_older_ones_are_folded_later() -> None:
    async def scenario(bench: Bench) -> None:
        await filled(bench)
        await bench.value(key_of(1))
        token = bench.namespace._life.hub.token  # type: ignore[union-attr]
        assert view_of(bench).unfolded
        write(bench, 7, 99)
        await asyncio.sleep(1)
        watcher = await bench.namespace.watch(Selection(None), Mode.LATEST, token, lambda: None)
        assert [(change.key, change.version) for change in watcher.take(10).changes] == [(key_of(7), bench.namespace.version(key_of(7)))]
        bench.namespace.unwatch(watcher)

    shared(scenario)


def test_a_watch_resumed_at_the_moment_when_all_is_folded_gets_the_changes_after_its_token() -> None:
    async def scenario(bench: Bench) -> None:
        await filled(bench)
        await bench.value(key_of(1))
        life = bench.namespace._life
        token = life.hub.token  # type: ignore[union-attr]
        write(bench, 7, 99)
        while life.served.has_late_entries:  # type: ignore[union-attr]  # noqa: ASYNC110 (nothing to wait on)
            await asyncio.sleep(0)
        assert bench.namespace._loader.late_folder.busy, "precondition: the hub does not know it yet"
        watcher = await bench.namespace.watch(Selection(None), Mode.LATEST, token, lambda: None)
        assert [(change.key, change.version) for change in watcher.take(10).changes] == [(key_of(7), bench.namespace.version(key_of(7)))]
        bench.namespace.unwatch(watcher)

    shared(scenario)


def test_an_event_that_arrives_before_its_topic_is_folded_is_folded_after_the_kept_entries() -> None:
    async def scenario(bench: Bench) -> None:
        await filled(bench)
        write(bench, 3, 50, max_consumer_per_topic=2)
        await asyncio.sleep(OLD_SECONDS)
        assert (await bench.set(77, key=key_of(3))).previous is not None
        head = await bench.namespace.get(key_of(3))
        assert head is not None and head.document == document(max_producer_per_topic=77, max_consumer_per_topic=2)

    shared(scenario)


def test_topics_that_are_not_requested_are_repaired_and_unreadable_entries_are_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    broken = key_of(5)

    def opened(placed: Placed) -> Placed:
        is_broken = placed.event is not None and placed.event.key == broken
        return placed._replace(event=None, problem="it is damaged") if is_broken else placed

    async def scenario(bench: Bench) -> None:
        await bench.namespace.ready()
        await bench.registry.close()
        await filled(bench)
        write(bench, 9, 10, max_consumer_per_topic=2)
        write(bench, 9, 10)
        bench.storage.write(NAMESPACE, Event(key_of(8), Action.NONE, None))
        await asyncio.sleep(OLD_SECONDS)
        again = Bench(sole_writer=False, window_ms=1_000, storage=bench.storage)
        assert await again.value(key_of(1)) == 2
        await asyncio.sleep(2)
        assert again.registry.activity.repairs["published"] == 1  # for the event with the action NONE
        assert again.registry.activity.unreadable == 1
        assert again.namespace.repairs_due == 0
        assert await again.value(broken) is None
        await again.registry.close()

    read = UndecodingSink.__init__

    def init(self: UndecodingSink, sink: Any, _: Any = None) -> None:
        read(self, sink, opened)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(UndecodingSink, "__init__", init)
        shared(scenario)
    assert sum("it is damaged" in record.getMessage() for record in caplog.records) == 1


class Recorder:
    """Records what the history would get."""

    def __init__(self) -> None:
        self.recorded: list[str] = []
        self.keys: list[PolicyKey | None] = []

    def knows(self, identity: str, positions: Sequence[str]) -> bool:
        del identity, positions
        return False

    def opened(self, log: NamespaceLog) -> None:
        del log
        self.recorded.append("opened")

    def noted(self, events: Sequence[Taken]) -> None:
        for placed, before, folded, after in events:
            assert folded is not None and after is not None
            assert (before is None) == (folded.previous in ("", "0"))
            self.recorded.append(placed.position)
            self.keys.append(None if placed.event is None else placed.event.key)

    def caught_up(self) -> None:
        self.recorded.append("caught up")

    def closed(self) -> None:
        self.recorded.append("closed")


def test_the_history_gets_events_in_the_order_of_the_log_whichever_topic_is_read_first() -> None:
    async def scenario(bench: Bench) -> None:
        await filled(bench)
        recorder = Recorder()

        async def record(namespace: str) -> Recorder:
            assert namespace == NAMESPACE
            return recorder

        bench.registry.common.record = record
        await bench.value(key_of(50))
        assert "caught up" not in recorder.recorded
        write(bench, 3, 99)
        await bench.value(key_of(20))
        await asyncio.sleep(1)
        assert recorder.recorded[0] == "opened"
        positions = [each for each in recorder.recorded[1:] if each != "caught up"]
        assert positions == sorted(positions)
        assert recorder.keys == [*[key_of(number) for number in range(TOPICS)], key_of(3)]
        assert recorder.recorded.count("caught up") == 1
        await bench.registry.close()
        assert recorder.recorded[-1] == "closed"

    shared(scenario)


def test_a_log_lost_before_all_is_folded_is_read_as_a_whole_and_the_history_gets_all_events() -> None:
    async def scenario(bench: Bench) -> None:
        await filled(bench)
        recorders: list[Recorder] = []

        async def record(_: str) -> Recorder:
            recorders.append(Recorder())
            return recorders[-1]

        bench.registry.common.record = record
        await bench.value(key_of(50))
        assert view_of(bench).unfolded
        bench.opened.lose(LogError("LOG_UNAVAILABLE", "lost"))  # type: ignore[arg-type]
        await asyncio.sleep(1)
        assert await bench.value(key_of(99)) == 100
        assert recorders[0].recorded[-1] == "closed" and "caught up" not in recorders[0].recorded
        assert recorders[1].keys == [key_of(number) for number in range(TOPICS)]
        assert recorders[1].recorded[-1] == "caught up"
        heads, _, _ = await bench.namespace.page(BOTH, None, TOPICS)
        assert len(heads) == TOPICS

    shared(scenario)


def test_a_listing_that_waits_for_folding_gets_an_error_when_the_namespace_is_closed() -> None:
    async def scenario(bench: Bench) -> None:
        await filled(bench)
        await bench.value(key_of(50))
        listing = bench.loop.create_task(bench.namespace.page(BOTH, None, 10))
        await asyncio.sleep(0)
        await bench.namespace.close()
        assert (await error_of(listing)).reason == "LOG_UNAVAILABLE"

    shared(scenario)


def test_if_room_may_be_short_all_is_folded_before_the_first_answer_or_the_load_is_refused() -> None:
    async def scenario(bench: Bench) -> None:
        await filled(bench)
        assert (await error_of(bench.value(key_of(1)))).reason == "LIMIT_REACHED"

    async def tight(bench: Bench) -> None:
        await filled(bench)
        assert await bench.value(key_of(1)) == 2
        assert view_of(bench).unfolded == 0

    shared(scenario, max_loaded_keys=TOPICS // 2)
    shared(tight, max_loaded_document_bytes=memory_of(TOPICS, 30 * TOPICS))


@pytest.mark.parametrize("records", [False, True])
def test_the_number_of_entries_folded_at_once_is_bounded_even_for_a_single_topic(records: bool) -> None:
    entries = [
        Entry(Placed(0, f"{number:08d}", Event(key_of(number % 2), Action.UPDATE, {"x": b"%d" % number}), number), key_of(number % 2).topic)
        for number in range(1, 1_001)
    ]

    def fold(placed: Placed) -> Step:
        assert placed.event is not None
        before = late.view.head(placed.event.key)
        folded, change = late.view.take(placed)
        return placed, before, folded, change

    late = LateEntries(FoldContext(joined_at=1_000_000), (), fold, lambda *_: None, records=records)
    late.take(entries, lambda rest: None)
    recorded: list[str] = []
    opened = 0
    while not late.over:
        recorded += [placed.position for placed, *_ in late.fold_some()]
        now = sum(entry.times for entry in entries)
        assert now - opened <= AT_A_TIME
        opened = now
    assert opened == len(entries)
    assert recorded == ([entry.position for entry in entries] if records else [])
