"""The validator of repetitions in watches accepts correct streams and detects planted repetitions."""

from __future__ import annotations

import pytest

from .records import Bookmark, Change, History, Key, Message, Watch
from .timeline import Timeline
from .watches import watch_repeats_nothing

KEY = Key("persistent://acme/orders/t")
SYNCED = Bookmark(0.0, True, "log", ("1",))


def change(version: str, *, position: str | None = None, there: bool = True) -> Change:
    """Returns a change; its position is its version by default."""
    return Change(1.0, KEY, version, "", {"x": 1} if there else None, version if position is None else position)


def repeated(*streams: list[Message]) -> int:
    """Returns the number of repetitions in these streams of one client, each of which resumed from the one before."""
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


def test_growing_versions_are_no_repetitions() -> None:
    assert repeated([change("1"), SYNCED, change("2"), change("3", there=False)], [change("4")]) == 0


@pytest.mark.parametrize("version", ["1", "2"])
def test_an_equal_or_older_version_is_reported_in_a_stream_and_in_one_that_resumed_it(version: str) -> None:
    assert repeated([change("1"), SYNCED, change("2"), change(version)]) == 1
    assert repeated([change("1"), SYNCED, change("2")], [change(version)]) == 1


def test_a_document_may_be_sent_again_with_the_position_of_a_repair_until_the_resumed_stream_is_synced() -> None:
    repaired = change("2", position="5")
    assert repeated([change("1"), SYNCED, change("2")], [repaired, SYNCED._replace(positions=("5",))]) == 0
    assert repeated([change("1"), SYNCED, change("2"), repaired]) == 1, "the stream did not resume"
    assert repeated([change("1"), SYNCED, change("2")], [SYNCED._replace(positions=("5",)), repaired]) == 1, "it is synced"
    assert repeated([change("1"), SYNCED, change("2", there=False)], [repaired]) == 1, "another document"
    assert repeated([change("1"), SYNCED, change("2"), change("3")], [repaired]) == 1, "an older version"


def test_a_bookmark_with_an_older_position_is_reported() -> None:
    assert repeated([SYNCED._replace(positions=("2",)), Bookmark(2.0, False, "log", ("1",))]) == 1


def test_only_the_same_absence_may_be_sent_twice() -> None:
    absent = change("2", there=False)
    assert repeated([change("1"), SYNCED, absent], [absent]) == 0
    assert repeated([change("1"), SYNCED, change("2")], [absent]) == 1, "a document had that version"
    assert repeated([change("1"), SYNCED, change("3", there=False)], [absent]) == 1, "the version is older"
