"""The model of the service behaves as the tests of watches assume."""

from __future__ import annotations

from tests.client.log_model import LogModel
from topicpolicies.v1 import service_pb2

A, B = "public/a", "public/b"


def test_the_stream_yields_rows_written_during_the_events_of_another_namespace_before_none() -> None:
    model = LogModel(A, B)
    stream = model.stream(service_pb2.WatchPoliciesRequest(namespaces=[A, B]))
    while next(stream) is not None:
        pass
    model.write(B, "t", 1)
    first = next(stream)
    model.write(A, "t", 2)
    later = [next(stream), next(stream)]
    assert [each and each.events[0].namespace for each in (first, *later)] == [B, A, None]
