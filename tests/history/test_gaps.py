"""What the history does not have is told, however many gaps there are, however old they are, and whatever is trimmed meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from topicpolicies_server.core.errors import PolicyError
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.reading.tokens import Token
from topicpolicies_server.history import Bounds, History
from topicpolicies_server.history.entries import Gap, GapReason
from topicpolicies_server.history.file import MOST_GAPS, Query

from .conftest import BEGIN, NAMESPACE, Log, Reader, position, reader_of, topic, trim, update

KEY = PolicyKey(topic(), Scope.LOCAL)


async def test_a_gap_makes_a_document_uncertain_however_many_gaps_came_after_it(history: History) -> None:
    reader = await reader_of(history)
    reader.recorder._writer.tell(Gap(NAMESPACE, None, BEGIN + 4_000, GapReason.COMPACTED))
    reader.read(update(6, 1))
    await history.page(Query(NAMESPACE, most=1))
    for number in range(MOST_GAPS + 1):
        since = BEGIN + 10_000 + number * 1_000
        reader.recorder._writer.tell(Gap(NAMESPACE, since, since + 500, GapReason.COMPACTED))
        await history.page(Query(NAMESPACE, most=1))
    with pytest.raises(PolicyError, match="COMPACTED"):
        await history.past(NAMESPACE, KEY, reader.view.head(KEY), at=BEGIN + 2_000)
    past = await history.past(NAMESPACE, KEY, reader.view.head(KEY), at=BEGIN + 5_000)
    assert (past.document, past.version) == (None, "0")  # behind that gap it is certain


async def test_a_document_is_uncertain_behind_a_gap_although_the_first_event_after_it_has_an_old_time(
    history: History, now: list[int]
) -> None:
    now[0] = BEGIN + 10_000
    before = await reader_of(history)
    before.read(update(1, 1, at=BEGIN + 9_000))
    before.recorder.caught_up()
    now[0] = BEGIN + 14_000
    before.recorder.closed()
    now[0] = BEGIN + 100_000  # meanwhile the document was deleted, and the log compacted
    after = Reader(history.recorder(NAMESPACE), Log(complete=position(5)))
    after.read(update(7, 7, name="other", at=BEGIN + 2_000))
    after.recorder.caught_up()
    now[0] = BEGIN + 200_000
    for at in (10_000, 50_000, 99_000, 150_000):
        with pytest.raises(PolicyError, match="COMPACTED"):
            await history.past(NAMESPACE, KEY, after.view.head(KEY), at=BEGIN + at)


async def test_before_the_first_entry_that_is_kept_there_is_what_it_met_however_many_gaps_came_since(history: History, path: Path) -> None:
    reader = await reader_of(history)
    reader.read(*(update(row, row) for row in range(1, 4)))
    await history.page(Query(NAMESPACE))
    trim(path, Bounds(1.5, 1 << 30), BEGIN + 3_000)
    for number in range(MOST_GAPS + 1):
        since = BEGIN + 10_000 + number * 1_000
        reader.recorder._writer.tell(Gap(NAMESPACE, since, since + 500, GapReason.COMPACTED))
        await history.page(Query(NAMESPACE, most=1))
    past = await history.past(NAMESPACE, KEY, reader.view.head(KEY), at=BEGIN + 1_500)
    assert past.version == position(1)


async def test_a_gap_that_is_older_than_what_is_kept_is_told_as_trimmed_and_nothing_is_certain_in_it(
    history: History, path: Path, now: list[int]
) -> None:
    now[0] = BEGIN + 100_000
    first = await reader_of(history)
    first.read(update(1, 1))
    first.recorder.caught_up()
    now[0] = BEGIN + 110_000
    first.recorder.closed()
    now[0] = BEGIN + 115_000  # a backup from before the topic is restored
    restored = Reader(history.recorder(NAMESPACE), Log("restored"))
    restored.recorder.caught_up()
    now[0] = BEGIN + 130_000
    restored.read(update(2, 2, at=BEGIN + 120_000), update(3, 3, name="other", at=BEGIN + 125_000))
    head = restored.view.head(KEY)
    for reason, until in ((GapReason.LOG_REPLACED, 115_000), (GapReason.TRIMMED, 115_000)):
        with pytest.raises(PolicyError, match=reason.name):
            await history.past(NAMESPACE, KEY, head, at=BEGIN + 50_000)
        page = await history.page(Query(NAMESPACE, topic(), start=BEGIN + 50_000))
        assert [(gap.reason, gap.until) for gap in page.gaps] == [(reason, BEGIN + until)]
        trim(path, Bounds(1_000.0, 1 << 30), BEGIN + 1_118_000)
        assert [entry.version for entry in page.entries] == [position(2)]


async def test_before_the_first_entry_of_a_topic_there_is_what_it_met_if_the_event_before_was_left_out(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = await reader_of(history)
    reader.recorder.caught_up()
    reader.read(update(1, 1, name="other"))
    await history.page(Query(NAMESPACE))
    with monkeypatch.context() as full:
        full.setattr(history._writer, "_backlog_bytes", 0)
        reader.read(update(2, 7))
    reader.read(update(3, 1, name="other"), update(100, 8))
    past = await history.past(NAMESPACE, KEY, reader.view.head(KEY), at=BEGIN + 50_000)
    assert past.version == position(2)


async def test_a_log_of_which_it_is_not_known_what_was_removed_has_one_gap_for_each_opening_however_often_it_is_written(
    history: History, now: list[int]
) -> None:
    reader = await reader_of(history, Log(complete=None))
    for row in range(2, 10, 2):
        now[0] += 1_000
        reader.read(update(row, row))
        page = await history.page(Query(NAMESPACE))
        assert [(gap.since, gap.until) for gap in page.gaps] == [(None, now[0])]
    for row in (1, 5):  # also if the process is killed now, a copy is told that events are missing
        stretch = await history.stretch(NAMESPACE, Token("log", (position(row),)), 100)
        assert [piece.until for piece in stretch.pieces if isinstance(piece, Gap)] == [now[0]]
    now[0] += 1_000
    reader.recorder.caught_up()
    page = await history.page(Query(NAMESPACE))
    assert [(gap.since, gap.until) for gap in page.gaps] == [(None, now[0])]
    assert history.figures().gaps == {"COMPACTED": 1}
    again = await reader_of(history, Log(complete=None))
    again.recorder.caught_up()
    assert len((await history.page(Query(NAMESPACE))).gaps) == 2
