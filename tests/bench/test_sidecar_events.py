"""Generated events of measurements are like those of sidecars and brokers that have seen all events: no repair is due."""

from __future__ import annotations

import random

import pytest

from bench.sidecar_events import SETTING, Events
from tests.logs.samples import a_key
from topicpolicies_server.core.fold.fold import FoldContext, fold, repair_due
from topicpolicies_server.core.fold.keystate import KeyState
from topicpolicies_server.core.policies.events import Placed
from topicpolicies_server.logs.pulsar.ids import MessageId, position_of


@pytest.mark.parametrize(("joining", "before"), [(False, 0), (True, 0), (True, 16)])
@pytest.mark.parametrize("kinds", ["sidecar", "broker", "both"])
def test_generated_events_of_sidecars_and_brokers_make_no_repair_due(kinds: str, joining: bool, before: int) -> None:
    chance, events, state, key = random.Random(5), Events(before), KeyState(), a_key("public/default")
    for number in range(60):
        sidecars = kinds == "sidecar" or (kinds == "both" and chance.random() < 0.5)
        event = (events.of_sidecar if sidecars else events.of_broker)(key, number)
        position = position_of(MessageId(7, number))
        folded = fold(state, Placed(0, position, event, 1_000 + 100 * number), FoldContext(joining=joining and number == 0))
        events.acknowledged(event, position)
        assert folded.changed
        assert not repair_due(state)
        assert state.document is not None and list(state.document) == [SETTING]
