"""The serialized changes of a batch: watchers share the bytes if they take the same changes and need the same form of them."""

from __future__ import annotations

import itertools
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from tests.core.test_view import A, B, C
from tests.core.test_watch import Bench, drained
from topicpolicies.v1.service_pb2 import WatchPoliciesResponse
from topicpolicies_server.cluster.disabled_topics import DisabledTopics
from topicpolicies_server.core.policies.documents import wire
from topicpolicies_server.core.reading.view import Before
from topicpolicies_server.core.reading.watch import Batch, Watcher
from topicpolicies_server.rpc import answers
from topicpolicies_server.rpc.watching.serializing import PIECE_BYTES, change_pieces, joined

NAME = "acme/orders"


def disabled_of(*disabled: str) -> DisabledTopics:
    """Returns a set of disabled topics with these."""
    disabled_topics = DisabledTopics(NAME, cast("Any", None), lambda *_: None)
    disabled_topics._property_of = {key.topic: key.topic in disabled for key in (A, B, C)}
    return disabled_topics


def taken(watchers: list[Watcher]) -> list[Batch]:
    return [watcher.take(100) for watcher in watchers]


def shown(pieces: Any) -> list[str]:
    return [event.change.document.topic[-1] for event in WatchPoliciesResponse.FromString(b"".join(pieces)).events]


def watching(count: int) -> list[Batch]:
    """Returns the batches of three changes that so many identical watchers take."""
    bench = Bench()
    watchers = [bench.watch() for _ in range(count)]
    for watcher in watchers:
        drained(watcher)
    bench.change(A, B, C)
    return taken(watchers)


def test_watchers_that_take_the_same_changes_share_the_bytes_which_are_those_of_each_change() -> None:
    first, second = watching(2)
    pieces = change_pieces(NAME, first, wire, None, with_before=False)
    assert change_pieces(NAME, second, wire, None, with_before=False) is pieces
    assert b"".join(pieces) == b"".join(answers.change_record(NAME, change, wire, with_before=False) for change in first.changes)


def test_previous_documents_are_serialized_only_for_watchers_that_ask_for_them() -> None:
    first, second = watching(2)
    for change in first.changes:
        change.before = Before({})
    without, with_before = (change_pieces(NAME, batch, wire, None, with_before=asks) for batch, asks in ((first, False), (second, True)))
    events = [WatchPoliciesResponse.FromString(b"".join(each)).events for each in (without, with_before)]
    assert [event.change.HasField("previous") for event in events[0]] == [False] * 3
    assert [event.change.HasField("previous") for event in events[1]] == [True] * 3


def test_changes_of_disabled_topics_are_left_out_only_for_watchers_that_leave_them_out() -> None:
    batches, disabled_topics = watching(4), disabled_of(B.topic)
    assert shown(change_pieces(NAME, batches[0], wire, None, with_before=False)) == ["a", "b", "c"]
    assert shown(change_pieces(NAME, batches[1], wire, disabled_topics, with_before=False)) == ["a", "c"]
    disabled_topics._property_of[C.topic] = True
    disabled_topics.switched.append(C.topic)
    assert shown(change_pieces(NAME, batches[2], wire, disabled_topics, with_before=False)) == ["a"]
    assert shown(change_pieces(NAME, batches[3], wire, disabled_of(), with_before=False)) == ["a", "b", "c"]


@given(
    st.lists(st.sampled_from([0, 1, 100, PIECE_BYTES // 3, PIECE_BYTES // 2, PIECE_BYTES - 1, PIECE_BYTES, 2 * PIECE_BYTES]), max_size=12)
)
def test_records_are_joined_in_order_to_pieces_of_bounded_size(sizes: list[int]) -> None:
    records = [bytes([number]) * size for number, size in enumerate(sizes)]
    pieces = joined(records)
    assert b"".join(pieces) == b"".join(records)
    assert all(len(piece) <= PIECE_BYTES or piece in records for piece in pieces)
    assert all(len(one) + len(next_) > PIECE_BYTES for one, next_ in itertools.pairwise(pieces))
