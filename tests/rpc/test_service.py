"""The service's promises over real gRPC."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterable, AsyncIterator

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from tests.stubs import AsyncStub
from topicpolicies.v1 import service_pb2
from topicpolicies.v1.events_pb2 import SCOPE_GLOBAL, SCOPE_LOCAL
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies.v1.service_pb2 import (
    DeletePolicyRequest,
    GetPolicyRequest,
    ListPoliciesRequest,
    ScopedDelete,
    UpdatePoliciesRequest,
    UpdatePolicyRequest,
    WatchPoliciesRequest,
    WatchPoliciesResponse,
)
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.rpc.server import Server

from .conftest import TOPIC, Refusal

NAMESPACE = "public/default"
MODES = (service_pb2.WATCH_MODE_LATEST, service_pb2.WATCH_MODE_EVERY)


def update(value: int, topic: str = TOPIC, **more: object) -> UpdatePolicyRequest:
    """An update of one setting."""
    return UpdatePolicyRequest(topic=topic, policies=TopicPolicies(max_producer_per_topic=value), **more)  # type: ignore[arg-type]


async def until_synced(stream: grpc.aio.UnaryStreamCall[WatchPoliciesRequest, WatchPoliciesResponse]) -> list[WatchPoliciesResponse]:
    """The messages up to and including SYNCED."""
    messages = []
    async for message in stream:
        messages.append(message)
        if message.bookmark.kind == service_pb2.BOOKMARK_KIND_SYNCED:
            return messages
    raise AssertionError("the stream ended before SYNCED")


async def next_change(stream: AsyncIterable[WatchPoliciesResponse]) -> service_pb2.PolicyChange:
    """The next change, past bookmarks."""
    async for message in stream:
        if message.HasField("change"):
            return message.change
    raise AssertionError("the stream ended")


async def test_versions_of_concurrent_updates_form_one_chain(stub: AsyncStub) -> None:
    answers = await asyncio.gather(*(stub.UpdatePolicy(update(value)) for value in range(1, 101)))
    following = {answer.previous_version: answer.version for answer in answers}
    version, links = "0", 0
    while version in following:
        version, links = following[version], links + 1
    assert links == 100
    assert (await stub.GetPolicy(GetPolicyRequest(topic=TOPIC))).version == version
    assert sorted({answer.version for answer in answers}) == sorted(answer.version for answer in answers)


async def test_an_answer_is_read_by_whoever_asks_afterwards(stub: AsyncStub) -> None:
    for value in range(1, 20):
        answer = await stub.UpdatePolicy(update(value))
        got = await stub.GetPolicy(GetPolicyRequest(topic=TOPIC, at_least=answer.version))
        assert (got.version, got.policies.max_producer_per_topic) == (answer.version, value)
        snapshot = await until_synced(stub.WatchPolicies(WatchPoliciesRequest(topics=[TOPIC], scopes=[SCOPE_LOCAL])))
        assert [message.change.version for message in snapshot if message.HasField("change")] == [answer.version]


async def test_a_version_that_is_not_reached_in_time_is_said_to_be(stub: AsyncStub) -> None:
    await stub.UpdatePolicy(update(1))
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stub.GetPolicy(GetPolicyRequest(topic=TOPIC, at_least="zzzz"), timeout=0.3)
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert (await stub.GetPolicy(GetPolicyRequest(topic=TOPIC))).exists


async def test_scopes_are_documents_of_their_own(stub: AsyncStub) -> None:
    await stub.UpdatePolicy(update(1))
    await stub.UpdatePolicy(update(2, scope=SCOPE_GLOBAL))
    local = await stub.GetPolicy(GetPolicyRequest(topic=TOPIC))
    everywhere = await stub.GetPolicy(GetPolicyRequest(topic=TOPIC, scope=SCOPE_GLOBAL))
    assert (local.scope, local.policies.max_producer_per_topic) == (SCOPE_LOCAL, 1)
    assert (everywhere.scope, everywhere.policies.max_producer_per_topic) == (SCOPE_GLOBAL, 2)
    both = [ScopedDelete(scope=SCOPE_GLOBAL), ScopedDelete(scope=SCOPE_LOCAL, etag=local.version)]
    request = DeletePolicyRequest(topic=TOPIC, deletes=both)
    deleted = await stub.DeletePolicy(request)
    assert [result.outcome for result in deleted.results] == [service_pb2.DELETE_OUTCOME_DELETED] * 2
    again = await stub.DeletePolicy(request)
    assert again.results[0].outcome == service_pb2.DELETE_OUTCOME_ABSENT
    assert again.results[1].error.code == grpc.StatusCode.ABORTED.value[0]


async def test_a_partition_means_its_topic(stub: AsyncStub) -> None:
    answer = await stub.UpdatePolicy(update(1, topic="public/default/orders-partition-3"))
    assert answer.topic == TOPIC


async def test_the_outcomes_say_what_happened(stub: AsyncStub) -> None:
    skipped = await stub.UpdatePolicy(update(1, skip_if_absent=True))
    assert (skipped.outcome, skipped.version) == (service_pb2.UPDATE_OUTCOME_SKIPPED, "0")
    tried = await stub.UpdatePolicy(update(1, validate_only=True))
    assert (tried.outcome, tried.policies.max_producer_per_topic) == (service_pb2.UPDATE_OUTCOME_APPLIED, 1)
    assert not (await stub.GetPolicy(GetPolicyRequest(topic=TOPIC))).exists
    first = await stub.UpdatePolicy(update(1, etag="0"))
    same = await stub.UpdatePolicy(update(1, etag=first.version))
    assert (same.outcome, same.version) == (service_pb2.UPDATE_OUTCOME_UNCHANGED, first.version)
    clear = UpdatePolicyRequest(topic=TOPIC)
    clear.update_mask.paths.append("max_producer_per_topic")
    cleared = await stub.UpdatePolicy(clear)
    assert (cleared.outcome, cleared.policies) == (service_pb2.UPDATE_OUTCOME_APPLIED, TopicPolicies())


async def test_a_stream_of_updates_keeps_its_order_per_key_and_fails_one_by_one(stub: AsyncStub) -> None:
    async def requests() -> AsyncIterator[UpdatePoliciesRequest]:
        for sequence in range(1, 201):
            topic = "nowhere" if sequence % 50 == 0 else f"{TOPIC}-{sequence % 2}"
            yield UpdatePoliciesRequest(sequence=sequence, update=update(sequence, topic=topic))

    answers = {answer.sequence: answer async for answer in stub.UpdatePolicies(requests())}
    assert sorted(answers) == list(range(1, 201))
    assert {sequence for sequence, answer in answers.items() if answer.HasField("error")} == {50, 100, 150, 200}
    for which in (0, 1):
        applied = [answers[sequence].response for sequence in range(1, 201) if sequence % 2 == which and sequence % 50]
        assert all(later.previous_version == earlier.version for earlier, later in itertools.pairwise(applied))


async def test_pages_list_every_document_once_in_order(stub: AsyncStub) -> None:
    topics = [f"{TOPIC}-{number:02d}" for number in range(25)]
    await asyncio.gather(*(stub.UpdatePolicy(update(1, topic=topic)) for topic in reversed(topics)))
    await stub.DeletePolicy(DeletePolicyRequest(topic=topics[3]))
    listed, token = [], ""
    while True:
        page = await stub.ListPolicies(ListPoliciesRequest(namespace=NAMESPACE, page_size=7, page_token=token))
        listed += [entry.topic for entry in page.entries]
        token = page.next_page_token
        if not token:
            break
    assert listed == topics[:3] + topics[4:]


async def test_a_watch_gives_snapshot_synced_and_changes_and_says_absent(stub: AsyncStub) -> None:
    first = await stub.UpdatePolicy(update(1))
    stream = stub.WatchPolicies(WatchPoliciesRequest(topics=[TOPIC, f"{TOPIC}-absent"], scopes=[SCOPE_LOCAL]))
    messages = [message for message in await until_synced(stream) if not message.HasField("status")]
    assert [(message.change.topic, message.change.exists) for message in messages[:-1]] == [(TOPIC, True), (f"{TOPIC}-absent", False)]
    assert messages[-1].bookmark.token.positions == [first.version]
    second = await stub.UpdatePolicy(update(2), metadata=[("topicpolicies-actor", "alice")])
    change = await next_change(stream)
    assert (change.version, change.previous_version, change.policies.max_producer_per_topic) == (second.version, first.version, 2)
    assert (change.origin.actor, list(change.origin.update_mask.paths)) == ("alice", ["max_producer_per_topic"])
    assert change.origin.event.topic_policies_event.topic == "orders"
    await stub.DeletePolicy(DeletePolicyRequest(topic=TOPIC))
    assert not (await next_change(stream)).exists
    stream.cancel()


async def test_a_watch_resumes_where_it_stood_without_gap_or_repetition(stub: AsyncStub) -> None:
    await stub.UpdatePolicy(update(1))
    for mode in MODES:
        synced = (await until_synced(stub.WatchPolicies(WatchPoliciesRequest(namespaces=[NAMESPACE], mode=mode))))[-1].bookmark
        made = [(await stub.UpdatePolicy(update(value + 10 * mode))).version for value in range(2, 6)]
        stream = stub.WatchPolicies(WatchPoliciesRequest(namespaces=[NAMESPACE], mode=mode, resume={NAMESPACE: synced.token}))
        expected = made if mode == service_pb2.WATCH_MODE_EVERY else made[-1:]
        messages = await until_synced(stream)
        assert [message.change.version for message in messages if message.HasField("change")] == expected
        stream.cancel()


async def test_a_token_of_another_log_is_out_of_range(stub: AsyncStub) -> None:
    token = service_pb2.WatchToken(log="another", positions=["21"])
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        async for _ in stub.WatchPolicies(WatchPoliciesRequest(namespaces=[NAMESPACE], resume={NAMESPACE: token})):
            pass
    refusal = Refusal(caught.value)
    assert (refusal.code, refusal.info.reason) == (grpc.StatusCode.OUT_OF_RANGE, "TOKEN_OUT_OF_RANGE")


async def test_bookmarks_come_on_a_timer_without_traffic(stub: AsyncStub) -> None:
    await stub.UpdatePolicy(update(1))
    stream = stub.WatchPolicies(WatchPoliciesRequest(topics=[f"{TOPIC}-quiet"], bookmark_interval=Duration(seconds=1)))
    await until_synced(stream)
    other = await stub.UpdatePolicy(update(2))
    async for message in stream:
        if message.bookmark.kind == service_pb2.BOOKMARK_KIND_TIMER and message.bookmark.token.positions == [other.version]:
            break
    stream.cancel()


async def test_a_watcher_that_never_reads_delays_nobody(stub: AsyncStub) -> None:
    stuck = [stub.WatchPolicies(WatchPoliciesRequest(namespaces=[NAMESPACE], mode=mode)) for mode in MODES]
    reading = stub.WatchPolicies(WatchPoliciesRequest(namespaces=[NAMESPACE]))
    await until_synced(reading)
    for value in range(1, 301):
        await stub.UpdatePolicy(update(value))
    while (await next_change(reading)).policies.max_producer_per_topic != 300:
        pass
    for stream in (*stuck, reading):
        stream.cancel()


async def test_health_and_reflection_answer(server: Server) -> None:
    async with grpc.aio.insecure_channel(server.address) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        answer = await health.Check(health_pb2.HealthCheckRequest(service="topicpolicies.v1.TopicPoliciesService"))
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
        request = reflection_pb2.ServerReflectionRequest(list_services="")
        call = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(iter([request]))
        async for found in call:
            assert "topicpolicies.v1.TopicPoliciesService" in {each.name for each in found.list_services_response.service}


async def test_a_stopping_server_ends_watches_with_a_bookmark_and_finishes_what_it_accepted(server: Server, stub: AsyncStub) -> None:
    first = await stub.UpdatePolicy(update(1))
    namespace = server.registry.get(NAMESPACE)
    stream = stub.WatchPolicies(WatchPoliciesRequest(topics=[TOPIC]))
    await until_synced(stream)
    updates = [asyncio.ensure_future(stub.UpdatePolicy(update(value))) for value in range(2, 34)]
    await asyncio.sleep(0.005)
    stopping = asyncio.create_task(server.stop())
    seen: list[WatchPoliciesResponse] = []

    async def read() -> None:
        async for message in stream:
            seen.append(message)

    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await read()
    assert Refusal(caught.value).info.reason == "SHUTTING_DOWN"
    assert list(seen[-1].bookmark.token.positions) >= [first.version]
    await stopping
    outcomes = await asyncio.gather(*updates, return_exceptions=True)
    answers = [outcome for outcome in outcomes if isinstance(outcome, service_pb2.UpdatePolicyResponse)]
    refusals = [outcome for outcome in outcomes if isinstance(outcome, grpc.aio.AioRpcError)]
    assert len(answers) + len(refusals) == len(updates)
    # gRPC cancels calls that had reached the process but not the service.
    assert {error.code() for error in refusals} <= {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED}
    following = {answer.previous_version: answer.version for answer in answers}
    version = first.version
    while version in following:
        version = following.pop(version)
    assert not following, "every answered update is in the chain"
    assert namespace.version(PolicyKey(TOPIC, Scope.LOCAL)) == version, "and every update in the chain was answered"
