"""The service in miniature keeps what tests of watches rest on."""

from __future__ import annotations

from tests.client.log_model import LogModel
from topicpolicies.v1 import service_pb2

A, B = "public/a", "public/b"


def test_what_is_written_while_another_namespace_is_told_is_told_before_the_stream_falls_silent() -> None:
    model = LogModel(A, B)
    stream = model.stream(service_pb2.WatchPoliciesRequest(namespaces=[A, B]))
    while next(stream) is not None:
        pass
    model.write(B, "t", 1)
    told = next(stream)
    model.write(A, "t", 2)
    later = [next(stream), next(stream)]
    assert [each and each.events[0].namespace for each in (told, *later)] == [B, A, None]
