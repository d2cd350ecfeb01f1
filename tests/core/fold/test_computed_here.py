"""Events that this process computed itself: the short way to fold them has the same result as the general one."""

from __future__ import annotations

import itertools
from collections import deque
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.chains import KEY, LOST, OTHER
from tests.core.policies import masks, policies
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies.v1.service_pb2 import ListOperation
from topicpolicies_server.core.chains.sequencer import Append, Effect, Request, Sequencer, Settled
from topicpolicies_server.core.changes.change import Change, compile_change
from topicpolicies_server.core.errors import PolicyError
from topicpolicies_server.core.fold import fold as folding
from topicpolicies_server.core.fold.fold import FoldContext, Folded, KeyState, fold
from topicpolicies_server.core.fold.operation import judge
from topicpolicies_server.core.names import PolicyKey
from topicpolicies_server.core.policies.events import ABSENT, Event, Placed, Stamp

ALONE = FoldContext(sole_writer=True)
LISTS = {"replication_clusters": ListOperation.LIST_OPERATION_UNION, "subscription_types_enabled": ListOperation.LIST_OPERATION_SUBTRACT}


def simple(value: int, field: str) -> Change:
    return compile_change(TopicPolicies(**{field: value}), [field], {})  # type: ignore[arg-type]


def of_lists(source: TopicPolicies) -> Change | None:
    given_ = {name: number for name, number in LISTS.items() if getattr(source, name)}
    return compiled(source, sorted(given_), given_) if given_ else None


def compiled(source: TopicPolicies, paths: list[str], operations: dict[str, Any] | None = None) -> Change | None:
    try:
        return compile_change(source, paths, operations or {})
    except PolicyError:
        return None


CHANGES = st.one_of(
    st.builds(simple, st.integers(0, 3), st.sampled_from(["max_producer_per_topic", "message_ttl_in_seconds"])),
    st.builds(compiled, policies(complete=False, extras=True), masks()),
    st.builds(of_lists, policies()),
    st.just(compile_change(TopicPolicies(max_consumer_per_topic=1), ["*"], {})),
    st.none(),
)
"""None: a deletion."""
CONDITIONS = st.fixed_dictionaries(
    {},
    optional={
        "version": st.just("now"),
        "exists": st.sampled_from([True, False]),
        "skip_if_absent": st.just(True),
        "request_id": st.sampled_from(["again", "anew"]),
    },
)
SUBMIT = st.tuples(st.just("submit"), st.sampled_from([KEY, KEY, OTHER]), CHANGES, CONDITIONS)
LAND = st.tuples(st.sampled_from(["land", "land", "land twice", "land late", "refuse", "vanish"]))
STEPS = st.lists(st.one_of(SUBMIT, SUBMIT, LAND), min_size=4, max_size=40)


class Twice:
    """A sequencer over states that are folded both ways and compared."""

    def __init__(self) -> None:
        self.quick: dict[PolicyKey, KeyState] = {}
        self.full: dict[PolicyKey, KeyState] = {}
        self.wanted: deque[Event] = deque()
        self.late: list[Event] = []
        """Events that the log has not acknowledged but may contain."""
        ids, self._requests = itertools.count(), itertools.count()
        self._places = itertools.count(1)
        self.sequencer = Sequencer(self.quick.get, lambda: f"event-{next(ids)}")

    def do(self, what: str, *wish: Any) -> None:
        if what == "submit":
            key, change, conditions = wish
            number = next(self._requests)
            request_id = conditions.get("request_id", f"request-{number}")
            rest = {name: value for name, value in conditions.items() if name != "request_id"}
            if "version" in rest:
                rest["version"] = self.quick[key].version if key in self.quick else ABSENT
            self.perform(self.sequencer.submit(Request(key, change, request_id, "digest", **rest)))
        elif what == "land late" and self.late:
            self.land(self.late.pop(0))
        elif self.wanted:
            event = self.wanted.popleft()
            if what == "refuse":
                self.perform(self.sequencer.failed(event, LOST, False))
            elif what == "vanish":
                self.late.append(event)
                self.perform(self.sequencer.failed(event, LOST, True))
            else:
                self.land(event)
                if what == "land twice":
                    self.land(event)

    def perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Append):
                self.wanted.append(effect.event)
            else:
                assert isinstance(effect, Settled)

    def land(self, event: Event) -> None:
        placed = Placed(0, f"{next(self._places):04d}", event, 0)
        quick, full = self.quick.setdefault(event.key, KeyState()), self.full.setdefault(event.key, KeyState())
        before = quick.document
        folded = fold(quick, placed, ALONE, self.sequencer.computed_on(event))
        assert folded == fold(full, placed, ALONE)
        assert fields_of(quick) == fields_of(full)
        self.perform(self.sequencer.folded(event, folded, before))


def fields_of(state: KeyState) -> dict[str, Any]:
    """Returns all fields of a state."""
    return {name: getattr(state, name) for name in KeyState.__slots__}


@given(STEPS)
@settings(deadline=None)
def test_an_event_has_the_same_result_both_ways(steps: list[tuple[Any, ...]]) -> None:
    twice = Twice()
    for step in steps:
        twice.do(*step)
    while twice.wanted or twice.late:
        twice.do("land" if twice.wanted else "land late")


def test_most_events_are_folded_the_short_way(monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[Event] = []

    def judging(state: KeyState, placed: Placed, event: Event, stamp: Stamp) -> Folded:
        judged.append(event)
        return judge(state, placed, event, stamp)

    monkeypatch.setattr(folding, "judge", judging)
    twice = Twice()
    for number in range(100):
        twice.do("submit", KEY, simple(number, "max_producer_per_topic"), {})
    while twice.wanted:
        twice.do("land")
    assert len(judged) == 100 + 1, "all of them once for the comparison, and the first, which finds no document"
