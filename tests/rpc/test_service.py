"""What the service promises, tested over real gRPC."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from tests.stubs import AsyncStub
from topicpolicies.v1 import service_pb2
from topicpolicies.v1.policies_pb2 import SCOPE_GLOBAL, SCOPE_LOCAL, PolicyDocument, TopicPolicies
from topicpolicies.v1.service_pb2 import (
    DeletePolicyRequest,
    GetPolicyRequest,
    GetServerInfoRequest,
    ListPoliciesRequest,
    PolicyChangeRequest,
    PolicyChangeResult,
    UpdatePoliciesRequest,
    UpdatePolicyRequest,
)
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.rpc.server import Server

from .conftest import TOPIC, Refusal, refused
from .watching import WatchReader, changes

NAMESPACE = "public/default"


def update(value: int, topic: str = TOPIC, **more: object) -> UpdatePolicyRequest:
    """Returns an update of one setting."""
    return UpdatePolicyRequest(topic=topic, policies=TopicPolicies(max_producer_per_topic=value), **more)  # type: ignore[arg-type]


async def document(stub: AsyncStub, topic: str = TOPIC) -> PolicyDocument:
    """Returns the LOCAL document."""
    (found,) = (await stub.GetPolicy(GetPolicyRequest(topic=topic, scopes=[SCOPE_LOCAL]))).documents
    return found


async def results(stub: AsyncStub, *batches: list[PolicyChangeRequest]) -> tuple[dict[int, PolicyChangeResult], int]:
    """Sends batches of changes, and returns their results by sequence, and the number of messages that the results came in."""

    async def requests() -> AsyncIterator[UpdatePoliciesRequest]:
        for batch in batches:
            yield UpdatePoliciesRequest(changes=batch)

    messages = [message async for message in stub.UpdatePolicies(requests())]
    return {result.sequence: result for message in messages for result in message.results}, len(messages)


async def test_versions_of_concurrent_updates_form_one_chain(stub: AsyncStub) -> None:
    answers = await asyncio.gather(*(stub.UpdatePolicy(update(value)) for value in range(1, 101)))
    following = {answer.previous_version: answer.document.version for answer in answers}
    version, links = "0", 0
    while version in following:
        version, links = following[version], links + 1
    assert links == 100
    assert (await document(stub)).version == version
    assert sorted({answer.document.version for answer in answers}) == sorted(answer.document.version for answer in answers)


async def test_reads_and_watches_that_begin_after_an_answer_see_its_change(stub: AsyncStub) -> None:
    for value in range(1, 20):
        answer = await stub.UpdatePolicy(update(value))
        request = GetPolicyRequest(topic=TOPIC, scopes=[SCOPE_LOCAL], at_least_version=answer.document.version)
        (got,) = (await stub.GetPolicy(request)).documents
        assert got == answer.document and got.policies.max_producer_per_topic == value
        watch = WatchReader(stub, topics=[TOPIC], scopes=[SCOPE_LOCAL])
        assert [change.document for change in changes(await watch.until_synced())] == [answer.document]
        watch.cancel()


async def test_a_read_of_a_version_that_is_not_reached_ends_with_the_deadline(stub: AsyncStub) -> None:
    await stub.UpdatePolicy(update(1))
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stub.GetPolicy(GetPolicyRequest(topic=TOPIC, scopes=[SCOPE_LOCAL], at_least_version="zzzz"), timeout=0.3)
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert (await document(stub)).HasField("policies")


async def test_the_scopes_of_a_topic_are_separate_documents_that_are_read_together(stub: AsyncStub) -> None:
    await stub.UpdatePolicy(update(1))
    await stub.UpdatePolicy(update(2, scope=SCOPE_GLOBAL))
    local, everywhere = (await stub.GetPolicy(GetPolicyRequest(topic=TOPIC))).documents
    assert (local.scope, local.policies.max_producer_per_topic) == (SCOPE_LOCAL, 1)
    assert (everywhere.scope, everywhere.policies.max_producer_per_topic) == (SCOPE_GLOBAL, 2)
    deleted = await stub.DeletePolicy(DeletePolicyRequest(topic=TOPIC, scope=SCOPE_GLOBAL, etag=everywhere.version, include_previous=True))
    assert deleted.outcome == service_pb2.DELETE_OUTCOME_DELETED
    assert deleted.previous == everywhere and deleted.previous_version == everywhere.version
    assert (deleted.document.scope, deleted.document.HasField("policies")) == (SCOPE_GLOBAL, False)
    assert (await stub.DeletePolicy(DeletePolicyRequest(topic=TOPIC, scope=SCOPE_GLOBAL))).outcome == service_pb2.DELETE_OUTCOME_ABSENT
    assert list((await stub.GetPolicy(GetPolicyRequest(topic=TOPIC))).documents) == [local, deleted.document]


async def test_a_refused_or_only_validated_deletion_deletes_nothing(stub: AsyncStub) -> None:
    answer = await stub.UpdatePolicy(update(1))
    refusal = await refused(stub.DeletePolicy(DeletePolicyRequest(topic=TOPIC, etag="0")))
    assert (refusal.code, refusal.info.reason) == (grpc.StatusCode.ABORTED, "ETAG_MISMATCH")
    tried = await stub.DeletePolicy(DeletePolicyRequest(topic=TOPIC, etag=answer.document.version, validate_only=True))
    assert tried.outcome == service_pb2.DELETE_OUTCOME_WOULD_DELETE and tried.document.version == answer.document.version
    assert await document(stub) == answer.document


async def test_the_name_of_a_partition_means_its_topic(stub: AsyncStub) -> None:
    answer = await stub.UpdatePolicy(update(1, topic="public/default/orders-partition-3"))
    assert answer.document.topic == TOPIC


async def test_updates_that_are_skipped_validated_unchanged_or_applied_have_that_outcome(stub: AsyncStub) -> None:
    skipped = await stub.UpdatePolicy(update(1, skip_if_absent=True))
    assert (skipped.outcome, skipped.document.version) == (service_pb2.UPDATE_OUTCOME_SKIPPED, "0")
    tried = await stub.UpdatePolicy(update(1, validate_only=True))
    assert (tried.outcome, tried.document.policies.max_producer_per_topic) == (service_pb2.UPDATE_OUTCOME_WOULD_APPLY, 1)
    assert not (await document(stub)).HasField("policies")
    first = await stub.UpdatePolicy(update(1, etag="0"))
    same = await stub.UpdatePolicy(update(1, etag=first.document.version, include_previous=True))
    assert (same.outcome, same.document, same.previous) == (service_pb2.UPDATE_OUTCOME_UNCHANGED, first.document, first.document)
    clear = UpdatePolicyRequest(topic=TOPIC, include_previous=True)
    clear.update_mask.paths.append("max_producer_per_topic")
    cleared = await stub.UpdatePolicy(clear)
    assert (cleared.outcome, cleared.document.policies) == (service_pb2.UPDATE_OUTCOME_APPLIED, TopicPolicies())
    assert cleared.document.HasField("policies") and cleared.previous == first.document


async def test_an_etag_matches_one_version_and_must_not_exist_matches_any_absence(stub: AsyncStub) -> None:
    first = await stub.UpdatePolicy(update(1, must_not_exist=True))
    refusal = await refused(stub.UpdatePolicy(update(2, must_not_exist=True)))
    assert (refusal.code, refusal.info.reason) == (grpc.StatusCode.ALREADY_EXISTS, "DOCUMENT_EXISTS")
    assert refusal.info.metadata["version"] == first.document.version
    gone = await stub.DeletePolicy(DeletePolicyRequest(topic=TOPIC))
    assert (await refused(stub.UpdatePolicy(update(2, etag="0")))).info.reason == "ETAG_MISMATCH"
    anew = await stub.UpdatePolicy(update(2, etag=gone.document.version))
    await stub.DeletePolicy(DeletePolicyRequest(topic=TOPIC, etag=anew.document.version))
    assert (await stub.UpdatePolicy(update(3, must_not_exist=True))).outcome == service_pb2.UPDATE_OUTCOME_APPLIED


@pytest.mark.parametrize("size", [1, 7, 200])
async def test_an_update_stream_keeps_the_order_per_key_and_its_changes_fail_one_by_one(stub: AsyncStub, size: int) -> None:
    changes_ = [
        PolicyChangeRequest(sequence=sequence, update=update(sequence, "nowhere" if sequence % 50 == 0 else f"{TOPIC}-{sequence % 2}"))
        for sequence in range(1, 201)
    ]
    found, messages = await results(stub, *(changes_[at : at + size] for at in range(0, 200, size)))
    assert sorted(found) == list(range(1, 201))
    assert {sequence for sequence, result in found.items() if result.HasField("error")} == {50, 100, 150, 200}
    for which in (0, 1):
        applied = [found[sequence].updated for sequence in range(1, 201) if sequence % 2 == which and sequence % 50]
        assert all(later.previous_version == earlier.document.version for earlier, later in itertools.pairwise(applied))
    assert messages < 200, "results are not sent in batches"


async def test_a_batch_can_have_deletions_and_reports_changes_that_it_does_not_understand(stub: AsyncStub) -> None:
    batch = [
        PolicyChangeRequest(sequence=1, update=update(1)),
        PolicyChangeRequest(sequence=2, delete=DeletePolicyRequest(topic=TOPIC, include_previous=True)),
        PolicyChangeRequest(sequence=3),
        PolicyChangeRequest(sequence=4, update=update(4, topic="nowhere")),
    ]
    found, _ = await results(stub, batch)
    assert found[2].deleted.previous == found[1].updated.document
    assert found[3].error.code == found[4].error.code == grpc.StatusCode.INVALID_ARGUMENT.value[0]
    assert "update or delete" in found[3].error.message and not (await document(stub)).HasField("policies")


async def test_a_batch_of_too_many_changes_ends_the_stream_and_none_of_them_is_made(stub: AsyncStub) -> None:
    batch = [PolicyChangeRequest(sequence=number, update=update(1, topic=f"{TOPIC}-{number}")) for number in range(1_001)]
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await results(stub, [PolicyChangeRequest(sequence=5_000, update=update(1))], batch)
    assert Refusal(caught.value).violations == {"changes": "TOO_MANY_ELEMENTS"}
    assert [entry.topic for entry in (await stub.ListPolicies(ListPoliciesRequest(namespace=NAMESPACE))).documents] == [TOPIC]


@pytest.mark.slow
async def test_an_update_stream_whose_results_are_not_read_is_not_read_further(server: Server, stub: AsyncStub) -> None:
    sent = 0

    async def requests() -> AsyncIterator[UpdatePoliciesRequest]:
        nonlocal sent
        text = "x" * 10_000
        for number in range(2_000):
            big = TopicPolicies(max_producer_per_topic=number)
            big.entry_filters.entry_filter_names = text
            sent += 1
            yield UpdatePoliciesRequest(
                changes=[PolicyChangeRequest(sequence=number, update=UpdatePolicyRequest(topic=TOPIC, policies=big))]
            )

    call = stub.UpdatePolicies(requests())
    before = -1
    while before != sent:
        before = sent
        await asyncio.sleep(0.5)
    assert sent < 1_500, "the server reads on although its results are not read"
    found = {result.sequence async for message in call for result in message.results}
    assert found == set(range(2_000)) and sent == 2_000


async def test_pages_list_every_document_once_and_in_order_and_the_first_has_a_token_for_a_watch(stub: AsyncStub) -> None:
    topics = [f"{TOPIC}-{number:02d}" for number in range(25)]
    await asyncio.gather(*(stub.UpdatePolicy(update(1, topic=topic)) for topic in reversed(topics)))
    await stub.DeletePolicy(DeletePolicyRequest(topic=topics[3]))
    listed, token, watch_tokens = [], "", []
    while True:
        page = await stub.ListPolicies(ListPoliciesRequest(namespace=NAMESPACE, page_size=7, page_token=token))
        listed += [entry.topic for entry in page.documents]
        watch_tokens.append(page.HasField("token"))
        token = page.next_page_token
        if not token:
            break
    assert listed == topics[:3] + topics[4:]
    assert watch_tokens == [True, False, False, False]


async def test_a_watch_from_the_token_of_a_listing_misses_no_change(stub: AsyncStub) -> None:
    await stub.UpdatePolicy(update(1))
    page = await stub.ListPolicies(ListPoliciesRequest(namespace=NAMESPACE))
    second = await stub.UpdatePolicy(update(2))
    watch = WatchReader(stub, namespaces=[NAMESPACE], resume={NAMESPACE: page.token}, end_when_synced=True)
    assert [change.document for change in changes(await watch.rest())] == [second.document]


async def test_server_info_has_the_version_the_log_the_writer_mode_and_the_limits(
    server: Server, stub: AsyncStub, log_path: Path | None
) -> None:
    info = await stub.GetServerInfo(GetServerInfoRequest())
    kind = service_pb2.LOG_KIND_MEMORY if log_path is None else service_pb2.LOG_KIND_EMBEDDED
    assert info.version and (info.writer_mode, info.log) == (service_pb2.WRITER_MODE_SOLE, kind)
    assert info.limits.changes_per_stream == server.config.limits.max_in_flight_per_stream


async def test_health_and_reflection_services_answer(server: Server) -> None:
    async with grpc.aio.insecure_channel(server.address) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        answer = await health.Check(health_pb2.HealthCheckRequest(service="topicpolicies.v1.TopicPoliciesService"))
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
        request = reflection_pb2.ServerReflectionRequest(list_services="")
        call = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(iter([request]))
        async for found in call:
            assert "topicpolicies.v1.TopicPoliciesService" in {each.name for each in found.list_services_response.service}


async def test_a_stopping_server_ends_watches_with_a_bookmark_and_finishes_accepted_updates(server: Server, stub: AsyncStub) -> None:
    first = await stub.UpdatePolicy(update(1))
    namespace = server.registry.get(NAMESPACE)
    watch = WatchReader(stub, topics=[TOPIC])
    await watch.until_synced()
    updates = [asyncio.ensure_future(stub.UpdatePolicy(update(value))) for value in range(2, 34)]
    await asyncio.sleep(0.005)
    stopping = asyncio.create_task(server.stop())
    seen = []
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        while True:
            seen.append(await watch.next())
    assert Refusal(caught.value).info.reason == "SHUTTING_DOWN"
    assert list(seen[-1].bookmark.token.positions) >= [first.document.version]
    await stopping
    outcomes = await asyncio.gather(*updates, return_exceptions=True)
    answers = [outcome for outcome in outcomes if isinstance(outcome, service_pb2.UpdatePolicyResponse)]
    refusals = [outcome for outcome in outcomes if isinstance(outcome, grpc.aio.AioRpcError)]
    assert len(answers) + len(refusals) == len(updates)
    # gRPC cancels calls that have reached the process but not the service.
    assert {error.code() for error in refusals} <= {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED}
    following = {answer.previous_version: answer.document.version for answer in answers}
    version = first.document.version
    while version in following:
        version = following.pop(version)
    assert not following, "an answered update is not in the chain"
    assert namespace.version(PolicyKey(TOPIC, Scope.LOCAL)) == version, "an update in the chain was not answered"
