"""Calls whose deadlines are near end with the reason why they have no answer, while the caller can still receive it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import grpc
import pytest

from tests.stubs import AsyncStub, async_stub
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies.v1.service_pb2 import GetEffectivePolicyRequest, GetPolicyRequest, ListPoliciesRequest, UpdatePolicyRequest
from topicpolicies_server.config import EmbeddedLogConfig, Limits, ServerConfig, parse_address
from topicpolicies_server.core.chains.request import Request, Result
from topicpolicies_server.core.errors import PolicyError
from topicpolicies_server.core.reasons import LogState
from topicpolicies_server.logs.change_log import LogError
from topicpolicies_server.logs.sqlite.log import SqliteLog, SqliteNamespaceLog
from topicpolicies_server.namespaces.updates import Updates
from topicpolicies_server.rpc.changes import end_changes
from topicpolicies_server.rpc.server import Server

from .conftest import TOPIC, refused

UPDATE = UpdatePolicyRequest(topic=TOPIC, policies=TopicPolicies(max_producer_per_topic=1))


@contextmanager
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Makes the log accept events without acknowledging them."""
    with monkeypatch.context() as patched:
        patched.setattr(SqliteNamespaceLog, "append", lambda self, event: None)
        yield


@contextmanager
def slow_to_open(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Makes the opening of a namespace's log hang."""

    async def never(self: SqliteLog, *_: object) -> SqliteNamespaceLog:
        await asyncio.Event().wait()
        raise AssertionError

    with monkeypatch.context() as patched:
        patched.setattr(SqliteLog, "open", never)
        yield


async def test_an_unacknowledged_change_ends_with_outcome_unknown_before_its_callers_deadline(
    stub: AsyncStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stub.UpdatePolicy(UPDATE)
    with silent(monkeypatch):
        refusal = await refused(
            stub.UpdatePolicy(UpdatePolicyRequest(topic=TOPIC, policies=TopicPolicies(max_producer_per_topic=2)), timeout=2.0)
        )
    assert (refusal.code, refusal.info.reason) == (grpc.StatusCode.DEADLINE_EXCEEDED, "OUTCOME_UNKNOWN")
    assert refusal.info.metadata["request_id"]


@pytest.mark.parametrize("ends", ["deadline", "stop"])
async def test_a_change_that_has_its_answer_gets_it_whatever_ends_the_call_just_then(
    server: Server, stub: AsyncStub, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    await stub.UpdatePolicy(UPDATE)
    settle, ended = Updates._settle, []

    def settle_and_end(self: Updates, request: Request, answer: Result | PolicyError) -> None:
        settle(self, request, answer)
        for call in server.calls:
            if call.request is request:
                server.calls.on_deadline(call) if ends == "deadline" else end_changes(server.calls)
                ended.append(call)

    monkeypatch.setattr(Updates, "_settle", settle_and_end)
    change = UpdatePolicyRequest(topic=TOPIC, policies=TopicPolicies(max_producer_per_topic=2))
    assert (await stub.UpdatePolicy(change, timeout=20)).document.policies.max_producer_per_topic == 2
    assert ended


async def test_a_change_that_waits_for_its_namespace_ends_with_not_appended(stub: AsyncStub, monkeypatch: pytest.MonkeyPatch) -> None:
    with slow_to_open(monkeypatch):
        refusal = await refused(stub.UpdatePolicy(UPDATE, timeout=2.0))
    assert (refusal.code, refusal.info.reason) == (grpc.StatusCode.UNAVAILABLE, "NOT_APPENDED")
    assert "because its namespace has not been read yet" in refusal.message


@pytest.mark.parametrize("named", ["persistent", "short", "list"])
async def test_a_read_that_waits_for_its_namespace_ends_with_timeout(stub: AsyncStub, monkeypatch: pytest.MonkeyPatch, named: str) -> None:
    with slow_to_open(monkeypatch):
        if named == "list":
            refusal = await refused(stub.ListPolicies(ListPoliciesRequest(namespace="public/default"), timeout=2.0))
        else:
            topic = TOPIC if named == "persistent" else TOPIC.partition("://")[2]
            refusal = await refused(stub.GetPolicy(GetPolicyRequest(topic=topic), timeout=2.0))
    assert (refusal.code, refusal.info.reason) == (grpc.StatusCode.DEADLINE_EXCEEDED, "TIMEOUT")
    assert "public/default has not been read yet" in refusal.message


@pytest.fixture
async def levels_server(tmp_path: Path) -> AsyncIterator[Server]:
    """Yields a server that knows the settings of the namespace and of the brokers."""
    levels = tmp_path / "cluster.toml"
    levels.write_text('cluster = "us"\n[clusters]\nus = []\n[tenants]\npublic = ["us"]\n[namespaces."public/default"]\n[broker]\n')
    log, limits = EmbeddedLogConfig(path=None, cluster_file=levels), replace(Limits(), update_timeout_seconds=60.0)
    config = ServerConfig(log=log, listen=parse_address("127.0.0.1:0"), limits=limits)
    async with Server(config) as running:
        yield running


@pytest.mark.parametrize("scope", ["local", "global"])
async def test_effective_policies_as_of_a_version_that_is_not_reached_end_with_version_not_reached(
    levels_server: Server, scope: str
) -> None:
    far = "f" * 30
    async with grpc.aio.insecure_channel(levels_server.address) as channel:
        stub = async_stub(channel)
        await stub.UpdatePolicy(UPDATE)
        question = GetEffectivePolicyRequest(topic=TOPIC)
        setattr(question, f"at_least_{scope}_version", far)
        asking = asyncio.ensure_future(refused(stub.GetEffectivePolicy(question, timeout=60)))
        for _ in range(400):
            if any(call.at_least == far for call in levels_server.calls._calls):
                break
            await asyncio.sleep(0.01)
        for call in list(levels_server.calls._calls):
            levels_server.calls.on_deadline(call)  # as if its deadline were near
        refusal = await asking
    assert (refusal.code, refusal.info.reason) == (grpc.StatusCode.DEADLINE_EXCEEDED, "VERSION_NOT_REACHED")
    assert refusal.info.metadata["at_least_version"] == far


async def test_calls_that_wait_for_the_log_get_its_last_error_although_the_patience_is_not_over(
    server: Server, stub: AsyncStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    with slow_to_open(monkeypatch):
        server.readiness.failed(LogError(LogState.UNREACHABLE, "No broker can be reached."), 0.0, 0.0)
        for call in (stub.UpdatePolicy(UPDATE, timeout=1.0), stub.GetPolicy(GetPolicyRequest(topic=TOPIC), timeout=1.0)):
            refusal = await refused(call)
            assert refusal.info.reason == "LOG_UNAVAILABLE"
            assert "within the time of this call: No broker can be reached. Nothing was done" in refusal.message
