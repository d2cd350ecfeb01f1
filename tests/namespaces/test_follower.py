"""When an opening of a log continues the view of the one before; entries that build on removed ones, or can't be folded."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from topicpolicies_server.core.fold.fold import FoldContext
from topicpolicies_server.core.names import PolicyKey
from topicpolicies_server.core.policies.events import Action, Event, Placed, Position, Remembered, Stamp, StampKind
from topicpolicies_server.core.reading.view import CellsInUse, View, ViewStep
from topicpolicies_server.namespaces.activity import Activity
from topicpolicies_server.namespaces.follower import Follower

from .bench import KEY, OTHER, Bench, document, simulate


def a_log(identity: str = "same", compacted: Position | None = "") -> Any:
    """Returns an empty log of one partition. Tests may change where it ends to be compacted, and its identity."""
    log = SimpleNamespace(identity=identity, partitions=1, in_place=False, resumed=False, compacted=compacted, follows=lambda *_: False)
    log.complete_after = lambda _: log.compacted
    return log


def opened(log: Any, older: Follower | None = None, context: FoldContext | None = None) -> Follower:
    common: Any = SimpleNamespace(in_use=CellsInUse(), count=lambda *_: None, relieved=lambda _: True, activity=Activity())
    updates: Any = SimpleNamespace(progress=None)
    follower = Follower("a/b", common, context or FoldContext(), updates, older)
    follower.opened(log)
    return follower


@pytest.mark.parametrize(
    ("log", "continues"),
    [(a_log(), True), (a_log("another"), False), (a_log(compacted=None), False), (a_log(compacted="compacted further"), False)],
)
def test_a_view_is_continued_in_the_same_log_where_nothing_unseen_was_compacted(log: Any, continues: bool) -> None:
    assert opened(log, opened(a_log())).continues is continues


def test_a_view_of_a_log_that_was_created_while_open_and_then_deleted_is_not_continued() -> None:
    log = a_log("not there yet")
    older = opened(log)
    log.identity = "there"
    assert not opened(a_log("not there yet"), older).continues
    assert opened(a_log("there"), older).continues


def on_its_way(key: PolicyKey) -> Event:
    """Returns an update of one setting that was computed from an event that is not in the log any more."""
    earlier = Remembered("request", "digest", "", "")
    stamp = Stamp("id", StampKind.UPDATE, "another", mask=("message_ttl_in_seconds",), base="earlier", remembered=(earlier,))
    return Event(key, Action.UPDATE, document(message_ttl_in_seconds=5, max_producer_per_topic=7), stamp)


def test_events_up_to_a_compaction_during_the_read_may_build_on_removed_events() -> None:
    log = a_log(compacted="b12")
    follower = opened(log, context=FoldContext(joining=True, joined_at=0))
    log.compacted = "b15"  # before anything behind b12 is read
    follower.read([Placed(0, position, on_its_way(key), 0) for position, key in (("b13", KEY), ("b16", OTHER))])
    heads = [follower.view.head(key) for key in (KEY, OTHER)]
    assert [head.document for head in heads if head is not None] == [
        document(message_ttl_in_seconds=5, max_producer_per_topic=7),
        document(message_ttl_in_seconds=5),
    ]


def test_an_entry_that_can_not_be_folded_is_counted_and_logged_and_the_rest_of_its_batch_is_folded(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fold = View.fold

    def broken(view: View, placed: Placed) -> ViewStep:
        if placed.event is not None and placed.event.document == document(max_producer_per_topic=2):
            raise ZeroDivisionError("planted")
        return fold(view, placed)

    monkeypatch.setattr(View, "fold", broken)

    async def scenario(bench: Bench) -> None:
        await bench.namespace.ready()
        bench.opened.reads[0].hold()
        for value in (1, 2):
            bench.elsewhere(value)
        bench.elsewhere(7, OTHER)
        bench.opened.reads[0].release()
        await asyncio.sleep(1)
        assert (await bench.value(), await bench.value(OTHER)) == (1, 7)
        assert bench.registry.common.activity.unreadable == 1 and len(bench.log.openings) == 1
        assert (await bench.set(3)).version

    simulate(scenario, sole_writer=False)
    assert "skipped an unreadable entry at 12: it can't be applied (ZeroDivisionError)" in caplog.text
