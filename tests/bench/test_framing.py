"""Batches are split without being parsed, and load generators count the right number of records."""

from __future__ import annotations

import pytest

from bench.harness.watching import events_of
from bench.streaming import batches, records_in
from topicpolicies.v1 import service_pb2


@pytest.mark.parametrize("sizes", [(), (0,), (1, 127), (128, 0, 16_383), (16_384, 2_097_152, 5)])
def test_a_serialized_batch_is_split_into_its_events(sizes: tuple[int, ...]) -> None:
    response = service_pb2.WatchPoliciesResponse(events=[service_pb2.WatchEvent(namespace="n" * size) for size in sizes])
    message = response.SerializeToString()
    assert records_in(message) == len(sizes)
    assert [service_pb2.WatchEvent.FromString(event) for event in events_of(message)] == list(response.events)


@pytest.mark.parametrize("size", [1, 64])
def test_prepared_updates_take_all_topics_in_turn_and_have_different_request_ids(size: int) -> None:
    source = batches("acme/orders", 3, size)
    messages = [service_pb2.UpdatePoliciesRequest.FromString(next(source)) for _ in range(4)]
    assert [len(message.changes) for message in messages] == [size] * 4
    changes = [change for message in messages for change in message.changes]
    assert [change.sequence for change in changes] == list(range(4 * size))
    assert [change.update.topic[-1] for change in changes[:4]] == ["0", "1", "2", "0"]
    assert len({change.update.request_id for change in changes}) == 4 * size
