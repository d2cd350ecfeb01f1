"""The history in the order of recording: whoever goes on from where he was misses and repeats nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from topicpolicies_server.core.errors import PolicyError
from topicpolicies_server.core.names import Scope
from topicpolicies_server.history import Bounds, History, file, open_history
from topicpolicies_server.history.entries import Reason
from topicpolicies_server.history.questions import BEGINNING, Page, Question, Recorded
from topicpolicies_server.history.writer import trim

from .conftest import BEGIN, BOUNDS, NAMESPACE, Log, Reader, position, reader_of, update


async def asked(history: History, behind: Recorded = BEGINNING, most: int = 100, **more: object) -> Page:
    return await history.page(Question(NAMESPACE, behind=behind, most=most, **more))  # type: ignore[arg-type]


def positions(page: Page) -> list[str]:
    return [entry.position for entry in page.entries]


async def test_what_is_recorded_late_with_an_early_time_is_not_missed(history: History) -> None:
    reader = await reader_of(history, Log(partitions=2))
    reader.read(update(1, 1, at=BEGIN + 5_000))
    before = await asked(history)
    reader.read(update(1, 2, name="late", at=BEGIN + 1_000, partition=1), update(2, 3, at=BEGIN + 6_000))
    assert before.end is not None
    after = await asked(history, before.end)
    assert positions(before) == [position(1)]
    assert [(entry.topic.rpartition("/")[2], entry.at - BEGIN) for entry in after.entries] == [("late", 1_000), ("orders", 6_000)]
    assert after.end is not None
    assert not (await asked(history, after.end)).entries


async def test_pages_end_where_they_are_told_to_and_give_the_same_again(history: History) -> None:
    reader = await reader_of(history)
    reader.read(*(update(number, number) for number in range(1, 8)))
    end = (await asked(history)).end
    other = await history.scribe("public/other")
    assert other is not None
    Reader(other, Log("elsewhere")).read(update(1, 1))
    reader.read(update(8, 8), update(9, 9, scope=Scope.GLOBAL))
    for _ in range(2):
        found, place = [], BEGINNING
        while True:
            page = await asked(history, place, most=3, until=end)
            found += positions(page)
            if not page.more:
                break
            place = page.entries[-1].recorded
        assert found == list(map(position, range(1, 8)))
    assert end is not None
    assert positions(await asked(history, end)) == [position(8), position(9)]
    assert positions(await asked(history, end, scopes=frozenset({Scope.GLOBAL}))) == [position(9)]
    assert not (await asked(history, end, actor="bob")).entries


async def test_what_was_dropped_unread_is_a_gap_and_what_was_read_is_none(path: Path, history: History) -> None:
    reader = await reader_of(history)
    reader.read(*(update(number, number) for number in range(1, 10)))
    page = await asked(history, most=5)
    early, late, end = page.entries[1].recorded, page.entries[4].recorded, page.end
    connection = file.connect(path)
    trim(connection, Bounds(4.5, 1 << 30), BEGIN + 10_000)
    connection.close()
    lost, kept = await asked(history, early), await asked(history, late)
    assert [gap.reason for gap in lost.gaps] == [Reason.TRIMMED] and not kept.gaps
    assert positions(lost) == positions(kept) == list(map(position, range(6, 10)))
    assert end is not None and not (await asked(history, end)).entries


async def test_a_place_stays_behind_everything_although_all_is_dropped(path: Path, now: list[int]) -> None:
    history = open_history(path, BOUNDS, now=lambda: now[0])
    (await reader_of(history)).read(*(update(number, number) for number in range(1, 6)))
    end = (await asked(history)).end
    connection = file.connect(path)
    trim(connection, Bounds(1, 1 << 30), BEGIN + 10**6)
    connection.close()
    await history.close()
    again = open_history(path, BOUNDS, now=lambda: now[0])
    (await reader_of(again)).read(*(update(number, number) for number in range(1, 9)))
    assert end is not None
    assert positions(await asked(again, end)) == list(map(position, range(6, 9)))
    await again.close()


async def test_a_place_in_another_file_is_refused(history: History, tmp_path: Path, now: list[int]) -> None:
    (await reader_of(history)).read(update(1, 1), update(3, 3))
    here = (await asked(history)).end
    assert here is not None
    other = open_history(tmp_path / "other.db", BOUNDS, now=lambda: now[0])
    for events in ((), (update(1, 1), update(2, 2), update(3, 3))):
        (await reader_of(other)).read(*events)
        with pytest.raises(PolicyError) as refused:
            await asked(other, here)
        assert (refused.value.kind.value, refused.value.reason) == ("OUT_OF_RANGE", "TOKEN_OUT_OF_RANGE")
        with pytest.raises(PolicyError):
            await asked(other, until=here)
    await other.close()
