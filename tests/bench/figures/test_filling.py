"""Logs that are filled for a measurement have the documents and the requests that are to be measured."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from bench.embedded_log import Waiting
from bench.figures import filling
from topicpolicies_server.core.fold.fold import FoldContext, fold, repair_due
from topicpolicies_server.core.fold.keystate import KeyState
from topicpolicies_server.core.policies.documents import join
from topicpolicies_server.core.policies.events import Placed
from topicpolicies_server.logs.sqlite import SqliteLog


class _Reading(Waiting):
    def __init__(self) -> None:
        super().__init__()
        self.placed: list[Placed] = []

    def read(self, events: Sequence[Placed]) -> None:
        self.placed += events


async def _read(path: Path) -> list[Placed]:
    change_log = SqliteLog(path)
    sink = _Reading()
    await change_log.open(filling.NAMESPACE, sink)
    await sink.ready.wait()
    await change_log.close()
    return sink.placed


def test_a_filled_log_has_a_document_of_each_topic_that_carries_its_remembered_requests(tmp_path: Path) -> None:
    path = tmp_path / "policies.db"
    filling.fill(path, filling.documents(600, remembered=16), 600)
    assert filling.rows_read(path)[0] == 600
    events = [placed.event for placed in asyncio.run(_read(path))]
    assert len(events) == 600
    for number, event in enumerate(events):
        assert event is not None and event.stamp is not None and event.document is not None
        assert event.key.topic == filling.topic(number)
        assert join(event.document) == filling.policies(number)
        assert len({request.request_id for request in event.stamp.remembered}) == 16
    requests = {request.request_id for event in events if event and event.stamp for request in event.stamp.remembered}
    assert len(requests) == 600 * 16, "no two topics have a request in common"


@pytest.mark.parametrize("remembered", [0, 16])
def test_no_event_of_a_filled_log_makes_a_repair_due(tmp_path: Path, remembered: int) -> None:
    path = tmp_path / "policies.db"
    filling.fill(path, filling.documents(50, remembered), 50)
    for placed in asyncio.run(_read(path)):
        state = KeyState()
        fold(state, placed, FoldContext(joining=True, sole_writer=True))
        assert not repair_due(state)
        assert len(state.remembered) == min(remembered + 1, 16)
