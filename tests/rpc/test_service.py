"""What the service promises, tested over real gRPC."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest

from tests.stubs import AsyncStub
from topicpolicies.v1 import service_pb2
from topicpolicies.v1.policies_pb2 import SCOPE_LOCAL, PolicyDocument, TopicPolicies
from topicpolicies.v1.service_pb2 import (
    DeletePolicyRequest,
    GetPolicyRequest,
    GetServerInfoRequest,
    PolicyChangeRequest,
    PolicyChangeResult,
    UpdatePoliciesRequest,
    UpdatePolicyRequest,
)
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.rpc.server import Server

from .conftest import TOPIC, Refusal
from .watching import WatchReader

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


async def test_server_info_has_the_version_the_log_the_writer_mode_and_the_limits(
    server: Server, stub: AsyncStub, log_path: Path | None
) -> None:
    info = await stub.GetServerInfo(GetServerInfoRequest())
    kind = service_pb2.LOG_KIND_MEMORY if log_path is None else service_pb2.LOG_KIND_EMBEDDED
    assert info.version and (info.writer_mode, info.log) == (service_pb2.WRITER_MODE_SOLE, kind)
    assert info.limits.changes_per_stream == server.config.limits.max_in_flight_per_stream


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
