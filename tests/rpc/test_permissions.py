"""Permissions from a file of roles, with the embedded log: every call by every kind of caller."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias

import grpc
import pytest
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp
from google.rpc.error_details_pb2 import ErrorInfo
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from tests.rpc.callers import Metadata, guarded, of
from tests.rpc.conftest import Refusal, refused
from tests.stubs import AsyncStub, async_stub, batch
from topicpolicies.v1 import history_pb2, service_pb2
from topicpolicies.v1 import policies_pb2 as pb
from topicpolicies.v1.service_pb2 import WATCH_MODE_EVERY

NAMESPACE = "acme/orders"
TOPIC = f"persistent://{NAMESPACE}/one"
PATIENCE = 20.0
CALLERS = ("", "reader", "watcher", "changer", "historian", "keeper", "owner", "stranger", "admin")
PROXIED = tuple(f"gateway>{role}" for role in CALLERS if role)
Make: TypeAlias = Callable[[grpc.aio.Channel, Metadata], Awaitable[object]]


def offload(secret: str = "hush", most: int = 5) -> pb.TopicPolicies:  # noqa: S107 (made up)
    """Returns policies with a secret."""
    made = pb.OffloadPolicies(
        managed_ledger_offload_driver="aws-s3", managed_ledger_offload_bucket="b", s3_managed_ledger_offload_credential_secret=secret
    )
    return pb.TopicPolicies(offload_policies=made, max_producer_per_topic=most)


def change(topic: str = TOPIC, **more: Any) -> service_pb2.UpdatePolicyRequest:
    """Returns a change."""
    policies = pb.TopicPolicies(max_consumer_per_topic=3)
    return service_pb2.UpdatePolicyRequest(topic=topic, policies=policies, **more)


async def results(channel: grpc.aio.Channel, metadata: Metadata, *changes: service_pb2.UpdatePolicyRequest) -> list[Any]:
    """Sends a batch, and returns its results."""
    return list((await async_stub(channel).BatchUpdatePolicies(batch(*changes), metadata=metadata)).results)


async def batched(channel: grpc.aio.Channel, metadata: Metadata) -> object:
    """Sends a batch of one change, and returns its result; an error of the change is raised.

    Raises:
        InBatch: the change failed.
    """
    (result,) = await results(channel, metadata, change())
    if result.HasField("error"):
        raise InBatch(result.error)
    return result.success


OF_THE_LIBRARY = "Internal error from Core"
"""The message of grpc.aio's client in place of the status, once in thousands of calls that end while it writes to them."""


class InBatch(Exception):
    """The error of one change of a batch."""

    def __init__(self, status: Any) -> None:
        super().__init__(status.message)
        self.status = status


def unary(name: str, request: Message) -> Make:
    """Returns a call of a unary method."""
    return lambda channel, metadata: getattr(async_stub(channel), name)(request, metadata=metadata)


def watch(**selection: Any) -> Make:
    """Returns a call that opens a watch and reads its first message."""

    async def watching(channel: grpc.aio.Channel, metadata: Metadata) -> object:
        call = async_stub(channel).WatchPolicies(service_pb2.WatchPoliciesRequest(**selection), metadata=metadata)
        try:
            return await anext(aiter(call))
        finally:
            call.cancel()

    return watching


async def watch_history(channel: grpc.aio.Channel, metadata: Metadata) -> object:
    """Opens a watch of the history, and reads its first message."""
    call = async_stub(channel).WatchHistory(history_pb2.WatchHistoryRequest(namespaces=[NAMESPACE]), metadata=metadata)
    try:
        return await anext(aiter(call))
    finally:
        call.cancel()


async def check(channel: grpc.aio.Channel, metadata: Metadata) -> object:
    """Checks the health."""
    stub: Any = health_pb2_grpc.HealthStub(channel)
    return await stub.Check(health_pb2.HealthCheckRequest(), metadata=metadata)


async def check_all(channel: grpc.aio.Channel, metadata: Metadata) -> object:
    """Lists the health by all names."""
    stub: Any = health_pb2_grpc.HealthStub(channel)
    return await stub.List(health_pb2.HealthListRequest(), metadata=metadata)


async def watch_health(channel: grpc.aio.Channel, metadata: Metadata) -> object:
    """Opens a health watch, and reads its first status."""
    call: Any = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(), metadata=metadata)
    try:
        return await anext(aiter(call))
    finally:
        call.cancel()


