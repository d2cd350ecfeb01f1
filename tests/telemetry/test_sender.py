"""What is sent to a collector, and what is kept or dropped while the collector is down."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Iterator

import pytest

from tests.telemetry.collector import Collector, texts, wait_until
from topicpolicies_server.core.traces import StageTimes
from topicpolicies_server.histograms import Histogram
from topicpolicies_server.ops.metrics import counters, durations, gauge
from topicpolicies_server.telemetry import collector as collecting
from topicpolicies_server.telemetry import sender as sending
from topicpolicies_server.telemetry.collector import headers_of
from topicpolicies_server.telemetry.sender import Sender
from topicpolicies_server.telemetry.spans import CHANGE, CallSpan, Ended

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


def ended(number: int = 0, name: str = "GetPolicy") -> Ended:
    now = time.perf_counter()
    return Ended(CallSpan(TRACE, PARENT, "a=1"), name, now - 0.5, now, topic=f"topic-{number}")


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as running:
        yield running


def sender(endpoint: str) -> Sender:
    return Sender(endpoint, lambda: (), {"service.name": "tested"}, gather_seconds=0.01, metrics_seconds=0.05)


def unused_endpoint() -> str:
    """Returns an endpoint on which no process listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{listener.getsockname()[1]}"


def test_a_change_is_sent_as_a_span_with_a_child_span_for_each_stage(collector: Collector) -> None:
    now = time.perf_counter()
    span = CallSpan(TRACE, PARENT, "a=1")
    times = StageTimes(now, span)
    times.sent, times.acknowledged, times.folded = now + 0.2, now + 0.3, now + 0.4
    change = Ended(
        span, "UpdatePolicy", now, now + 0.5, topic="t", outcome="APPLIED", request_id="r", handed_on=now + 0.1, stage_times=times
    )
    sent = sender(collector.endpoint)
    sent.ended(change)
    wait_until(lambda: len(collector.spans) == 5)
    sent.close()
    call, *stages = collector.spans
    assert (call.trace_id.hex(), call.parent_span_id.hex(), call.span_id.hex(), call.trace_state) == (TRACE, PARENT, span.span_id, "a=1")
    assert [each.name for each in stages] == ["waiting", "sequencing", "log", "readback"]
    assert {each.parent_span_id for each in stages} == {call.span_id}
    assert len({each.span_id for each in collector.spans}) == 5
    assert [round((each.end_time_unix_nano - each.start_time_unix_nano) / 1e8) for each in stages] == [1, 1, 1, 1]
    assert abs(call.start_time_unix_nano / 1e9 - time.time()) < 60
    assert texts(call.attributes)["topicpolicies.topic"] == "t" and collector.about == {"service.name": "tested"}


def test_a_change_of_a_stream_is_a_child_of_its_call_and_the_parent_of_its_stages(collector: Collector) -> None:
    now = time.perf_counter()
    span = CallSpan("", "", "")
    times = StageTimes(now, span)
    times.sent = times.folded = now
    sent = sender(collector.endpoint)
    sent.ended(Ended(span, CHANGE, now, now, "ABORTED", "VERSION_MISMATCH", handed_on=now, stage_times=times))
    wait_until(lambda: len(collector.spans) == 4)
    sent.close()
    change, *stages = collector.spans
    assert change.parent_span_id.hex() == span.span_id != change.span_id.hex()
    assert [each.name for each in stages] == ["sequencing", "log", "readback"]
    assert {each.parent_span_id for each in stages} == {change.span_id}
    assert (change.status.code, change.status.message) == (2, "VERSION_MISMATCH")


def test_metrics_are_sent_with_the_values_of_their_families(collector: Collector) -> None:
    histogram = Histogram((0.1, 1.0))
    for seconds in (0.05, 0.5, 0.6, 7.0):
        histogram.count(seconds)
    families = [
        counters("updates", "What.", "outcome", {"APPLIED": 7.0}),
        gauge("ready", "Whether.", 1),
        durations("call_seconds", "How long.", "method", {"GetPolicy": histogram}),
    ]
    sent = Sender(collector.endpoint, lambda: families, {}, gather_seconds=0.01, metrics_seconds=0.05)
    wait_until(lambda: len(collector.metrics) == 3)
    sent.close()
    (count,) = collector.metrics["topicpolicies_updates"].sum.data_points
    assert collector.metrics["topicpolicies_updates"].sum.is_monotonic
    assert (count.as_double, texts(count.attributes)) == (7.0, {"outcome": "APPLIED"})
    assert 0 < count.start_time_unix_nano <= count.time_unix_nano
    (ready,) = collector.metrics["topicpolicies_ready"].gauge.data_points
    assert ready.as_double == 1.0
    (point,) = collector.metrics["topicpolicies_call_seconds"].histogram.data_points
    assert (list(point.explicit_bounds), list(point.bucket_counts), point.count) == ([0.1, 1.0], [1, 2, 1], 4)
    assert point.sum == pytest.approx(8.15) and texts(point.attributes) == {"method": "GetPolicy"}


def test_waiting_spans_are_sent_when_the_sender_is_closed(collector: Collector) -> None:
    sent = Sender(collector.endpoint, lambda: (), {}, gather_seconds=60)
    for number in range(sending.TOGETHER + 1):
        sent.ended(ended(number))
    sent.close()
    assert len(collector.spans) == sending.TOGETHER + 1


@pytest.mark.parametrize("how", ["no listener", "refused"])
def test_an_outage_of_the_collector_is_logged_once_and_its_end_once(how: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "topicpolicies_server.telemetry")
    with Collector(status=503) as collector:
        sent = sender(collector.endpoint if how == "refused" else unused_endpoint())
        for number in range(20):
            sent.ended(ended(number))
            time.sleep(0.01)
        wait_until(lambda: sent.lost > 0)
        assert [record.levelname for record in caplog.records] == ["WARNING"]
        collector.status = 200
        sent._endpoint = collector.endpoint
        wait_until(lambda: len(caplog.records) == 2)
        sent.ended(ended())
        wait_until(lambda: bool(collector.spans))
        sent.close()
    assert "are missing" in caplog.text


def test_waiting_spans_are_bounded_and_further_ones_are_dropped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "MOST", 10)
    sent = Sender(unused_endpoint(), lambda: (), {}, gather_seconds=60)
    for number in range(25):
        sent.ended(ended(number))
    assert sent.lost == 15
    sent.close()


def test_headers_are_parsed_as_opentelemetry_specifies(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(collecting.HEADERS_VARIABLE, "Authorization=Bearer%20abc, x-tenant = acme ,nonsense,=empty")
    sent = sender(collector.endpoint)
    wait_until(lambda: collector.requests > 0)
    sent.close()
    assert collector.headers["Authorization"] == "Bearer abc" and collector.headers["x-tenant"] == "acme"
    assert headers_of("") == {}


def test_a_text_that_no_message_can_contain_is_replaced_and_shortened_and_its_span_is_sent(collector: Collector) -> None:
    sent = sender(collector.endpoint)
    sent.ended(ended()._replace(topic="\ud800" * 1_000))
    wait_until(lambda: len(collector.spans) == 1)
    sent.close()
    assert len(texts(collector.spans[0].attributes)["topicpolicies.topic"]) <= 300
