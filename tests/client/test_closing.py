"""A closed client: calls in progress end with an error that says so, and new calls are refused."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
import pytest

import topicpolicies as tp
from tests.client.fault_service import HANGS, FaultService
from topicpolicies.connections import Connections
from topicpolicies.retries import Attempts, RetryPolicy

TOPIC = "persistent://public/default/orders"
NAMESPACE = "public/default"


async def begun(service: FaultService) -> None:
    async with asyncio.timeout(20):
        while not service.met:  # noqa: ASYNC110
            await asyncio.sleep(0.002)


async def listed(client: tp.AsyncClient) -> list[tp.Document]:
    return [each async for each in client.list(NAMESPACE)]


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda client: client.get(TOPIC), tp.TopicPoliciesError),
        (lambda client: client.edit(TOPIC, lambda _: None), tp.TopicPoliciesError),
        (listed, tp.TopicPoliciesError),
        (lambda client: client.update(TOPIC, max_producer_per_topic=1, request_id="6b8f"), tp.OutcomeUnknown),
        (lambda client: client.delete(TOPIC, request_id="6b8f"), tp.OutcomeUnknown),
    ],
)
async def test_closing_during_a_call_raises_an_error_in_it_and_does_not_cancel_the_caller(
    address: str, service: FaultService, call: Callable[[tp.AsyncClient], Any], error: type[tp.TopicPoliciesError]
) -> None:
    service.faults.append(HANGS)
    client = tp.AsyncClient(address)
    calling = asyncio.ensure_future(call(client))
    await begun(service)
    await client.close()
    with pytest.raises(tp.TopicPoliciesError, match="closed") as caught:
        await asyncio.wait_for(asyncio.shield(calling), 10)
    assert type(caught.value) is error
    assert getattr(caught.value, "request_id", "6b8f") == "6b8f"


async def test_closing_during_a_pause_before_a_retry_ends_the_call() -> None:
    patient = tp.RetryPolicy(first_delay_seconds=20, longest_delay_seconds=20)
    client = tp.AsyncClient("127.0.0.1:1", retries=patient, timeout=60)
    calling = asyncio.ensure_future(client.get(TOPIC))
    await asyncio.sleep(0.3)
    await client.close()
    with pytest.raises(tp.TopicPoliciesError):
        await asyncio.wait_for(calling, 10)


async def test_closing_settles_all_changes_in_flight_as_outcome_unknown(address: str, service: FaultService) -> None:
    service.faults.append(HANGS)
    client, taken = tp.AsyncClient(address), []

    async def change() -> None:
        async for settled in client.update_many([tp.Update(TOPIC, max_producer_per_topic=value) for value in range(3)]):
            taken.append(settled)

    changing = asyncio.ensure_future(change())
    await begun(service)
    await client.close()
    with pytest.raises(tp.TopicPoliciesError, match="closed"):
        await asyncio.wait_for(asyncio.shield(changing), 10)
    assert [type(each.error) for each in taken] == [tp.OutcomeUnknown] * 3


async def test_closing_ends_a_stream_of_changes_that_waits_for_its_source(address: str) -> None:
    async def source() -> AsyncIterator[tp.Update]:
        await asyncio.sleep(3600)
        yield tp.Update(TOPIC, max_producer_per_topic=1)

    async def change() -> None:
        async for _ in client.update_many(source()):
            pass

    client = tp.AsyncClient(address)
    changing = asyncio.ensure_future(change())
    await asyncio.sleep(0.05)
    await client.close()
    with pytest.raises(tp.TopicPoliciesError, match="closed"):
        await asyncio.wait_for(changing, 10)


async def test_cancelling_a_stream_of_changes_raises_cancelled_error(address: str, service: FaultService) -> None:
    service.faults.append(HANGS)

    async def change() -> None:
        async for _ in client.update_many([tp.Update(TOPIC, max_producer_per_topic=1)]):
            pass

    async with tp.AsyncClient(address) as client:
        changing = asyncio.ensure_future(change())
        await begun(service)
        changing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await changing


@pytest.mark.parametrize("used", [False, True])
async def test_a_closed_synchronous_client_refuses_streams_watches_caches_and_its_stub(
    address: str, service: FaultService, used: bool
) -> None:
    def check() -> None:
        client = tp.Client(address)
        if used:
            client.get(TOPIC)
        client.close()
        for begin in (
            lambda: list(client.update_many([tp.Update(TOPIC, max_producer_per_topic=1)])),
            lambda: next(client.watch(namespaces=[NAMESPACE])),
            lambda: client.cache(namespaces=[NAMESPACE]).wait_synced(5),
            lambda: client.stub,
        ):
            with pytest.raises(tp.TopicPoliciesError, match="The client was closed"):
                begin()

    await asyncio.to_thread(check)
    assert not service.documents


async def test_closing_settles_all_changes_in_flight_of_a_synchronous_client(address: str, service: FaultService) -> None:
    service.faults.append(HANGS)
    client = tp.Client(address)
    taken: list[tp.Settled] = []

    def change() -> None:
        taken.extend(client.update_many([tp.Update(TOPIC, max_producer_per_topic=value) for value in range(3)]))

    changing = asyncio.ensure_future(asyncio.to_thread(change))
    await begun(service)
    await asyncio.to_thread(client.close)
    with pytest.raises(tp.TopicPoliciesError, match="The client was closed"):
        await asyncio.wait_for(changing, 10)
    assert [type(each.error) for each in taken] == [tp.OutcomeUnknown] * 3


async def test_closing_during_a_synchronous_call_raises_that_the_client_was_closed(address: str, service: FaultService) -> None:
    service.faults.append(HANGS)
    client = tp.Client(address)
    calling = asyncio.ensure_future(asyncio.to_thread(client.get, TOPIC))
    await begun(service)
    await asyncio.to_thread(client.close)
    with pytest.raises(tp.TopicPoliciesError, match="The client was closed"):
        await asyncio.wait_for(calling, 10)


def test_a_channel_that_is_closed_just_before_its_call_raises_that_the_client_was_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a call makes gRPC raise ValueError: of a unary method, of a stream of changes, of a watch, and in a cache's thread."""
    escaped: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", escaped.append)
    stub = Connections.stub

    def overtaken(connections: Connections, address: str) -> Any:
        found = stub(connections, address)
        connections.closed.set()
        connections.close()
        return found

    monkeypatch.setattr(Connections, "stub", overtaken)
    for begin in (
        lambda client: client.get(TOPIC),
        lambda client: client.update(TOPIC, max_producer_per_topic=1),
        lambda client: list(client.update_many([tp.Update(TOPIC, max_producer_per_topic=1)])),
        lambda client: next(client.watch(namespaces=[NAMESPACE])),
        lambda client: client.cache(namespaces=[NAMESPACE]).wait_synced(5),
    ):
        with pytest.raises(tp.TopicPoliciesError, match="The client was closed") as caught:
            begin(tp.Client("127.0.0.1:1"))
        assert type(caught.value) is tp.TopicPoliciesError
    assert not escaped


def test_a_change_that_can_not_be_sent_again_is_unknown_only_if_an_attempt_may_have_made_it() -> None:
    error = tp.TopicPoliciesError("The client was closed.", code=grpc.StatusCode.CANCELLED)
    attempts = Attempts(RetryPolicy(), 100.0, "6b8f")
    assert attempts.unsent(error) is error
    attempts.failed(tp.Unavailable("Socket closed", code=grpc.StatusCode.UNAVAILABLE), 0.0, 0.5)
    assert isinstance(attempts.unsent(error), tp.OutcomeUnknown)


async def test_a_watch_of_a_closed_client_raises_once_and_ends(address: str) -> None:
    asynchronous, synchronous = tp.AsyncClient(address), tp.Client(address)
    await asynchronous.close()
    synchronous.close()
    watches = asynchronous.watch(namespaces=[NAMESPACE]), synchronous.watch(namespaces=[NAMESPACE])
    with pytest.raises(tp.TopicPoliciesError, match="The client was closed"):
        await anext(watches[0])
    with pytest.raises(tp.TopicPoliciesError, match="The client was closed"):
        next(watches[1])
    assert await anext(watches[0], None) is None
    assert next(watches[1], None) is None