async def reflect(channel: grpc.aio.Channel, metadata: Metadata) -> object:
    """Lists the services by reflection."""
    stub: Any = reflection_pb2_grpc.ServerReflectionStub(channel)
    request = reflection_pb2.ServerReflectionRequest(list_services="")
    while True:
        try:
            return [answer async for answer in stub.ServerReflectionInfo(iter([request]), metadata=metadata)]
        except grpc.aio.AioRpcError as error:
            if error.details() != OF_THE_LIBRARY:
                raise


READING = {"reader", "watcher", "changer", "keeper", "owner", "admin"}
CHANGING = {"changer", "keeper", "owner", "admin"}
WATCHING = {"watcher", "keeper", "owner", "admin"}
RECALLING = {"historian", "owner", "admin"}
BOTH = WATCHING & RECALLING
ALL_CALLERS = set(CALLERS)
CALLS: dict[str, tuple[Make, str, set[str]]] = {
    "UpdatePolicy": (unary("UpdatePolicy", change()), "change", CHANGING),
    "UpdatePolicy, validated only": (unary("UpdatePolicy", change(validate_only=True)), "change", CHANGING),
    "BatchUpdatePolicies": (batched, "change", CHANGING),
    "DeletePolicy": (unary("DeletePolicy", service_pb2.DeletePolicyRequest(topic=TOPIC)), "change", CHANGING),
    "GetPolicy": (unary("GetPolicy", service_pb2.GetPolicyRequest(topic=TOPIC)), "read", READING),
    "GetPolicyAsOf": (
        unary("GetPolicyAsOf", history_pb2.GetPolicyAsOfRequest(topic=TOPIC, time=Timestamp(seconds=1))),
        "history",
        RECALLING,
    ),
    "GetEffectivePolicy": (unary("GetEffectivePolicy", service_pb2.GetEffectivePolicyRequest(topic=TOPIC)), "read", READING),
    "ListPolicies": (unary("ListPolicies", service_pb2.ListPoliciesRequest(namespace=NAMESPACE)), "read", READING),
    "ListHistory": (unary("ListHistory", history_pb2.ListHistoryRequest(namespace=NAMESPACE)), "history", RECALLING),
    "ListHistory of a topic": (unary("ListHistory", history_pb2.ListHistoryRequest(topic=TOPIC)), "history", RECALLING),
    "WatchPolicies": (watch(namespaces=[NAMESPACE]), "watch", WATCHING),
    "WatchPolicies of a topic": (watch(topics=[TOPIC]), "watch", WATCHING),
    "WatchPolicies, every change": (watch(topics=[TOPIC], mode=WATCH_MODE_EVERY), "history", BOTH),
    "WatchHistory": (watch_history, "history", RECALLING),
    "GetServerInfo": (unary("GetServerInfo", service_pb2.GetServerInfoRequest()), "", ALL_CALLERS),
    "Health/Check": (check, "", ALL_CALLERS),
    "Health/List": (check_all, "", ALL_CALLERS),
    "Health/Watch": (watch_health, "", ALL_CALLERS),
    "ServerReflection": (reflect, "", ALL_CALLERS),
}
"""By a description of each call: the call, the permission that it needs ("": none; of two, the last one checked), and who may make it."""
OPEN = {"Health/Check", "Health/List", "Health/Watch"}
"""Calls that are permitted without credentials."""


async def refusal_of(make: Make, channel: grpc.aio.Channel, caller: str, shown: Callable[[str], Metadata] = of) -> ErrorInfo | None:
    """Returns why a caller, whose credentials ``shown`` returns, may not make a call; None: it may, though the call may fail otherwise."""
    try:
        await make(channel, shown(caller))
    except grpc.aio.AioRpcError as error:
        refusal = Refusal(error)
        return refusal.info if refusal.code in (grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED) else None
    except InBatch as error:
        assert error.status.code == grpc.StatusCode.PERMISSION_DENIED.value[0]
        info = ErrorInfo()
        error.status.details[0].Unpack(info)
        return info
    return None


