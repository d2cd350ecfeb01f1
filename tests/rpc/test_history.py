"""ListHistory and documents as of the past, from a server that is used and restarted."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import grpc
import pytest
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.timestamp_pb2 import Timestamp

from tests.rpc.conftest import TOPIC, refused
from tests.rpc.watching import WatchReader
from tests.stubs import AsyncStub, async_stub
from topicpolicies.secrets import REDACTED
from topicpolicies.v1 import policies_pb2 as pb
from topicpolicies.v1 import service_pb2
from topicpolicies_server.config import EmbeddedLogConfig, HistoryConfig, ServerConfig, history_beside, parse_address
from topicpolicies_server.rpc.server import Server

NAMESPACE = "public/default"
LOCAL = (pb.SCOPE_LOCAL,)
Serving = Callable[[], AbstractAsyncContextManager[AsyncStub]]


@pytest.fixture
def config(tmp_path: Path) -> ServerConfig:
    log = tmp_path / "policies.db"
    return ServerConfig(
        log=EmbeddedLogConfig(path=log), listen=parse_address("127.0.0.1:0"), history=HistoryConfig(path=history_beside(log))
    )


@pytest.fixture
def serving(config: ServerConfig) -> Serving:
    """Returns a function that starts a server, each time on the same files."""

    @asynccontextmanager
    async def start() -> AsyncIterator[AsyncStub]:
        async with Server(config) as server, grpc.aio.insecure_channel(server.address) as channel:
            yield async_stub(channel)

    return start


@pytest.fixture
async def stub(serving: Serving) -> AsyncIterator[AsyncStub]:
    async with serving() as stub:
        yield stub


async def update(stub: AsyncStub, value: int | None, actor: str = "ann", topic: str = TOPIC) -> service_pb2.UpdatePolicyResponse:
    request = service_pb2.UpdatePolicyRequest(
        topic=topic, policies=pb.TopicPolicies(max_producer_per_topic=value), update_mask=FieldMask(paths=["max_producer_per_topic"])
    )
    return await stub.UpdatePolicy(request, metadata=(("topicpolicies-actor", actor),) if actor else ())


async def listed(stub: AsyncStub, **question: object) -> service_pb2.ListHistoryResponse:
    request = service_pb2.ListHistoryRequest(**question)  # type: ignore[arg-type]
    if not (request.topic or request.namespace):
        request.topic = TOPIC
    return await stub.ListHistory(request)


def values(answer: service_pb2.ListHistoryResponse) -> list[tuple[int, int]]:
    return [(entry.previous.policies.max_producer_per_topic, entry.document.policies.max_producer_per_topic) for entry in answer.entries]


async def test_an_entry_says_who_changed_what_when_from_what_to_what(stub: AsyncStub) -> None:
    begin = time.time()
    first = await update(stub, 1)
    second = await update(stub, 2, actor="")
    answer = await listed(stub)
    assert answer.following
    assert not answer.gaps
    newest, oldest = answer.entries
    assert (newest.document, newest.previous, newest.position) == (second.document, first.document, second.version)
    assert (newest.origin.actor, newest.origin.actor_standing) == ("", service_pb2.ACTOR_STANDING_UNKNOWN)
    assert (oldest.origin.actor, oldest.origin.actor_standing) == ("ann", service_pb2.ACTOR_STANDING_UNAUTHENTICATED)
    assert oldest.HasField("previous") and not oldest.previous.HasField("policies"), (
        "the entry does not record that there was no document before"
    )
    assert list(oldest.origin.update_mask.paths) == list(oldest.changed.paths) == ["max_producer_per_topic"]
    assert (oldest.document.topic, oldest.document.scope, oldest.kind) == (TOPIC, pb.SCOPE_LOCAL, service_pb2.HISTORY_KIND_UPDATE)
    assert oldest.outcome == service_pb2.HISTORY_OUTCOME_APPLIED
    assert (oldest.origin.request_id, newest.origin.request_id) == (first.request_id, second.request_id)
    assert begin - 1 <= oldest.time.seconds <= newest.time.seconds <= time.time()


async def test_a_request_id_is_returned_in_one_form_however_it_was_written(stub: AsyncStub) -> None:
    sent = uuid.uuid4()
    asked = service_pb2.UpdatePolicyRequest(topic=TOPIC, policies=pb.TopicPolicies(max_producer_per_topic=1), request_id=str(sent).upper())

    async def stream() -> AsyncIterator[service_pb2.UpdatePoliciesRequest]:
        yield service_pb2.UpdatePoliciesRequest(changes=[service_pb2.PolicyChangeRequest(update=asked)])

    watch = WatchReader(stub, topics=[TOPIC])
    await watch.until_synced()
    updated = await stub.UpdatePolicy(asked)
    watched = await watch.change()
    watch.cancel()
    (streamed,) = [result.updated async for answer in stub.UpdatePolicies(stream()) for result in answer.results]
    asked.request_id = sent.hex
    again = await stub.UpdatePolicy(asked)
    assert again.replayed and streamed.replayed
    deletion = uuid.uuid4()
    deleted = await stub.DeletePolicy(service_pb2.DeletePolicyRequest(topic=TOPIC, request_id=str(deletion)))
    assert deleted.request_id == deletion.hex
    entries = (await listed(stub)).entries
    assert [entry.origin.request_id for entry in entries if entry.origin.request_id][::-1] == [sent.hex, deletion.hex]
    assert {updated.request_id, again.request_id, streamed.request_id, watched.origin.request_id} == {sent.hex}


async def test_a_page_size_above_the_maximum_means_the_maximum(stub: AsyncStub) -> None:
    await update(stub, 1)
    assert values(await listed(stub, page_size=1001)) == [(0, 1)], "a page size above the maximum is not refused (AIP-158)"
    assert len((await stub.ListPolicies(service_pb2.ListPoliciesRequest(namespace=NAMESPACE, page_size=2**31 - 1))).documents) == 1


async def test_a_page_token_is_refused_with_another_namespace_scope_topic_or_actor(stub: AsyncStub) -> None:
    for number in range(3):
        await update(stub, number, topic=f"{TOPIC}-{number}")
        await update(stub, number, topic=f"persistent://public/other/orders-{number}")
    page = await stub.ListPolicies(service_pb2.ListPoliciesRequest(namespace=NAMESPACE, page_size=1))
    for question in ({"namespace": "public/other"}, {"namespace": NAMESPACE, "scopes": [pb.SCOPE_GLOBAL]}):
        refusal = await refused(stub.ListPolicies(service_pb2.ListPoliciesRequest(**question, page_token=page.next_page_token)))
        assert refusal.violations == {"page_token": "MALFORMED_TOKEN"}
    for question in ({"namespace": NAMESPACE}, {"namespace": NAMESPACE, "actor": "ann"}):
        token = (await listed(stub, **question, page_size=1)).next_page_token
        for other in ({"namespace": "public/other"}, {"topic": TOPIC}, {"namespace": NAMESPACE, "actor": "bob"}):
            assert (await refused(listed(stub, **other, page_token=token))).violations == {"page_token": "MALFORMED_TOKEN"}


async def test_a_deletion_and_its_tombstone_have_different_kinds(stub: AsyncStub) -> None:
    await update(stub, 1)
    await stub.DeletePolicy(service_pb2.DeletePolicyRequest(topic=TOPIC))
    await update(stub, 2)
    answer = await listed(stub, order=service_pb2.HISTORY_ORDER_OLDEST_FIRST)
    deletion = answer.entries[1]
    assert deletion.kind == service_pb2.HISTORY_KIND_DELETE
    assert deletion.previous.policies.max_producer_per_topic == 1
    assert not deletion.document.HasField("policies")
    kinds = [entry.kind for entry in answer.entries if entry.kind != service_pb2.HISTORY_KIND_TOMBSTONE]
    assert kinds == [service_pb2.HISTORY_KIND_UPDATE, service_pb2.HISTORY_KIND_DELETE, service_pb2.HISTORY_KIND_UPDATE]


async def test_the_history_is_paged_and_filtered_by_topic_namespace_actor_time_and_scope(stub: AsyncStub) -> None:
    other = f"persistent://{NAMESPACE}/other"
    for number in range(1, 8):
        await update(stub, number, actor="ann" if number % 2 else "bob")
        await asyncio.sleep(0.005)
    await update(stub, 100, topic=other)
    oldest_first = service_pb2.HISTORY_ORDER_OLDEST_FIRST
    found: list[tuple[int, int]] = []
    token = ""
    for size in (3, 3, 3):
        page = await listed(stub, page_size=size, page_token=token, order=oldest_first)
        found += values(page)
        token = page.next_page_token
    assert found == [(number - 1, number) for number in range(1, 8)]
    assert token == ""
    assert values(await listed(stub, actor="bob")) == [(5, 6), (3, 4), (1, 2)]
    assert not (await listed(stub, actor="")).entries
    assert values(await listed(stub, namespace=NAMESPACE, page_size=2)) == [(0, 100), (6, 7)]
    everything = (await listed(stub, order=oldest_first)).entries
    part = await listed(stub, start_time=everything[2].time, end_time=everything[4].time)
    assert values(part) == [(3, 4), (2, 3)]
    begin, end = Timestamp(), Timestamp()
    begin.FromNanoseconds(everything[2].time.ToNanoseconds() + 500_000)
    end.FromNanoseconds(everything[4].time.ToNanoseconds() + 500_000)
    assert values(await listed(stub, start_time=begin, end_time=end)) == [(4, 5), (3, 4)], "the bounds are between two milliseconds"
    assert not (await listed(stub, scopes=[pb.SCOPE_GLOBAL])).entries


async def test_changes_between_two_pages_neither_repeat_nor_hide_entries(stub: AsyncStub) -> None:
    for number in range(1, 5):
        await update(stub, number)
    first = await listed(stub, page_size=2)
    await update(stub, 5)
    second = await listed(stub, page_size=2, page_token=first.next_page_token)
    assert values(first) + values(second) == [(3, 4), (2, 3), (1, 2), (0, 1)]


async def test_a_document_can_be_read_as_of_a_time_and_as_of_a_version(stub: AsyncStub) -> None:
    before = Timestamp()
    before.GetCurrentTime()
    await asyncio.sleep(0.01)
    versions = []
    times = []
    for number in (1, 2, 3):
        versions.append((await update(stub, number)).version)
        await asyncio.sleep(0.01)
        times.append(Timestamp())
        times[-1].GetCurrentTime()
        await asyncio.sleep(0.01)
    for number, version, moment in zip((1, 2, 3), versions, times, strict=True):
        then = (await stub.GetPolicy(service_pb2.GetPolicyRequest(topic=TOPIC, as_of_time=moment))).documents
        assert (then[0].policies.max_producer_per_topic, then[0].version) == (number, version)
        assert (then[1].scope, then[1].HasField("policies"), then[1].version) == (pb.SCOPE_GLOBAL, False, "0")
        (exactly,) = (await stub.GetPolicy(service_pb2.GetPolicyRequest(topic=TOPIC, scopes=LOCAL, as_of_version=version))).documents
        assert exactly == then[0]
    (then_none,) = (await stub.GetPolicy(service_pb2.GetPolicyRequest(topic=TOPIC, scopes=LOCAL, as_of_time=before))).documents
    assert (then_none.HasField("policies"), then_none.version) == (False, "0")


async def test_the_history_is_kept_over_restarts_without_gaps_or_repeated_entries(serving: Serving) -> None:
    async with serving() as stub:
        await update(stub, 1)
        await update(stub, 2)
    async with serving() as stub:
        await update(stub, 3)
    async with serving() as stub:
        answer = await listed(stub)
        assert values(answer) == [(2, 3), (1, 2), (0, 1)]
        assert not answer.gaps


async def test_the_history_stores_no_secrets_but_records_that_they_changed(serving: Serving, config: ServerConfig) -> None:
    async with serving() as stub:
        for secret in ("hush", "hush2"):
            offload = pb.OffloadPolicies(managed_ledger_offload_driver="aws-s3", managed_ledger_offload_bucket="b")
            offload.managed_ledger_offload_region = "r"
            offload.s3_managed_ledger_offload_credential_secret = secret
            policies = pb.TopicPolicies(offload_policies=offload)
            await stub.UpdatePolicy(service_pb2.UpdatePolicyRequest(topic=TOPIC, policies=policies))
        answer = await listed(stub)
    newest = answer.entries[0]
    assert list(newest.changed.paths) == ["offload_policies"]
    assert newest.previous.policies == newest.document.policies
    assert newest.document.policies.offload_policies.s3_managed_ledger_offload_credential_secret == REDACTED
    assert config.history is not None
    assert b"hush" not in config.history.path.read_bytes()


@pytest.mark.parametrize(
    ("question", "fields"),
    [
        ({"topic": TOPIC, "namespace": NAMESPACE}, {"topic"}),
        ({"topic": "x", "page_size": -1, "order": 9}, {"topic", "page_size", "order"}),
        ({"topic": TOPIC, "page_token": "bm9uc2Vuc2U="}, {"page_token"}),
        ({"topic": TOPIC, "start_time": Timestamp(seconds=-1)}, {"start_time"}),
        ({"topic": TOPIC, "actor": "x" * 257}, {"actor"}),
    ],
)
async def test_all_violations_of_a_history_query_are_reported_in_one_refusal(
    stub: AsyncStub, question: dict[str, object], fields: set[str]
) -> None:
    refusal = await refused(listed(stub, **question))
    assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT
    assert set(refusal.violations) == fields


async def test_a_page_token_of_a_topics_history_is_refused_with_an_actor_added(stub: AsyncStub) -> None:
    await update(stub, 1)
    await update(stub, 2)
    token = (await listed(stub, page_size=1)).next_page_token
    assert token
    refusal = await refused(listed(stub, page_size=1, page_token=token, actor="bob"))
    assert refusal.violations == {"page_token": "MALFORMED_TOKEN"}


async def test_invalid_reads_of_the_past_are_refused(stub: AsyncStub) -> None:
    later = Timestamp(seconds=int(time.time()) + 3600)
    refusal = await refused(stub.GetPolicy(service_pb2.GetPolicyRequest(topic=TOPIC, as_of_time=later)))
    assert refusal.violations == {"as_of_time": "IN_THE_FUTURE"}
    for of_one_scope in ({"as_of_version": "1"}, {"at_least_version": "1"}):
        refusal = await refused(stub.GetPolicy(service_pb2.GetPolicyRequest(topic=TOPIC, **of_one_scope)))  # type: ignore[arg-type]
        assert refusal.violations == {"scopes": "CONTRADICTION"}
    refusal = await refused(stub.GetPolicy(service_pb2.GetPolicyRequest(topic=TOPIC, scopes=LOCAL, as_of_version="r9")))
    assert (refusal.code, refusal.info.reason) == (grpc.StatusCode.OUT_OF_RANGE, "NOT_IN_HISTORY")


async def test_a_server_without_a_history_refuses_history_queries(config: ServerConfig) -> None:
    async with Server(replace(config, history=None)) as server, grpc.aio.insecure_channel(server.address) as channel:
        refusal = await refused(listed(async_stub(channel)))
    assert (refusal.code, refusal.info.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "HISTORY_OFF")


async def test_a_history_that_another_server_uses_is_refused_at_the_start(serving: Serving, config: ServerConfig, tmp_path: Path) -> None:
    async with serving():
        other = replace(config, log=EmbeddedLogConfig(path=tmp_path / "other.db"))
        with pytest.raises(Exception, match="in use"):
            await Server(other).start()
