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


LAST = BEGIN + 5_500
"""When the log was followed before."""


@pytest.mark.parametrize(
    ("known", "log", "read_rows", "recorded", "since"),
    [
        pytest.param(Extent(), Log(), [1, 2, 3], [1, 2, 3], [], id="never compacted"),
        pytest.param(extent(3), Log(), [1, 2, 3, 4, 5], [4, 5], [], id="recorded before"),
        pytest.param(Extent(), Log(complete=position(4)), [2, 4, 5], [2, 4, 5], [None], id="compacted before it was first read"),
        pytest.param(extent(5), Log(complete=position(9)), [3, 5, 8, 9, 10], [8, 9, 10], [LAST], id="compacted between two openings"),
        pytest.param(extent(5), Log(complete=position(9)), [3, 8], [8], [LAST], id="the same, and nothing came since"),
        pytest.param(
            extent(5, followed=NOW + 10**8), Log(complete=position(9)), [8], [8], [NOW - 1], id="the same, and the clock was set back"
        ),
        pytest.param(extent(5), Log(complete=position(9)), [2, 6, 7, 8, 9, 10], [6, 7, 8, 9, 10], [], id="nothing unrecorded was removed"),
        pytest.param(extent(9), Log(complete=position(7)), [2, 7, 8, 9], [], [], id="only what is recorded was removed"),
        pytest.param(extent(2), Log(complete=None), [1, 2, 3], [3], [LAST], id="it is not known what was removed"),
    ],
)
def test_what_an_opening_records_and_the_gap_before_it(
    known: Extent, log: Log, read_rows: list[int], recorded: list[int], since: list[int | None]
) -> None:
    sink = read(Sink(), known, log, *read_rows)
    assert sink.rows == recorded
    assert sink.gaps == [(each, NOW, GapReason.COMPACTED) for each in since]


def test_a_log_that_gets_its_identity_when_it_is_created_is_recorded_with_that_identity() -> None:
    sink, log = Sink(), Log("nothing yet", complete="")
    opening = reader(sink, Extent(), log)
    opening.recorder.caught_up()
    log.identity = "created"
    opening.read(update(1, 1))
    assert [each.stream.log for each in sink.noted] == ["created"]
    assert sink.gaps == []


def test_times_never_go_back_and_are_never_in_the_future() -> None:
    sink = Sink()
    opening = reader(sink, Extent(), Log())
    opening.read(update(1, 1, at=BEGIN + 9_000), update(2, 2, at=BEGIN), update(3, 3, at=NOW + 10**9), update(4, 4, at=BEGIN + 10_000))
    assert [each.at for each in sink.noted] == [BEGIN + 9_000, BEGIN + 9_000, NOW, NOW]


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
    opening = reader(sink, Extent(), Log())
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
    opening = reader(sink, Extent(), log)
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


@pytest.mark.parametrize(
    ("log", "reason"),
    [(Log(complete=position(9)), GapReason.COMPACTED), (Log("another"), GapReason.LOG_REPLACED)],
    ids=["compacted", "replaced"],
)
def test_an_opening_that_ends_before_it_has_read_its_log_has_told_the_gap_before_what_it_recorded(log: Log, reason: GapReason) -> None:
    sink, known = Sink(), extent(5)
    reader(sink, known, log).read(update(8, 8), update(9, 9))
    assert sink.gaps == [(LAST, NOW, reason)]
    read(sink, known, log, 8, 9, 10)
    assert (sink.rows, sink.gaps) == ([8, 9, 10], [(LAST, NOW, reason)])
