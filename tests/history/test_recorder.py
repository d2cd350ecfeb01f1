"""Which events of an opening the recorder records, with which times, and where it records gaps."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from topicpolicies_server.core.policies.events import Placed
from topicpolicies_server.history.entries import Extent, Gap, GapReason, Noted, Stream
from topicpolicies_server.history.recorder import Recorder

from .conftest import BEGIN, NAMESPACE, Log, Reader, position, update

NOW = BEGIN + 10**6


class Sink:
    """What a recorder hands to the writer."""

    def __init__(self) -> None:
        self.noted: list[Noted] = []
        self.told: list[Gap] = []
        self.follows: list[tuple[str, int]] = []

    def note(self, noted: Sequence[Noted]) -> None:
        self.noted += noted

    def tell(self, gap: Gap) -> None:
        self.told.append(gap)

    def followed(self, namespace: str, until: int) -> None:
        self.follows.append((namespace, until))

    @property
    def rows(self) -> list[int]:
        return [int(each.placed.position) for each in self.noted]

    @property
    def gaps(self) -> list[tuple[int | None, int, GapReason]]:
        return [(each.since, each.until, each.reason) for each in self.told]


def extent(row: int, *, log: str = "log", followed: int = BEGIN + 5_500) -> Extent:
    """Returns the extent of a history that goes up to a row."""
    return Extent(followed, {(log, 0): Stream(NAMESPACE, log, 0, position(row), BEGIN + row * 1000)})


def reader(sink: Sink, known: Extent, log: Log) -> Reader:
    return Reader(Recorder(sink, NAMESPACE, known, lambda: NOW), log)  # type: ignore[arg-type]


def read(sink: Sink, known: Extent, log: Log, *rows: int) -> Sink:
    opening = reader(sink, known, log)
    opening.read(*(update(row, row) for row in rows))
    opening.recorder.caught_up()
    return sink


def nothing() -> Extent:
    """Returns the extent of an empty history."""
    return Extent()


def test_a_log_that_was_never_compacted_is_recorded_from_its_beginning_without_a_gap() -> None:
    sink = read(Sink(), nothing(), Log(complete=""), 1, 2, 3)
    assert (sink.rows, sink.gaps) == ([1, 2, 3], [])


def test_events_that_are_recorded_already_are_not_recorded_again() -> None:
    sink = read(Sink(), extent(3), Log(complete=""), 1, 2, 3, 4, 5)
    assert (sink.rows, sink.gaps) == ([4, 5], [])


def test_a_log_that_was_compacted_before_it_was_first_read_has_a_gap_from_its_beginning() -> None:
    sink = read(Sink(), nothing(), Log(complete=position(4)), 2, 4, 5, 6)
    assert sink.rows == [2, 4, 5, 6]
    assert sink.gaps == [(None, NOW, GapReason.COMPACTED)]


def test_events_compacted_away_between_two_openings_are_a_gap_with_its_times() -> None:
    sink = read(Sink(), extent(5), Log(complete=position(9)), 3, 5, 8, 9, 10)
    assert sink.rows == [8, 9, 10]
    assert sink.gaps == [(BEGIN + 5_500, NOW, GapReason.COMPACTED)]


def test_a_gap_has_a_beginning_before_its_end_although_the_clock_was_set_back_meanwhile() -> None:
    sink = read(Sink(), extent(5, followed=NOW + 10**8), Log(complete=position(9)), 8)
    assert sink.gaps == [(NOW - 1, NOW, GapReason.COMPACTED)]


def test_a_compaction_that_removed_nothing_unrecorded_leaves_no_gap() -> None:
    assert read(Sink(), extent(5), Log(complete=position(9)), 2, 6, 7, 8, 9, 10).gaps == []
    assert read(Sink(), extent(9), Log(complete=position(9)), 2, 8, 9, 10).gaps == []
    assert read(Sink(), extent(9), Log(complete=position(7)), 2, 7, 8, 9).gaps == []


def test_a_log_whose_compaction_is_unknown_has_a_gap_at_each_opening() -> None:
    assert read(Sink(), extent(2), Log(complete=None), 1, 2, 3).gaps == [(BEGIN + 5_500, NOW, GapReason.COMPACTED)]


def test_a_log_that_was_replaced_is_a_gap() -> None:
    sink = read(Sink(), extent(5, log="older"), Log("newer", complete=""), 1, 2)
    assert sink.rows == [1, 2]
    assert sink.gaps == [(BEGIN + 5_500, NOW, GapReason.LOG_REPLACED)]


def test_a_log_that_gets_its_identity_when_it_is_created_is_recorded_with_that_identity() -> None:
    sink, log = Sink(), Log("nothing yet", complete="")
    opening = reader(sink, nothing(), log)
    opening.recorder.caught_up()
    log.identity = "created"
    opening.read(update(1, 1))
    assert [each.stream.log for each in sink.noted] == ["created"]
    assert sink.gaps == []


def test_times_never_go_back_and_are_never_in_the_future() -> None:
    sink = Sink()
    opening = reader(sink, nothing(), Log())
    opening.read(update(1, 1, at=BEGIN + 9_000), update(2, 2, at=BEGIN), update(3, 3, at=NOW + 10**9), update(4, 4, at=BEGIN + 10_000))
    assert [each.at for each in sink.noted] == [BEGIN + 9_000, BEGIN + 9_000, NOW, NOW]


def test_each_partition_has_its_own_time() -> None:
    sink = Sink()
    opening = reader(sink, nothing(), Log(partitions=2))
    opening.read(update(5, 1, name="a", partition=0), update(1, 2, name="b", partition=1))
    assert [each.at for each in sink.noted] == [BEGIN + 5_000, BEGIN + 1_000]


def test_foreign_entries_leave_no_gap_and_unreadable_entries_are_recorded() -> None:
    sink = Sink()
    opening = reader(sink, extent(1), Log(complete=position(3)))
    marker, damaged = Placed(0, position(2), None, BEGIN), Placed(0, position(3), None, BEGIN, problem="no Avro")
    opening.read(marker, damaged, update(4, 4))
    opening.recorder.caught_up()
    assert sink.rows == [3, 4]
    assert sink.gaps == []


def test_the_recorder_records_that_a_log_is_followed_until_it_is_closed() -> None:
    sink = Sink()
    opening = reader(sink, nothing(), Log())
    opening.recorder.tick()
    assert sink.follows == []
    opening.recorder.caught_up()
    opening.recorder.tick()
    opening.recorder.closed()
    opening.recorder.tick()
    assert sink.follows == [(NAMESPACE, NOW)] * 3


def test_of_a_log_of_ours_without_an_event_the_history_says_nothing() -> None:
    sink, log = Sink(), Log()
    log.shared = False
    opening = reader(sink, nothing(), log)
    opening.recorder.caught_up()
    opening.recorder.tick()
    assert sink.follows == [], "any caller can name any number of such namespaces"
    opening.read(update(1, 1))
    opening.recorder.closed()
    assert sink.follows == [(NAMESPACE, NOW)]


class Uncertain(Log):
    """A log that raises an error when it is asked whether one row follows the row before."""

    failing = position(9)

    def follows(self, earlier: str, later: str) -> bool:
        if later == self.failing:
            raise RuntimeError("planted")
        return super().follows(earlier, later)


def test_after_a_failure_the_next_opening_records_what_is_missing() -> None:
    sink, known, log = Sink(), extent(5), Uncertain(complete=position(12))
    opening = reader(sink, known, log)
    with pytest.raises(RuntimeError, match="planted"):
        opening.recorder.noted([opening.taken(update(row, row)) for row in range(6, 15)])
    log.failing = ""
    read(sink, known, log, *range(1, 15))
    assert (sink.rows, sink.gaps) == (list(range(6, 15)), [])


def test_listeners_are_notified_once_for_all_events_that_are_noted_at_a_time() -> None:
    notified: list[None] = []
    known = nothing()
    known.listeners.add(lambda: notified.append(None))
    opening = reader(Sink(), known, Log(complete=""))
    opening.recorder.noted([opening.taken(update(row, row)) for row in range(1, 9)])
    assert len(notified) == 1
    opening.recorder.noted([opening.taken(update(8, 8))])
    assert len(notified) == 1, "the event is recorded already"
