"""A view restored from another one's cells equals it: all keys, in the order of their changes and of their names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.test_cell import seen_in
from topicpolicies_server.core.fold.fold import FoldContext
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.policies.events import Action, Event, Placed, Stamp, StampKind
from topicpolicies_server.core.reading import restorable
from topicpolicies_server.core.reading.cells import CellsInUse
from topicpolicies_server.core.reading.restorable import KeyCell, KeyCells
from topicpolicies_server.core.reading.view import View

CONTEXT = FoldContext(sole_writer=True)
BOTH = frozenset(Scope)


def changed(changes: Sequence[tuple[int, bool, bool]], most: int) -> View:
    """Returns a view after some changes: the number of a topic, whether its scope is GLOBAL, and whether it is deleted."""
    view = View(CONTEXT, ("",), in_use=CellsInUse(most))
    for at, (topic, everywhere, deleted) in enumerate(changes, 1):
        key = PolicyKey(f"persistent://acme/orders/topic-{topic}", Scope.GLOBAL if everywhere else Scope.LOCAL)
        document = None if deleted else {"max_producer_per_topic": bytes((at % 100,))}
        stamp = Stamp(f"{at:032x}", StampKind.UPDATE, f"request-{at}", "d", mask=("max_producer_per_topic",))
        action = Action.DELETE if deleted else Action.UPDATE
        view.take(Placed(0, f"1{at:x}" if at < 16 else f"2{at:02x}" if at < 256 else f"3{at:03x}", Event(key, action, document, stamp), at))
    return view


def restored(view: View, a_page: int) -> View:
    """Returns another view, restored from the cells of this one in pages."""
    found = sorted((cell for name in view.names() if (cell := view.key_cell(name)) is not None), key=lambda cell: cell.name)
    other = View(CONTEXT, ("",))
    pages = (KeyCells.of(found[at : at + a_page]) for at in range(0, len(found), a_page))
    other.restore(pages, number=view.number, forgotten=view.forgotten, times=view.times)
    return other


def all_of(view: View) -> object:
    page, more = view.page(BOTH, None, 10_000)
    lately = {partition: list(each._cells.items()) for partition, each in view._cells.recent.items()}
    return [
        [seen_in(head) for head in view.heads()],
        [head.key for head in page],
        more,
        len(view),
        list(view._absent),
        lately,
        view.times,
        view.number,
    ]


Changes: TypeAlias = list[tuple[int, bool, bool]]
CHANGES = st.lists(st.tuples(st.integers(0, 12), st.booleans(), st.booleans()), max_size=60)


@settings(max_examples=80, deadline=None)
@given(CHANGES, st.integers(1, 9), st.sampled_from([0, 4, 256]), st.booleans(), st.integers(0, 3))
def test_a_restored_view_has_the_same_keys_in_the_same_orders(
    changes: list[tuple[int, bool, bool]], a_page: int, most: int, dense: bool, run: int
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(restorable, "_SPARSE", 1_000 if dense else 0)
        patched.setattr(restorable, "_RUN", 16 << run)
        view = changed(changes, most)
        other = restored(view, a_page)
        assert all_of(other) == all_of(view)
        assert all_of(restored(other, a_page + 1)) == all_of(view), "also restored a second time"


def test_keys_whose_heads_have_the_same_number_are_all_restored() -> None:
    view = changed([(topic, False, False) for topic in range(5)], 256)
    kept = [view.key_cell(name) for name in view.names()]
    assert all(kept)
    for cell in kept:
        assert cell is not None and not isinstance(cell.kept, bytes) and cell.kept.head is not None
        cell.kept.head.number = 3
    other = View(CONTEXT, ("",))
    other.restore([KeyCells.of([cell for cell in kept if isinstance(cell, KeyCell)])], number=3, forgotten={}, times={})
    assert len(list(other.heads())) == 5
