"""The metrics of calls."""

from __future__ import annotations

import asyncio
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies.v1.service_pb2 import GetPolicyRequest, GetServerInfoRequest, UpdatePolicyRequest, WatchPoliciesRequest
from topicpolicies_server.access import Caller
from topicpolicies_server.core.errors import Kind, PolicyError
from topicpolicies_server.core.reasons import Reason

from .scraping import PATIENCE, TOPIC, showing

CHECK = "grpc.health.v1.Health/Check"


def update(value: int) -> UpdatePolicyRequest:
    request = UpdatePolicyRequest(topic=TOPIC, policies=TopicPolicies(max_producer_per_topic=value))
    request.update_mask.paths.append("max_producer_per_topic")
    return request


async def test_each_call_is_counted_by_its_method_status_reason_and_duration(tmp_path: Path) -> None:
    async with showing(tmp_path) as shown:
        for value in (1, 2):
            await shown.stub.UpdatePolicy(update(value))
        with pytest.raises(grpc.aio.AioRpcError):
            await shown.stub.GetPolicy(GetPolicyRequest(topic="nonsense//"))
        scrape = await shown.until("topicpolicies_calls_total", 1, method="GetPolicy")
        assert scrape.value("topicpolicies_calls_total", method="UpdatePolicy", code="OK", reason="") == 2
        calls = [each for each in scrape.labels("topicpolicies_calls_total") if each["method"] == "GetPolicy"]
        refused = [each for each in calls if scrape.value("topicpolicies_calls_total", **each)]
        assert refused == [{"method": "GetPolicy", "code": "INVALID_ARGUMENT", "reason": "INVALID_REQUEST"}]
        assert scrape.value("topicpolicies_call_seconds_count", method="UpdatePolicy") == 2
        assert scrape.value("topicpolicies_call_seconds_bucket", method="UpdatePolicy", le="+Inf") == 2
        assert 0 < scrape.value("topicpolicies_call_seconds_sum", method="UpdatePolicy") < 2 * PATIENCE
        assert scrape.value("topicpolicies_calls_in_progress") == 0


async def test_calls_in_progress_are_shown_and_a_call_whose_caller_disconnects_is_counted_as_cancelled(tmp_path: Path) -> None:
    async with showing(tmp_path) as shown:
        watch = shown.stub.WatchPolicies(WatchPoliciesRequest(topics=[TOPIC]))
        await watch.read()
        scrape = await shown.scrape()
        assert scrape.value("topicpolicies_calls_in_progress", method="WatchPolicies") == 1
        assert scrape.value("topicpolicies_watches") == 1
        assert scrape.value("topicpolicies_calls_total", method="WatchPolicies") == 0
        watch.cancel()
        scrape = await shown.until("topicpolicies_calls_total", 1, method="WatchPolicies", code="CANCELLED")
        assert scrape.value("topicpolicies_calls_in_progress", method="WatchPolicies") == 0


async def test_calls_of_callers_that_are_refused_are_counted(tmp_path: Path) -> None:
    async with showing(tmp_path) as shown:
        shown.server.calls.identify = _shut
        with pytest.raises(grpc.aio.AioRpcError):
            await shown.stub.GetServerInfo(GetServerInfoRequest())
        scrape = await shown.until("topicpolicies_calls_total", 1, method="GetServerInfo")
        assert scrape.value("topicpolicies_calls_total", code="PERMISSION_DENIED", reason="READ_ONLY") == 1


async def _shut(_: object) -> Caller:
    raise PolicyError(Kind.PERMISSION_DENIED, Reason.READ_ONLY, "Nobody may call.")


async def test_refusals_of_the_health_service_are_counted_with_their_status(tmp_path: Path) -> None:
    async with showing(tmp_path) as shown, grpc.aio.insecure_channel(shown.server.address) as channel:
        with pytest.raises(grpc.aio.AioRpcError):
            await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(service="no.such"))
        await shown.until("topicpolicies_calls_total", 1, method=CHECK, code="NOT_FOUND")


async def test_unexpected_failures_are_counted_as_internal_for_single_answers_and_streams(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with showing(tmp_path) as shown:

        async def broken(_: object) -> Caller:
            raise ValueError("a token")

        shown.server.calls.identify = broken
        calls = (lambda: shown.stub.GetServerInfo(GetServerInfoRequest()), lambda: shown.stub.WatchPolicies(WatchPoliciesRequest()).read())
        for call in calls:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call()
            assert caught.value.code() is grpc.StatusCode.INTERNAL and "a token" not in str(caught.value.details())
        for method in ("GetServerInfo", "WatchPolicies"):
            await shown.until("topicpolicies_calls_total", 1, method=method, code="INTERNAL", reason="INTERNAL")
    assert sum("ValueError" in record.getMessage() for record in caplog.records) == 2


async def test_a_call_whose_peer_is_gone_when_it_is_written_to_is_counted_as_cancelled(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with showing(tmp_path) as shown:

        async def gone(_: object) -> Caller:
            raise grpc.aio.InternalError("as gRPC tells of what it could not write")

        shown.server.calls.identify = gone
        with pytest.raises(grpc.aio.AioRpcError):
            await shown.stub.GetServerInfo(GetServerInfoRequest(), timeout=2)  # gRPC itself would cancel the call of such a peer
        await shown.until("topicpolicies_calls_total", 1, method="GetServerInfo", code="CANCELLED")
    assert not [record for record in caplog.records if record.name.startswith("topicpolicies_server.rpc.errors")]


async def test_the_stages_of_changes_take_no_longer_than_their_calls(tmp_path: Path) -> None:
    async with showing(tmp_path) as shown:
        await asyncio.gather(*(shown.stub.UpdatePolicy(update(value)) for value in range(1, 21)))
        scrape = await shown.until("topicpolicies_calls_total", 20, method="UpdatePolicy", code="OK")
        written = scrape.value("topicpolicies_updates_total", outcome="APPLIED")
        assert written == 20
        for stage in ("waiting", "sequencing", "log"):
            assert scrape.value("topicpolicies_stage_seconds_count", stage=stage) == written, stage
        stages = scrape.value("topicpolicies_stage_seconds_sum")
        assert 0 < stages <= scrape.value("topicpolicies_call_seconds_sum", method="UpdatePolicy")
