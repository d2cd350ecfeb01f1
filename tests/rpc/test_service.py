"""What the service promises, tested over real gRPC."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path

import grpc
import pytest

from tests.stubs import AsyncStub, batch
from topicpolicies.v1 import service_pb2
from topicpolicies.v1.policies_pb2 import PolicyDocument, TopicPolicies
from topicpolicies.v1.service_pb2 import (
    DeletePolicyRequest,
    GetPolicyRequest,
    GetServerInfoRequest,
    PolicyChangeResult,
    Precondition,
    UpdatePolicyRequest,
)
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.rpc.server import Server

from .conftest import TOPIC, Refusal, refused
from .watching import WatchReader

NAMESPACE = "public/default"


def update(value: int, topic: str = TOPIC, **more: object) -> UpdatePolicyRequest:
    """Returns an update of one setting."""
    return UpdatePolicyRequest(topic=topic, policies=TopicPolicies(max_producer_per_topic=value), **more)  # type: ignore[arg-type]


async def document(stub: AsyncStub, topic: str = TOPIC) -> PolicyDocument:
    """Returns the LOCAL document."""
    return await stub.GetPolicy(GetPolicyRequest(topic=topic))


@pytest.mark.parametrize("size", [1, 7, 200])
async def test_batches_keep_the_order_per_key_and_their_changes_fail_one_by_one(stub: AsyncStub, size: int) -> None:
    changes = [update(number, "nowhere" if number % 50 == 0 else f"{TOPIC}-{number % 2}") for number in range(1, 201)]
    found: list[PolicyChangeResult] = []
    for at in range(0, 200, size):
        found += (await stub.BatchUpdatePolicies(batch(*changes[at : at + size]))).results
    assert [number for number, result in enumerate(found, 1) if result.HasField("error")] == [50, 100, 150, 200]
    for which in (0, 1):
        applied = [found[number - 1].success for number in range(1, 201) if number % 2 == which and number % 50]
        assert all(later.previous_version == earlier.document.version for earlier, later in itertools.pairwise(applied))


async def test_a_batch_can_have_deletions_and_refuses_changes_that_say_nothing(stub: AsyncStub) -> None:
    request = batch(update(1), DeletePolicyRequest(topic=TOPIC, include_previous=True))
    request.changes.add()
    request.changes.add().update.CopyFrom(update(4, topic="nowhere"))
    made, deleted, nothing, nowhere = (await stub.BatchUpdatePolicies(request)).results
    assert deleted.success.previous == made.success.document
    assert nothing.error.code == nowhere.error.code == grpc.StatusCode.INVALID_ARGUMENT.value[0]
    assert "update or delete" in nothing.error.message and not (await document(stub)).HasField("policies")


async def test_an_empty_batch_has_an_empty_answer(stub: AsyncStub) -> None:
    assert not (await stub.BatchUpdatePolicies(batch())).results


@pytest.mark.parametrize("deletes", [False, True])
async def test_a_precondition_that_does_not_hold_is_a_conflict_with_the_present_version(stub: AsyncStub, deletes: bool) -> None:
    async def change(**precondition: object) -> service_pb2.ChangeResult:
        condition = Precondition(**precondition)  # type: ignore[arg-type]
        if deletes:
            return await stub.DeletePolicy(DeletePolicyRequest(topic=TOPIC, precondition=condition))
        return await stub.UpdatePolicy(update(7, precondition=condition))

    async def conflict(present: str, /, **precondition: object) -> None:
        refusal = await refused(change(**precondition))
        assert (refusal.code, refusal.info.reason) == (grpc.StatusCode.ABORTED, "PRECONDITION_FAILED")
        assert dict(refusal.info.metadata) == {"topic": TOPIC, "scope": "LOCAL", "version": present}

    await conflict("0", exists=True)
    await conflict("0", version="11")
    version = (await stub.UpdatePolicy(update(1))).version
    await conflict(version, exists=False)
    await conflict(version, version="0")
    assert (await refused(change(version=""))).violations == {"precondition.version": "MALFORMED_VERSION"}
    assert (await change(exists=True)).outcome == service_pb2.CHANGE_OUTCOME_APPLIED
    assert (await change()).outcome


async def test_server_info_has_the_version_the_log_and_the_writer_mode(stub: AsyncStub, log_path: Path | None) -> None:
    info = await stub.GetServerInfo(GetServerInfoRequest())
    kind = service_pb2.LOG_KIND_MEMORY if log_path is None else service_pb2.LOG_KIND_EMBEDDED
    assert info.version and (info.writer_mode, info.log) == (service_pb2.WRITER_MODE_SOLE, kind)


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
    assert seen[-1].HasField("bookmark")
    await stopping
    outcomes = await asyncio.gather(*updates, return_exceptions=True)
    answers = [outcome for outcome in outcomes if isinstance(outcome, service_pb2.ChangeResult)]
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
