"""A caller at a limit of its principal is slowed, or refused with the time of a retry; other principals are not affected."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import grpc
import pytest
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.stubs import AsyncStub, async_stub, batch
from topicpolicies.v1 import service_pb2 as pb
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies_server.access import NOBODY, Caller, Way
from topicpolicies_server.config import Limits
from topicpolicies_server.rpc import quotas as quotas_module
from topicpolicies_server.rpc.calls import Call
from topicpolicies_server.rpc.quotas import Quotas, principal
from topicpolicies_server.rpc.server import Server

from .conftest import TOPIC, Refusal

_SECONDS = 100


@pytest.fixture
def quota() -> dict[str, float]:
    """Returns the limits of a principal; tests override this fixture."""
    return {}


@pytest.fixture
def limits(quota: dict[str, Any]) -> Limits:
    return replace(Limits(), bookmark_interval_seconds=1.0, drain_seconds=2.0, **quota)


@pytest.fixture
def named(server: Server) -> None:
    """Accepts any name of a caller."""

    async def name(call: Call) -> Caller:
        return Caller(str(dict(call.metadata).get("who", "")), Way.TOKEN)

    server.calls.identify = name


def update(number: int = 1) -> pb.UpdatePolicyRequest:
    return pb.UpdatePolicyRequest(topic=TOPIC, policies=TopicPolicies(max_producer_per_topic=number))


def many(count: int) -> pb.BatchUpdatePoliciesRequest:
    """Returns a batch of so many changes."""
    return batch(*(update(number) for number in range(count)))


def retry_seconds(error: grpc.aio.AioRpcError) -> float | None:
    """Returns after how many seconds an error says to retry; None: it does not say."""
    status = Status.FromString(dict(error.trailing_metadata() or ())["grpc-status-details-bin"])
    retry = RetryInfo()
    return next((retry.retry_delay.ToMilliseconds() / 1000 for each in status.details if each.Unpack(retry)), None)


async def refusal(call: Any) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    found = Refusal(caught.value)
    assert (found.code, found.info.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "LIMIT_REACHED"), found.message
    assert found.info.metadata["limit"] in found.message
    return caught.value


ALICE, BOB = (("who", "alice"),), (("who", "bob"),)


@pytest.mark.parametrize("quota", [{"max_changes_per_second_per_principal": 1.05}])
@pytest.mark.usefixtures("named")
async def test_a_change_whose_turn_is_later_than_its_deadline_is_refused_with_the_time_of_a_retry(stub: AsyncStub) -> None:
    for number in (1, 2):
        await stub.UpdatePolicy(update(number), metadata=ALICE)
    error = await refusal(stub.UpdatePolicy(update(3), metadata=ALICE, timeout=0.5))
    seconds = retry_seconds(error)
    assert seconds is not None and 0 < seconds < 1


@pytest.mark.parametrize("quota", [{"max_changes_per_second_per_principal": 50.0}])
@pytest.mark.usefixtures("named")
async def test_a_batch_is_made_as_a_whole_and_the_next_changes_wait_until_all_of_it_is_paid_for(stub: AsyncStub) -> None:
    began = time.monotonic()
    results = (await stub.BatchUpdatePolicies(many(150), metadata=ALICE)).results
    assert len(results) == 150 and all(result.HasField("success") for result in results)
    seconds = retry_seconds(await refusal(stub.UpdatePolicy(update(1), metadata=ALICE)))
    assert seconds is not None and 2 - (time.monotonic() - began) <= seconds <= 2.02
    assert retry_seconds(await refusal(stub.BatchUpdatePolicies(many(2), metadata=ALICE, timeout=0.5))) is not None
    await stub.UpdatePolicy(update(1), metadata=BOB)
    async with asyncio.timeout(_SECONDS):
        await stub.BatchUpdatePolicies(many(150), metadata=ALICE)
    assert time.monotonic() - began >= 2.0  # 150 changes, of which 50 are had at once, and the 151st


@pytest.mark.parametrize("quota", [{"max_changes_per_second_per_principal": 50.0}])
@pytest.mark.usefixtures("named")
async def test_a_batch_that_is_given_up_while_it_waits_costs_nothing(stub: AsyncStub) -> None:
    await stub.BatchUpdatePolicies(many(75), metadata=ALICE)
    given_up = stub.BatchUpdatePolicies(many(1_000), metadata=ALICE)
    await asyncio.sleep(0.1)
    assert given_up.cancel()
    await asyncio.sleep(0.1)
    async with asyncio.timeout(_SECONDS):
        await stub.UpdatePolicy(update(1), metadata=ALICE)


@pytest.mark.parametrize("quota", [{"max_watches_per_principal": 1, "max_calls_per_principal": 1}])
async def test_without_authentication_callers_of_one_address_share_a_limit_and_health_checks_pass(server: Server, stub: AsyncStub) -> None:
    assert await stub.WatchPolicies(pb.WatchPoliciesRequest(topics=[TOPIC])).read()
    async with grpc.aio.insecure_channel(server.address, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
        await refusal(async_stub(channel).GetServerInfo(pb.GetServerInfoRequest()))
        answer = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
        assert answer.status == health_pb2.HealthCheckResponse.SERVING


@pytest.mark.parametrize(
    ("peer", "name"),
    [
        ("ipv4:10.0.0.1:4711", "10.0.0.1"),
        ("ipv6:%5B2001:db8:1:2:3:4:5:6%5D:4711", "[2001:db8:1:2:3:4:5:6]"),
        ("ipv6:[::1]:4711", "[::1]"),
        ("unix:", "unix"),
        ("unix:/run/sidecar", "unix"),
    ],
)
def test_addresses_are_named_without_ports(peer: str, name: str) -> None:
    assert principal(NOBODY, peer) == name


def callers() -> Iterator[tuple[Caller, Caller, bool]]:
    alice = Caller("alice", Way.TOKEN)
    yield alice, Caller("alice", Way.TOKEN, expires_at=1.0), True
    yield alice, Caller("alice", Way.CERTIFICATE), True
    yield alice, Caller("proxy", Way.CERTIFICATE, "alice"), True
    yield Caller("proxy", Way.TOKEN, "alice"), Caller("another proxy", Way.TOKEN, "alice"), True
    yield Caller("one", Way.TOKEN), Caller("another", Way.TOKEN), False
    yield Caller("proxy", Way.TOKEN, "one"), Caller("proxy", Way.TOKEN, "another"), False


@pytest.mark.parametrize(("one", "other", "same"), list(callers()))
def test_a_quota_belongs_to_the_role_for_which_a_call_is_made_however_it_comes(one: Caller, other: Caller, *, same: bool) -> None:
    assert (principal(one, "ipv4:10.0.0.1:1") == principal(other, "ipv4:10.0.0.2:1")) is same


def test_the_idlest_principal_is_forgotten_but_none_with_calls_in_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quotas_module, "MOST_KNOWN", 3)
    quotas = Quotas(Limits(max_calls_per_principal=1))
    usage, _ = quotas.charge(("busy",), "GetPolicy", None)
    assert usage is not None
    for name in "abcdef":
        quotas._usage((name,), 0.0)
    assert list(quotas._known) == [("busy",), ("e",), ("f",)]
    quotas.release(usage, "GetPolicy")
    assert len(quotas._known) == 3 and usage.calls == 0
