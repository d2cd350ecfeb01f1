"""The access log: what it contains, what it does not, and that no call waits for it."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import MethodType, SimpleNamespace
from typing import Any, Literal

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.stubs import AsyncStub, async_stub, batch
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies.v1.service_pb2 import (
    DeletePolicyRequest,
    GetPolicyRequest,
    ListPoliciesRequest,
    Precondition,
    UpdatePolicyRequest,
    WatchPoliciesRequest,
)
from topicpolicies_server.access import Caller, Way
from topicpolicies_server.config import (
    AccessLogConfig,
    EmbeddedLogConfig,
    ServerConfig,
    parse_address,
)
from topicpolicies_server.namespaces.registry import Registry
from topicpolicies_server.rpc.access_log import AccessLog
from topicpolicies_server.rpc.server import Server

from .conftest import TOPIC, refused

PATIENCE = 100.0
SECRET = "wjalrXUtnFEMI"
ID = "3f2c1b9e8a444c559a301d0f6f5d6a01"


class Recording:
    """A server that records its calls in a file."""

    def __init__(self, path: Path, which: Literal["changes", "all", "off"]) -> None:
        self.path = path
        config = AccessLogConfig(which=which, path=path)
        log = EmbeddedLogConfig(path=None)
        self.server = Server(ServerConfig(log=log, listen=parse_address("127.0.0.1:0"), access_log=config))

    @property
    def log(self) -> AccessLog:
        """The record."""
        (ended,) = self.server.calls.observers
        assert isinstance(ended, MethodType) and isinstance(ended.__self__, AccessLog)
        return ended.__self__

    async def lines(self) -> list[dict[str, Any]]:
        """Stops the server, and returns all lines of the record."""
        await self.server.stop()
        return read(self.path)


def read(path: Path) -> list[dict[str, Any]]:
    """Reads the lines of an access log."""
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture(params=["changes"])
async def recording(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Recording]:
    """Yields a running server with an access log."""
    made = Recording(tmp_path / "calls.log", request.param)
    await made.server.start()
    yield made
    await made.server.stop()


@pytest.fixture
async def client(recording: Recording) -> AsyncIterator[AsyncStub]:
    """Yields a stub of its service."""
    async with grpc.aio.insecure_channel(recording.server.address) as channel:
        yield async_stub(channel)


def update(value: int, **rest: Any) -> UpdatePolicyRequest:
    return UpdatePolicyRequest(topic=TOPIC, policies=TopicPolicies(max_producer_per_topic=value), **rest)


async def until(holds: Callable[[], object]) -> None:
    """Waits until this holds, where nothing signals it."""
    async with asyncio.timeout(PATIENCE):
        while not holds():  # noqa: ASYNC110 (nothing signals it)
            await asyncio.sleep(0.02)


def fields(line: dict[str, Any], *names: str) -> tuple[Any, ...]:
    return tuple(line.get(name) for name in names)


async def test_the_line_of_a_change_has_its_caller_method_topic_outcome_duration_and_request_id(
    recording: Recording, client: AsyncStub
) -> None:
    async def identify(_: object) -> Caller:
        return Caller("proxy", Way.TOKEN, "alice")

    recording.server.calls.identify = identify
    await client.UpdatePolicy(update(1, request_id=ID, actor="ceo"))
    await refused(client.UpdatePolicy(update(2, precondition=Precondition(version="0"))))
    await client.DeletePolicy(DeletePolicyRequest(topic=TOPIC, validate_only=True))
    await refused(client.UpdatePolicy(UpdatePolicyRequest(topic="no/such\ntopic\x85/here")))
    await client.GetPolicy(GetPolicyRequest(topic=TOPIC))
    first, second, third, fourth = await recording.lines()
    assert fields(first, "msg", "call", "topic", "scope", "outcome", "request_id") == (
        "call",
        "UpdatePolicy",
        TOPIC,
        "LOCAL",
        "APPLIED",
        ID,
    )
    assert fields(first, "principal", "way", "speaks_for", "actor") == ("proxy", "token", "alice", "ceo")
    assert fields(first, "level", "logger") == ("info", "calls") and 0 <= first["ms"] < 20_000 and first["ts"].endswith("Z")
    assert fields(second, "outcome", "reason", "topic") == ("ABORTED", "PRECONDITION_FAILED", TOPIC)
    assert fields(third, "call", "outcome", "dry_run") == ("DeletePolicy", "WOULD_APPLY", True)
    assert fields(fourth, "outcome", "topic", "request_id") == ("INVALID_ARGUMENT", "no/such\ntopic\x85/here", None)


@pytest.mark.parametrize("recording", ["all"], indirect=True)
async def test_reads_are_recorded_if_the_configuration_says_so(recording: Recording, client: AsyncStub) -> None:
    await client.GetPolicy(GetPolicyRequest(topic=TOPIC))
    await client.ListPolicies(ListPoliciesRequest(namespace="public/default"))
    watch = client.WatchPolicies(WatchPoliciesRequest(namespaces=["public/default"]))
    assert await watch.read()
    watch.cancel()
    await until(lambda: len(recording.server.calls) == 0)
    async with grpc.aio.insecure_channel(recording.server.address) as channel:
        await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
    assert [fields(line, "call", "outcome", "topic", "namespace") for line in await recording.lines()] == [
        ("GetPolicy", "OK", TOPIC, None),
        ("ListPolicies", "OK", None, "public/default"),
        ("WatchPolicies", "GIVEN_UP", None, "public/default"),
        ("grpc.health.v1.Health/Check", "OK", None, None),
    ]


async def test_a_change_whose_deadline_passes_before_it_is_submitted_is_recorded_with_its_topic(
    recording: Recording, client: AsyncStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Registry, "get", lambda *_: SimpleNamespace(update=lambda _: asyncio.sleep(PATIENCE)))
    refusal = await refused(client.UpdatePolicy(update(1), timeout=0.3))
    assert refusal.code in (grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNAVAILABLE)  # the client's deadline, or the server's error
    (line,) = await recording.lines()
    assert line["topic"] == TOPIC
    assert line["outcome"] in ("GIVEN_UP", "UNAVAILABLE", "DEADLINE_EXCEEDED")  # of whoever noticed first


async def test_each_change_of_a_batch_has_a_line_with_its_own_outcome(recording: Recording, client: AsyncStub) -> None:
    request = batch(update(1, request_id=ID), update(2, precondition=Precondition(version="0")))
    request.changes.add()
    await client.BatchUpdatePolicies(request)
    *each, whole = await recording.lines()
    assert sorted(fields(line, "msg", "call", "outcome", "reason") for line in each) == [
        ("change", "BatchUpdatePolicies", "ABORTED", "PRECONDITION_FAILED"),
        ("change", "BatchUpdatePolicies", "APPLIED", None),
        ("change", "BatchUpdatePolicies", "INVALID_ARGUMENT", "INVALID_REQUEST"),
    ]
    (applied,) = [line for line in each if line["outcome"] == "APPLIED"]
    assert fields(applied, "topic", "request_id") == (TOPIC, ID) and 0 <= applied["ms"] < 20_000
    assert fields(whole, "msg", "call", "outcome", "changes") == ("call", "BatchUpdatePolicies", "OK", 3)


async def test_no_secret_and_nothing_of_a_document_is_recorded(recording: Recording, client: AsyncStub) -> None:
    policies = TopicPolicies(max_producer_per_topic=77_123)
    offload = policies.offload_policies
    offload.managed_ledger_offload_driver, offload.s3_managed_ledger_offload_bucket = "aws-s3", "bucket"
    offload.s3_managed_ledger_offload_region, offload.s3_managed_ledger_offload_credential_secret = "a-region", SECRET
    await client.UpdatePolicy(UpdatePolicyRequest(topic=TOPIC, policies=policies), metadata=(("authorization", f"Bearer {SECRET}"),))
    await refused(
        client.UpdatePolicy(UpdatePolicyRequest(topic=TOPIC, policies=policies, precondition=Precondition(version="0"), reason="77_123"))
    )
    await recording.lines()
    recorded = recording.path.read_text()
    assert recorded.count("\n") == 2
    assert SECRET not in recorded and "Bearer" not in recorded and "77123" not in recorded and "aws-s3" not in recorded


async def test_a_record_file_that_is_moved_away_is_created_again(recording: Recording, client: AsyncStub) -> None:
    await client.UpdatePolicy(update(1))
    await until(recording.path.read_text)
    moved = recording.path.with_suffix(".1")
    recording.path.rename(moved)
    await client.UpdatePolicy(update(2))
    await recording.lines()
    assert len(read(moved)) == len(read(recording.path)) == 1
    assert recording.path.stat().st_mode & 0o777 == 0o600


class Stuck:
    """Has the writing of a record wait until a test lets it go on."""

    def __init__(self, log: AccessLog, monkeypatch: pytest.MonkeyPatch) -> None:
        self.began, self.go = threading.Event(), threading.Event()
        real = log._lines._write

        def write(lines: bytes) -> None:
            self.began.set()
            self.go.wait(PATIENCE)
            real(lines)

        monkeypatch.setattr(log._lines, "_write", write)


async def test_calls_do_not_wait_for_a_record_that_can_not_be_written_and_missing_lines_are_counted(
    recording: Recording, client: AsyncStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = recording.log
    log._lines._most = 5
    stuck = Stuck(log, monkeypatch)
    for value in range(30):
        await client.UpdatePolicy(update(value))
    await until(lambda: log.lost > 0)
    lost = log.lost
    stuck.go.set()
    assert len([line for line in await recording.lines() if line["msg"] == "call"]) == 30 - lost


async def test_a_full_disk_is_logged_once_and_does_not_affect_calls(
    recording: Recording, client: AsyncStub, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "topicpolicies_server.rpc.access_log")
    log = recording.log

    def full(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    with monkeypatch.context() as patched:
        patched.setattr("topicpolicies_server.rpc.access_log.write_all", full)
        for value in range(3):
            await client.UpdatePolicy(update(value))
        await until(lambda: log.lost == 3)
    assert [record.getMessage() for record in caplog.records] == ["the access log can't be written"]
    await client.UpdatePolicy(update(4))
    assert [line["msg"] for line in await recording.lines()] == ["call"]
    assert caplog.records[-1].getMessage() == "the access log can be written again; 3 calls are missing in it"


def test_a_record_file_that_can_not_be_opened_fails_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file or directory"):
        AccessLog(AccessLogConfig(path=tmp_path / "no" / "such"), "text")