@pytest.fixture
async def channel(tmp_path: Path) -> AsyncIterator[grpc.aio.Channel]:
    """Yields a channel to a server with one document, and with the permissions of ``callers.ROLES``."""
    async with guarded(tmp_path) as (_, opened, _):
        await async_stub(opened).UpdatePolicy(service_pb2.UpdatePolicyRequest(topic=TOPIC, policies=offload()), metadata=of("admin"))
        yield opened


@pytest.mark.parametrize("call", CALLS)
async def test_every_call_is_permitted_to_callers_with_the_permission_and_refused_to_others(channel: grpc.aio.Channel, call: str) -> None:
    make, permission, may = CALLS[call]
    for caller in (*CALLERS, *PROXIED):
        refusal = await refusal_of(make, channel, caller)
        role = caller.rpartition(">")[2]
        assert (refusal is None) == (role in may), (caller, refusal)
        if refusal is not None:
            assert refusal.reason == "PERMISSION_DENIED"
            lacks = {"watch", permission} if permission == "history" else {permission}
            assert refusal.metadata["permission"] in lacks and refusal.metadata["namespace"] == NAMESPACE, caller


async def test_a_proxy_without_the_permission_may_not_call_for_a_role_that_has_it(channel: grpc.aio.Channel) -> None:
    for call in ("GetPolicy", "BatchUpdatePolicies", "WatchPolicies"):
        make, permission, _ = CALLS[call]
        refusal = await refusal_of(make, channel, "stranger>admin")
        assert refusal is not None and refusal.metadata["permission"] == permission


async def test_the_message_of_a_refusal_names_the_role_the_namespace_and_the_permission(stub_of: AsyncStub) -> None:
    refusal = await refused(stub_of.UpdatePolicy(change(), metadata=of("reader")))
    assert refusal.message == '"reader" may not do this in acme/orders: it needs the permission "change" there.'
    refusal = await refused(stub_of.UpdatePolicy(change(), metadata=of("gateway>reader")))
    assert refusal.message == '"reader", for whom "gateway" calls, may not do this in acme/orders: it needs the permission "change" there.'
    refusal = await refused(stub_of.UpdatePolicy(change()))
    assert refusal.message.startswith("An unauthenticated caller may not")


@pytest.fixture
def stub_of(channel: grpc.aio.Channel) -> AsyncStub:
    """Returns a stub of that server's service."""
    return async_stub(channel)


# Secrets


async def test_watches_of_the_same_changes_get_secrets_only_if_their_callers_have_the_permission(stub_of: AsyncStub) -> None:
    callers = ("keeper", "owner", "admin", "watcher")
    request = service_pb2.WatchPoliciesRequest(namespaces=[NAMESPACE], include_previous=True)
    calls = {caller: stub_of.WatchPolicies(request, metadata=of(caller)) for caller in callers}
    events = {caller: _events(call) for caller, call in calls.items()}
    for each in events.values():
        async for event in each:
            if event.bookmark.synced:
                break
    secret = "hush again"
    await stub_of.UpdatePolicy(service_pb2.UpdatePolicyRequest(topic=TOPIC, policies=offload(secret)), metadata=of("admin"))
    for caller, each in events.items():
        async for event in each:
            if event.HasField("change"):
                raw = event.SerializeToString()
                assert (secret.encode() in raw) == (caller in ("keeper", "admin")), caller
                assert (raw.count(b"hush") >= 2) == (caller in ("keeper", "admin")), "the previous document has a secret, too"
                break
    for call in calls.values():
        call.cancel()


async def _events(call: Any) -> AsyncIterator[service_pb2.WatchEvent]:
    async for message in call:
        for event in message.events:
            yield event


async def test_a_role_that_loses_its_permission_is_refused_in_its_next_call(tmp_path: Path) -> None:
    async with guarded(tmp_path) as (server, channel, roles):
        await async_stub(channel).UpdatePolicy(change(), metadata=of("changer"))
        roles.write_text(roles.read_text().replace("changer", "another"))
        server.reloader.reload_now()
        async with asyncio.timeout(PATIENCE):
            while (refusal := await refusal_of(CALLS["UpdatePolicy"][0], channel, "changer")) is None:  # noqa: ASYNC110 (the server is asked each time)
                await asyncio.sleep(0.05)
        assert refusal.reason == "PERMISSION_DENIED"
        (result,) = await results(channel, of("changer"), change())
        assert result.error.code == grpc.StatusCode.PERMISSION_DENIED.value[0]
