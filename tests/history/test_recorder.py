"""Which events of an opening the recorder records, with which times, and where it records gaps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topicpolicies_server.core.policies.events import Placed
from topicpolicies_server.history.entries import Extent, Followed, Gap, GapReason, Noted, SetBack, Stream
from topicpolicies_server.history.recorder import Recorder

from .conftest import BEGIN, NAMESPACE, Log, Reader, position, update

NOW = BEGIN + 10**6


class Sink:
    """A sink that takes as many events as it has room for."""

    def __init__(self, room: int = 1_000) -> None:
        self.room = room
        self.noted: list[Noted] = []
        self.items: list[Gap | Followed | SetBack] = []

    def note(self, noted: Sequence[Noted]) -> int:
        taken = noted[: self.room]
        self.room -= len(taken)
        self.noted += taken
        return len(taken)

    def tell(self, what: Gap | Followed | SetBack) -> None:
        self.items.append(what)

    @property
    def rows(self) -> list[int]:
        return [int(each.placed.position) for each in self.noted]

    @property
    def gaps(self) -> list[tuple[int | None, int, GapReason]]:
        return [(each.since, each.until, each.reason) for each in self.items if isinstance(each, Gap)]


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
    assert sink.gaps == [(None, BEGIN + 5_000, GapReason.COMPACTED)]


def test_events_compacted_away_between_two_openings_are_a_gap_with_its_times() -> None:
    sink = read(Sink(), extent(5), Log(complete=position(9)), 3, 5, 8, 9, 10)
    assert sink.rows == [8, 9, 10]
    assert sink.gaps == [(BEGIN + 5_500, BEGIN + 10_000, GapReason.COMPACTED)]


@pytest.mark.parametrize(
    ("at", "replicated", "since", "until"),
    [
        pytest.param(BEGIN + 2_000, False, BEGIN + 5_500, NOW, id="by a writer whose clock is slow"),
        pytest.param(BEGIN + 5_500, False, BEGIN + 5_500, NOW, id="at the moment to which the log was followed"),
        pytest.param(BEGIN + 2_000, True, BEGIN + 5_500, NOW, id="replicated late"),
        pytest.param(BEGIN + 9_000, True, BEGIN + 5_500, NOW, id="replicated late, but published after the gap had begun"),
    ],
)
def test_a_gap_does_not_end_at_the_time_of_an_event_that_is_older_than_what_may_be_missing_before_it(
    at: int, replicated: bool, since: int, until: int
) -> None:
    sink = Sink()
    opening = reader(sink, extent(5), Log(complete=position(9)))
    opening.read(event := update(10, 10, at=at) if not replicated else replica(update(10, 10, at=at)))
    opening.recorder.caught_up()
    assert [each.placed for each in sink.noted] == [event]
    assert sink.gaps == [(since, until, GapReason.COMPACTED)]


def replica(placed: Placed) -> Placed:
    """Returns the same event as one that came from another cluster."""
    assert placed.event is not None
    return placed._replace(event=placed.event._replace(replicated=True))


def test_a_gap_has_a_beginning_before_its_end_although_the_clock_was_set_back_meanwhile() -> None:
    sink = read(Sink(), extent(5, followed=NOW + 10**8), Log(complete=position(9)), 8)
    assert sink.gaps == [(NOW, NOW + 1, GapReason.COMPACTED)]


def test_a_gap_ends_now_if_the_log_has_no_event_after_the_compacted_part() -> None:
    assert read(Sink(), extent(5), Log(complete=position(9)), 3, 8).gaps == [(BEGIN + 5_500, NOW, GapReason.COMPACTED)]


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


def test_events_that_the_sink_has_no_room_for_are_a_gap() -> None:
    sink = Sink(room=2)
    opening = reader(sink, nothing(), Log())
    opening.read(*(update(row, row) for row in range(1, 6)))
    assert sink.rows == [1, 2]
    sink.room = 10
    opening.read(update(6, 6), update(7, 7))
    assert sink.rows == [1, 2, 6, 7]
    assert sink.gaps == [(BEGIN + 2_000, BEGIN + 6_000, GapReason.OVERRUN)]


def test_events_of_several_partitions_for_which_there_is_no_room_are_all_within_the_gap() -> None:
    sink = Sink(room=2)
    opening = reader(sink, nothing(), Log(partitions=2))
    opening.read(update(1, 1, partition=1, at=BEGIN), update(5, 2))  # the clocks of their writers differ
    opening.read(update(8, 3), update(2, 4, partition=1))
    sink.room = 1
    opening.read(update(3, 5, partition=1))
    assert sink.gaps == [(BEGIN + 2_000, BEGIN + 8_000, GapReason.OVERRUN)]


def test_an_overrun_that_lasts_until_the_log_is_closed_is_recorded_at_its_close() -> None:
    sink = Sink(room=1)
    opening = reader(sink, nothing(), Log())
    opening.read(update(1, 1), update(2, 2))
    opening.recorder.closed()
    assert sink.gaps == [(BEGIN + 1_000, NOW, GapReason.OVERRUN)]


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
    assert sink.items == []
    opening.recorder.caught_up()
    opening.recorder.tick()
    opening.recorder.closed()
    opening.recorder.tick()
    assert sink.items == [Followed(NAMESPACE, NOW)] * 3


def test_of_a_log_of_ours_without_an_event_the_history_says_nothing() -> None:
    sink, log = Sink(), Log()
    log.shared = False
    opening = reader(sink, nothing(), log)
    opening.recorder.caught_up()
    opening.recorder.tick()
    assert sink.items == [], "any caller can name any number of such namespaces"
    opening.read(update(1, 1))
    opening.recorder.closed()
    assert sink.items == [Followed(NAMESPACE, NOW)]


@given(
    st.lists(st.tuples(st.integers(0, 1), st.integers(-3, 3), st.booleans()), max_size=30),
    st.lists(st.integers(1, 8), min_size=30, max_size=30),
    st.integers(0, 3),
    st.sampled_from([None, "", position(2), position(4)]),
    st.integers(0, 30),
)
def test_the_record_does_not_depend_on_how_many_events_are_noted_at_a_time(
    steps: list[tuple[int, int, bool]], sizes: list[int], recorded: int, complete: str | None, room: int
) -> None:
    events: list[Placed] = []
    rows = [0, 0]
    later = [update(40, 40), update(41, 41)]
    for partition, skew, readable in steps:
        rows[partition] += 1
        row = rows[partition]
        event = update(row, row, name=f"orders-{partition}", partition=partition, at=BEGIN + 1_000 * (len(events) + skew))
        events.append(event if readable else event._replace(event=None, problem="damage"))

    def record_in(counts: Iterable[int]) -> object:
        sink, known = Sink(room), extent(recorded) if recorded else nothing()
        opening, left = reader(sink, known, Log(complete=complete, partitions=2)), list(events)
        for count in counts:
            opening.recorder.noted([opening.taken(placed) for placed in left[:count]])
            left = left[count:]
        sink.room = 1_000
        opening.recorder.caught_up()
        opening.read(*later)
        streams = {where: (stream.position, stream.at) for where, stream in known.streams.items()}
        noted = [(each.stream.partition, *each[1:]) for each in sink.noted]
        gaps = [
            (each.since, each.until, each.reason, [(s.partition, p) for s, p in each.holes]) for each in sink.items if isinstance(each, Gap)
        ]
        return noted, gaps, streams, known.overrun

    assert record_in(sizes) == record_in([1] * len(events))


class Uncertain(Log):
    """A log that raises an error when it is asked whether one row follows the row before."""

    failing = position(9)

    def follows(self, earlier: str, later: str) -> bool:
        if later == self.failing:
            raise RuntimeError("planted")
        return super().follows(earlier, later)


def gap_since(known: Extent) -> int | None:
    return known.overrun.since if known.overrun is not None else None


def test_after_a_failure_answers_have_a_gap_until_the_next_opening_records_what_is_missing() -> None:
    sink, known, log = Sink(), extent(5), Uncertain(complete=position(12))
    opening = reader(sink, known, log)
    opening.read(*(update(row, row) for row in range(6, 8)))
    with pytest.raises(RuntimeError, match="planted"):
        opening.recorder.noted([opening.taken(update(row, row)) for row in range(8, 15)])
    assert gap_since(known) == BEGIN + 7_000, "answers have a gap until then"
    log.failing = ""
    read(sink, known, log, *range(1, 15))
    assert (sink.rows, sink.gaps, gap_since(known)) == (list(range(6, 15)), [], None)


def test_listeners_are_notified_once_for_all_events_that_are_noted_at_a_time() -> None:
    notified: list[None] = []
    known = nothing()
    known.listeners.add(lambda: notified.append(None))
    opening = reader(Sink(), known, Log(complete=""))
    opening.recorder.noted([opening.taken(update(row, row)) for row in range(1, 9)])
    assert len(notified) == 1
    opening.recorder.noted([opening.taken(update(8, 8))])
    assert len(notified) == 1, "the event is recorded already"
