"""Following the history: a reader that continues from a place misses and repeats nothing, and gets the gaps where events are missing."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path

import pytest

from topicpolicies_server.core.reading.tokens import Token
from topicpolicies_server.history import Bounds, History, open_history
from topicpolicies_server.history.entries import Gap
from topicpolicies_server.history.file import BEGINNING, Piece, Recorded, Stretch, UnknownLog

from .conftest import BEGIN, BOUNDS, NAMESPACE, Log, Reader, position, reader_of, trim, update


async def stretch_after(history: History, place: Token = BEGINNING, most: int = 100) -> Stretch:
    return await history.stretch(NAMESPACE, place, most)


async def everything(history: History, place: Token = BEGINNING, most: int = 100) -> tuple[list[str], Token]:
    """Reads to the end; returns positions and the reasons of gaps, and the last place."""
    pieces: list[str] = []
    while True:
        stretch = await stretch_after(history, place, most)
        pieces += map(label_of, stretch.pieces)
        place = stretch.token
        if not stretch.more:
            return pieces, place


def label_of(piece: Piece) -> str:
    if isinstance(piece, Gap):
        return piece.reason.name
    return piece.entry.position


def rows(*numbers: int) -> list[str]:
    return list(map(position, numbers))


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("every", [1, 4, 100])
async def test_divisions_divide_the_history_into_parts_of_so_many_events_at_most(history: History, partitions: int, every: int) -> None:
    reader = await reader_of(history, Log(partitions=partitions))
    chance = random.Random(every)
    reader.read(*(update(row, row, partition=chance.randrange(partitions)) for row in range(1, 30)))
    divisions = await history.divisions(NAMESPACE, BEGINNING, every, 1_000)
    whole = await stretch_after(history)
    tokens = [(piece.entry.id, piece.token) for piece in whole.pieces if isinstance(piece, Recorded)]
    assert {each[:2] for each in divisions} <= set(tokens) and divisions[-1][:2] == tokens[-1]
    ids = [0, *(each.id for each in divisions)]
    sizes = [sum(first < number <= last for number, _ in tokens) for first, last in pairwise(ids)]
    assert sum(sizes) == 29 and max(sizes) <= every and all(each.full for each in divisions[:-1])
    assert sizes == [every] * (29 // every) + [29 % every] * bool(29 % every) or partitions > 1
    few = await history.divisions(NAMESPACE, BEGINNING, every, 2)
    rest = await history.divisions(NAMESPACE, few[-1].token, every, 1_000)
    assert few + rest == divisions


async def test_an_event_that_is_recorded_late_with_an_early_time_is_not_missed(history: History) -> None:
    reader = await reader_of(history, Log(partitions=2))
    reader.read(update(1, 1, at=BEGIN + 5_000))
    before = await stretch_after(history)
    reader.read(update(1, 2, name="late", at=BEGIN + 1_000, partition=1), update(2, 3, at=BEGIN + 6_000))
    after = await stretch_after(history, before.token)
    assert list(map(label_of, before.pieces)) == rows(1) and before.token == Token("log", (position(1),))
    entries = [piece for piece in after.pieces if isinstance(piece, Recorded)]
    met = [(each.token.positions, each.entry.topic.rpartition("/")[2]) for each in entries]
    assert met == [
        (tuple(rows(1, 1)), "late"),
        (tuple(rows(2, 1)), "orders"),
    ]
    assert after.token == Token("log", (position(2), position(1))) and after.whole and not after.more
    assert not (await stretch_after(history, after.token)).pieces


@pytest.mark.parametrize("most", [1, 2, 3, 100])
async def test_stretches_of_any_length_have_the_same_pieces(history: History, most: int) -> None:
    reader = await reader_of(history, Log(partitions=2))
    other = history.recorder("public/other")
    Reader(other, Log("elsewhere")).read(update(1, 1))
    reader.read(*(update(number, number, partition=number % 2) for number in range(1, 9)))
    assert await everything(history, most=most) == (rows(*range(1, 9)), Token("log", (position(8), position(7))))
    assert (await everything(history, Token("log", (position(4), position(3))), most))[0] == rows(5, 6, 7, 8)


async def test_a_place_is_valid_at_another_server_that_recorded_the_same_log(history: History, tmp_path: Path, now: list[int]) -> None:
    other = open_history(tmp_path / "other.db", BOUNDS, now=lambda: now[0])
    for each in (history, other):
        (await reader_of(each)).read(*(update(number, number) for number in range(1, 6)))
    _, place = await everything(history, Token("log", (position(2),)))
    assert await everything(other, Token("log", (position(2),))) == (rows(3, 4, 5), place)
    with pytest.raises(UnknownLog):
        await stretch_after(other, Token("another log", ("",)))
    await other.close()


async def test_trimmed_events_are_a_gap_only_for_places_before_them(path: Path, history: History) -> None:
    (await reader_of(history)).read(*(update(number, number) for number in range(1, 10)))
    await stretch_after(history)
    trim(path, Bounds(4.5, 1 << 30), BEGIN + 10_000)
    early, late = Token("log", (position(2),)), Token("log", (position(5),))
    lost, kept = await stretch_after(history, early), await stretch_after(history, late)
    assert list(map(label_of, lost.pieces)) == ["TRIMMED", *rows(6, 7, 8, 9)] and not lost.whole
    assert list(map(label_of, kept.pieces)) == rows(6, 7, 8, 9) and kept.whole


async def test_a_place_at_the_end_stays_valid_after_everything_was_trimmed(path: Path, now: list[int]) -> None:
    history = open_history(path, BOUNDS, now=lambda: now[0])
    (await reader_of(history)).read(*(update(number, number) for number in range(1, 6)))
    _, place = await everything(history)
    trim(path, Bounds(1, 1 << 30), BEGIN + 10**6)
    await history.close()
    again = open_history(path, BOUNDS, now=lambda: now[0])
    (await reader_of(again)).read(*(update(number, number) for number in range(1, 9)))
    stretch = await stretch_after(again, place)
    assert list(map(label_of, stretch.pieces)) == rows(6, 7, 8) and stretch.whole
    await again.close()


async def test_events_that_were_compacted_away_unrecorded_are_a_gap_at_their_place(path: Path, now: list[int]) -> None:
    history = open_history(path, BOUNDS, now=lambda: now[0])
    first = await reader_of(history)
    first.read(update(1, 1), update(2, 2))
    first.recorder.caught_up()
    first.recorder.closed()
    _, place = await everything(history)
    later = await reader_of(history, Log(complete=position(6)))
    later.read(update(5, 5), update(7, 7), update(8, 8))
    later.recorder.caught_up()
    assert (await everything(history, place))[0] == [*rows(5), "COMPACTED", *rows(7, 8)]
    assert not (await stretch_after(history, place)).whole
    assert (await stretch_after(history, Token("log", (position(6),)))).whole
    assert (await everything(history, Token("log", (position(7),))))[0] == rows(8)
    await history.close()


async def test_after_the_end_of_a_replaced_log_follow_a_gap_and_the_new_log(history: History) -> None:
    old = await reader_of(history)
    old.read(update(1, 1), update(2, 2))
    old.recorder.caught_up()
    old.recorder.closed()
    new = await reader_of(history, Log("new"))
    new.read(update(1, 3))
    new.recorder.caught_up()
    assert await everything(history) == ([*rows(1, 2), "LOG_REPLACED", *rows(1)], Token("new", (position(1),)))
    assert await everything(history, Token("log", (position(1),))) == (
        [*rows(2), "LOG_REPLACED", *rows(1)],
        Token("new", (position(1),)),
    )
    stretch = await stretch_after(history, Token("new", (position(1),)))
    assert not stretch.pieces and stretch.whole and not stretch.more


async def test_a_listener_is_woken_for_each_event_of_its_namespace_until_it_is_removed(history: History) -> None:
    woken: list[int] = []

    def wake() -> None:
        woken.append(1)

    reader = await reader_of(history)
    history.listen(NAMESPACE, wake)
    reader.read(update(1, 1), update(2, 2))
    other = history.recorder("public/other")
    Reader(other, Log("elsewhere")).read(update(1, 1))
    history.unlisten(NAMESPACE, wake)
    reader.read(update(3, 3))
    assert len(woken) == 2
