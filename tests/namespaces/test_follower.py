"""When a new opening of a log goes on with the view of the one before."""

from __future__ import annotations

from typing import cast

import pytest

from topicpolicies_server.core.fold.fold import FoldContext
from topicpolicies_server.core.policies.events import Position
from topicpolicies_server.logs.change_log import NamespaceLog
from topicpolicies_server.namespaces.follower import Follower, Owner


class NamedLog:
    """A log of one partition, with nothing in it."""

    partitions = 1
    in_place = False

    def __init__(self, identity: str, complete_after: Position | None = "") -> None:
        self.identity = identity
        self._complete_after = complete_after

    def complete_after(self, partition: int) -> Position | None:
        assert partition == 0
        return self._complete_after

    def follows(self, earlier: Position, later: Position) -> bool:
        del earlier, later
        return False


def opened(log: NamedLog, older: Follower | None = None) -> Follower:
    follower = Follower(cast("Owner", None), "a/b", FoldContext(), older)
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


def test_a_log_that_came_into_being_while_it_was_open_and_was_deleted_is_not_the_one_that_does_not_exist() -> None:
    log = NamedLog("not there yet")
    older = opened(log)
    log.identity = "there"
    assert not opened(NamedLog("not there yet"), older).continues
    assert opened(NamedLog("there"), older).continues
