"""Batches are taken apart without being parsed: what the load generators count is what there is."""

from __future__ import annotations

import pytest

from bench.harness.watching import events_of
from bench.streaming import batches, records_in
from topicpolicies.v1 import service_pb2


@pytest.mark.parametrize("sizes", [(), (0,), (1, 127), (128, 0, 16_383), (16_384, 2_097_152, 5)])
def test_a_batch_of_events_is_taken_apart_as_it_was_put_together(sizes: tuple[int, ...]) -> None:
    response = service_pb2.WatchPoliciesResponse(events=[service_pb2.WatchEvent(namespace="n" * size) for size in sizes])
    message = response.SerializeToString()
    assert records_in(message) == len(sizes)
    assert [service_pb2.WatchEvent.FromString(event) for event in events_of(message)] == list(response.events)


@pytest.mark.parametrize("size", [1, 64])
def test_prepared_updates_are_of_all_topics_in_turn_and_no_two_are_alike(size: int) -> None:
    source = batches("acme/orders", 3, size)
    messages = [service_pb2.UpdatePoliciesRequest.FromString(next(source)) for _ in range(4)]
    assert [len(message.changes) for message in messages] == [size] * 4
    changes = [change for message in messages for change in message.changes]
    assert [change.sequence for change in changes] == list(range(4 * size))
    assert [change.update.topic[-1] for change in changes[:4]] == ["0", "1", "2", "0"]
    assert len({change.update.request_id for change in changes}) == 4 * size
