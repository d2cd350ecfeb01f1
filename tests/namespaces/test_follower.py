"""When a new opening of a log continues the view of the one before; and what happens if the handling of a report fails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from topicpolicies_server.core.fold.fold import FoldContext
from topicpolicies_server.core.names import PolicyKey
from topicpolicies_server.core.policies.events import Action, Event, Placed, Position, Remembered, Stamp, StampKind
from topicpolicies_server.core.reading.view import CellsInUse, View
from topicpolicies_server.logs.change_log import NamespaceLog
from topicpolicies_server.namespaces.activity import Activity
from topicpolicies_server.namespaces.follower import Follower

from .bench import KEY, OTHER, Bench, document, simulate


class NamedLog:
    """An empty log of one partition."""

    partitions = 1
    in_place = False
    resumed = False

    def __init__(self, identity: str, complete_after: Position | None = "") -> None:
        self.identity = identity
        self._complete_after = complete_after

    def complete_now(self, position: Position) -> None:
        """Compacts the log further."""
        self._complete_after = position

    def complete_after(self, partition: int) -> Position | None:
        assert partition == 0
        return self._complete_after

    def follows(self, earlier: Position, later: Position) -> bool:
        del earlier, later
        return False


def _follower(context: FoldContext, older: Follower | None = None) -> Follower:
    common: Any = SimpleNamespace(in_use=CellsInUse(), count=lambda *_: None, relieved=lambda _: True, activity=Activity())
    updates: Any = SimpleNamespace(progress=None)
    return Follower("a/b", common, context, updates, older)


def opened(log: NamedLog, older: Follower | None = None) -> Follower:
    follower = _follower(FoldContext(), older)
    follower.opened(cast("NamespaceLog", log))
    return follower


@pytest.mark.parametrize(
    ("log", "continues"),
    [
        (NamedLog("same"), True),
        (NamedLog("another"), False),
        (NamedLog("same", None), False),
        (NamedLog("same", "compacted further"), False),
    ],
)
def test_a_view_is_continued_in_the_same_log_where_nothing_unseen_was_compacted(log: NamedLog, continues: bool) -> None:
    older = opened(NamedLog("same"))
    assert opened(log, older).continues is continues


def test_a_view_of_a_log_that_was_created_while_open_and_then_deleted_is_not_continued() -> None:
    log = NamedLog("not there yet")
    older = opened(log)
    log.identity = "there"
    assert not opened(NamedLog("not there yet"), older).continues
    assert opened(NamedLog("there"), older).continues


# The handling of a report fails


def test_events_up_to_a_compaction_during_the_read_may_build_on_removed_events() -> None:
    log = NamedLog("same", "b12")
    follower = _follower(FoldContext(joining=True, joined_at=0))
    follower.opened(cast("NamespaceLog", log))
    log.complete_now("b15")  # before anything behind b12 is read
    follower.read([Placed(0, position, on_its_way(key), 0) for position, key in (("b13", KEY), ("b16", OTHER))])
    heads = [follower.view.head(key) for key in (KEY, OTHER)]
    assert [head.document for head in heads if head is not None] == [
        document(message_ttl_in_seconds=5, max_producer_per_topic=7),
        document(message_ttl_in_seconds=5),
    ]


def on_its_way(key: PolicyKey) -> Event:
    """Returns an update of one setting that was computed from an event that is not in the log any more."""
    earlier = Remembered("request", "digest", "", "")
    stamp = Stamp("id", StampKind.UPDATE, "another", mask=("message_ttl_in_seconds",), base="earlier", remembered=(earlier,))
    return Event(key, Action.UPDATE, document(message_ttl_in_seconds=5, max_producer_per_topic=7), stamp)


def _broken_once(monkeypatch: pytest.MonkeyPatch, owner: type, name: str, on: Callable[..., bool] = lambda *_: True) -> list[object]:
    """Has the first call that ``on`` selects raise an unexpected error. Returns a list that gets the arguments of this call."""
    broken: list[object] = []
    real = getattr(owner, name)

    def call(self: object, *arguments: object, **named: object) -> object:
        if not broken and on(*arguments):
            broken.append(arguments)
            raise ZeroDivisionError("planted")
        return real(self, *arguments, **named)

    monkeypatch.setattr(owner, name, call)
    return broken


def _of(value: int) -> Callable[..., bool]:
    """Selects calls with an event that sets a value."""
    return lambda placed, *_: placed.event is not None and placed.event.document == document(max_producer_per_topic=value)


def test_an_entry_that_can_not_be_folded_is_counted_and_logged_and_the_rest_of_its_batch_is_folded(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broken = _broken_once(monkeypatch, View, "fold", _of(2))

    async def scenario(bench: Bench) -> None:
        await bench.namespace.ready()
        bench.opened.reads[0].hold()
        for value in (1, 2):
            bench.elsewhere(value)
        bench.elsewhere(7, OTHER)
        bench.opened.reads[0].release()
        await asyncio.sleep(1)
        assert broken, "precondition"
        assert (await bench.value(), await bench.value(OTHER)) == (1, 7)
        assert bench.registry.common.activity.unreadable == 1 and len(bench.log.openings) == 1
        assert (await bench.set(3)).version

    simulate(scenario, sole_writer=False)
    assert "skipped an unreadable entry at 12: it can't be applied (ZeroDivisionError)" in caplog.text
