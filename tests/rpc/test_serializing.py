"""The serialized changes of a batch: watchers share the bytes if they take the same changes and need the same form of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from tests.core.test_view import A, B, C
from tests.core.test_watch import Bench, drained
from topicpolicies.v1.policies_pb2 import PolicyDocument
from topicpolicies.v1.service_pb2 import PolicyChange, WatchPoliciesResponse
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.policies.documents import wire
from topicpolicies_server.core.reading.cell import Before
from topicpolicies_server.core.reading.tokens import Token
from topicpolicies_server.core.reading.watch import Taken, Watcher
from topicpolicies_server.rpc import resume_tokens
from topicpolicies_server.rpc.watching.events import PIECE_BYTES, Piece, change_of, change_pieces, change_record

NAME = "acme/orders"


NONE: frozenset[str] = frozenset()


def taken(watchers: list[Watcher]) -> list[Taken]:
    return [watcher.take(100) for watcher in watchers]


def whole(pieces: Iterable[Piece]) -> bytes:
    return b"".join(piece.bytes(None) for piece in pieces)


def shown(pieces: Iterable[Piece]) -> list[str]:
    return [event.change.document.topic[-1] for event in WatchPoliciesResponse.FromString(whole(pieces)).events]


def watching(count: int) -> list[Taken]:
    """Returns the batches of three changes that so many identical watchers take."""
    bench = Bench()
    watchers = [bench.watch() for _ in range(count)]
    for watcher in watchers:
        drained(watcher)
    bench.change(A, B, C)
    return taken(watchers)


def test_watchers_that_take_the_same_changes_share_the_bytes_which_are_those_of_each_change() -> None:
    first, second = watching(2)
    pieces = change_pieces(NAME, first, wire, NONE, with_before=False)
    assert change_pieces(NAME, second, wire, NONE, with_before=False) is pieces
    assert whole(pieces) == b"".join(change_record(NAME, change, wire, with_before=False) for change in first.heads)


def test_previous_documents_are_serialized_only_for_watchers_that_ask_for_them() -> None:
    first, second = watching(2)
    for change in first.heads:
        change.before = Before({})
    without, with_before = (change_pieces(NAME, batch, wire, NONE, with_before=asks) for batch, asks in ((first, False), (second, True)))
    events = [WatchPoliciesResponse.FromString(whole(each)).events for each in (without, with_before)]
    assert [event.change.HasField("previous") for event in events[0]] == [False] * 3
    assert [event.change.HasField("previous") for event in events[1]] == [True] * 3


def test_changes_of_disabled_topics_are_left_out_only_for_watchers_that_leave_them_out() -> None:
    batches, disabled = watching(3), frozenset({B.topic})
    assert shown(change_pieces(NAME, batches[0], wire, NONE, with_before=False)) == ["a", "b", "c"]
    assert shown(change_pieces(NAME, batches[1], wire, disabled, with_before=False)) == ["a", "c"]
    assert shown(change_pieces(NAME, batches[2], wire, disabled | {C.topic}, with_before=False)) == ["a"]


@given(
    st.lists(st.sampled_from([1, 100, PIECE_BYTES // 3, PIECE_BYTES // 2, PIECE_BYTES, 2 * PIECE_BYTES]), max_size=12),
    st.sets(st.integers(0, 11)),
)
def test_records_are_joined_in_order_to_pieces_of_bounded_size_whose_last_records_have_a_token(
    sizes: list[int], disabled: set[int]
) -> None:
    changes = [Change(f"{number}", size) for number, size in enumerate(sizes)]
    batch = Taken(cast("Any", changes), False, False, {})
    pieces = change_pieces(NAME, batch, wire, frozenset(map(str, disabled)), with_before=False)
    records = [change.encoded for number, change in enumerate(changes) if number not in disabled]
    assert whole(pieces) == b"".join(records)
    assert all(len(piece.before + piece.last) <= PIECE_BYTES or not piece.before for piece in pieces)
    assert all(
        len(one.before + one.last) + len(two.before + two.last) > PIECE_BYTES or two.before for one, two in itertools.pairwise(pieces)
    )
    told: list[int] = []
    for piece in pieces:
        events = WatchPoliciesResponse.FromString(piece.bytes(TOKEN)).events
        assert [bool(event.resume_token) for event in events] == [*[False] * (len(events) - 1), True]
        assert resume_tokens.read(events[-1].resume_token) == TOKEN
        told += [int(event.change.document.topic) for event in events]
        assert told == [number for number in range(piece.upto) if number not in disabled], "the piece does not say how far it goes"


TOKEN = Token("log", ("1", ""))


class Change:
    """A change whose record has about so many bytes."""

    def __init__(self, topic: str, size: int) -> None:
        self.key, self.before, self.with_before, self.document = PolicyKey(topic, Scope.LOCAL), None, None, None
        document = PolicyDocument(topic=topic, version="1" * size)
        self.encoded = change_of(NAME, PolicyChange(document=document).SerializeToString())
