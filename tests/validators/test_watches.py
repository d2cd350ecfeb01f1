"""The validators of watches: each must find what it is there for, in histories that are written down."""

from __future__ import annotations

import pytest

from .records import Bookmark, Change, History, Key, Message, Watch
from .timeline import Timeline
from .watches import watch_repeats_nothing

KEY = Key("persistent://acme/orders/t")
SYNCED = Bookmark(0.0, True, "log", ("1",))


def change(version: str, *, position: str | None = None, there: bool = True) -> Change:
    """A message; its position is its version unless another is said."""
    return Change(1.0, KEY, version, "", {"x": 1} if there else None, 0, version if position is None else position)


def repeated(*streams: list[Message]) -> int:
    """How many repetitions are found where a client's streams delivered these, each resumed from the one before."""
    watches, token = [], None
    for number, messages in enumerate(streams):
        watches.append(
            Watch(
                client="w",
                sidecar="s",
                opened=float(number),
                every=False,
                topics=None,
                scopes=frozenset({1}),
                token=token,
                messages=messages,
            )
        )
        token = next((message for message in reversed(messages) if isinstance(message, Bookmark)), token)
    history = History(partitions={KEY: 0}, watches=watches)
    return len(list(watch_repeats_nothing(history, Timeline(history))))


def test_versions_that_grow_repeat_nothing() -> None:
    assert repeated([change("1"), SYNCED, change("2"), change("3", there=False)], [change("4")]) == 0


@pytest.mark.parametrize("version", ["1", "2"])
def test_a_version_that_is_told_again_or_goes_back_is_found_also_on_a_stream_that_resumed(version: str) -> None:
    assert repeated([change("1"), SYNCED, change("2"), change(version)]) == 1
    assert repeated([change("1"), SYNCED, change("2")], [change(version)]) == 1


def test_a_bookmark_that_goes_back_is_found() -> None:
    assert repeated([SYNCED._replace(positions=("2",)), Bookmark(2.0, False, "log", ("1",))]) == 1


def test_an_absence_without_a_place_may_be_told_twice_and_nothing_else_may() -> None:
    absent = change("2", there=False)
    without_place = change("2", position="", there=False)
    assert repeated([change("1"), SYNCED, absent], [without_place]) == 0
    assert repeated([change("1"), SYNCED, absent], [absent]) == 1
    assert repeated([change("1"), SYNCED, change("2")], [without_place]) == 1, "a document was told at that version"
    assert repeated([change("1"), SYNCED, change("3", there=False)], [without_place]) == 1, "it goes back"
