"""A view restored from a copy of another one equals it: all keys, in the order of their changes and of their names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.test_cell import seen_in
from tests.core.views import heads_of
from topicpolicies_server.core.fold.fold import FoldContext
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.policies.events import Action, Event, Placed, Stamp, StampKind
from topicpolicies_server.core.reading import view as viewing
from topicpolicies_server.core.reading.view import CellsInUse, Copy, View

CONTEXT = FoldContext(sole_writer=True, complete=("",))
BOTH = frozenset(Scope)


def changed(changes: Sequence[tuple[int, bool, bool]], view: View, after: int = 0) -> View:
    """Returns a view after further changes: the number of a topic, whether its scope is GLOBAL, and whether it is deleted."""
    for at, (topic, everywhere, deleted) in enumerate(changes, 1 + after):
        key = PolicyKey(f"persistent://acme/orders/topic-{topic}", Scope.GLOBAL if everywhere else Scope.LOCAL)
        document = None if deleted else {"max_producer_per_topic": bytes((at % 100,))}
        stamp = Stamp(f"{at:032x}", StampKind.UPDATE, f"request-{at}", "d", mask=("max_producer_per_topic",))
        action = Action.DELETE if deleted else Action.UPDATE
        view.fold(Placed(0, f"1{at:x}" if at < 16 else f"2{at:02x}" if at < 256 else f"3{at:03x}", Event(key, action, document, stamp), at))
    return view


def restored(view: View) -> View:
    """Returns another view, restored from a copy of this one."""
    other = View(CONTEXT)
    other.restore(view.copy())
    return other


def all_of(view: View) -> object:
    page, more = view.page(BOTH, None, 10_000)
    return [
        [seen_in(head) for head in heads_of(view)],
        [head.key for head in page],
        more,
        view.head_count,
        view.document_bytes,
        list(view._absent),
        view.number,
        view.copy().requests,
    ]


Changes: TypeAlias = list[tuple[int, bool, bool]]
CHANGES = st.lists(st.tuples(st.integers(0, 12), st.booleans(), st.booleans()), max_size=60)


def content(copy: Copy) -> object:
    """Returns what a copy has, in whatever order."""
    return dict(zip(copy.names, copy.cells, strict=True)), copy[2:]


@settings(max_examples=50, deadline=None)
@given(CHANGES, CHANGES, st.sampled_from([0, 4, 256]), st.integers(0, 3))
def test_a_restored_view_has_the_same_keys_in_the_same_orders_and_goes_on_as_the_view(
    changes: Changes, more: Changes, most: int, run: int
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(viewing, "_RUN", 16 << run)
        view = changed(changes, View(CONTEXT, in_use=CellsInUse(most)))
        other = restored(view)
        assert all_of(other) == all_of(view)
        assert content(other.copy()) == content(view.copy()) == content(restored(other).copy())
        assert all_of(changed(more, other, len(changes))) == all_of(changed(more, view, len(changes)))


def test_a_copy_does_not_change_with_its_view() -> None:
    view = changed([(1, False, False), (2, False, False)], View(CONTEXT))
    copy, before = view.copy(), all_of(view)
    changed([(1, False, True), (3, False, False)], view, 2)
    other = View(CONTEXT)
    other.restore(copy)
    assert all_of(other) == before
