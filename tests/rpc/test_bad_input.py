"""Invalid requests are refused with the right status and with every violation, and change nothing."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message

from tests.stubs import AsyncStub
from topicpolicies.v1.policies_pb2 import SCOPE_GLOBAL, SCOPE_LOCAL, RetentionPolicies, TopicPolicies
from topicpolicies.v1.service_pb2 import (
    DeletePolicyRequest,
    GetPolicyRequest,
    ListPoliciesRequest,
    UpdatePolicyRequest,
    UpdatePolicyResponse,
    WatchPoliciesRequest,
    WatchToken,
)

from .conftest import TOPIC, Refusal, refused

SHADOW = "persistent://public/default/shadow"
INVALID = grpc.StatusCode.INVALID_ARGUMENT


@pytest.fixture
async def before(stub: AsyncStub) -> UpdatePolicyResponse:
    """Stores a document that no test may change."""
    policies = TopicPolicies(max_producer_per_topic=7, shadow_topics=[SHADOW])
    policies.retention_policies.CopyFrom(RetentionPolicies(retention_time_in_minutes=10, retention_size_in_mb=100))
    return await stub.UpdatePolicy(UpdatePolicyRequest(topic=TOPIC, policies=policies))


@pytest.fixture(autouse=True)
async def nothing_changes(stub: AsyncStub, before: UpdatePolicyResponse) -> AsyncIterator[None]:
    """Checks after every test of this module that the document is unchanged."""
    yield
    after = await stub.GetPolicy(GetPolicyRequest(topic=TOPIC, scopes=[SCOPE_LOCAL]))
    assert list(after.documents) == [before.document]


def masked(*paths: str, policies: TopicPolicies | None = None) -> UpdatePolicyRequest:
    """Returns an update with an explicit mask."""
    request = UpdatePolicyRequest(topic=TOPIC, policies=policies or TopicPolicies(max_producer_per_topic=1))
    request.update_mask.paths.extend(paths)
    return request


async def test_all_unknown_paths_are_reported_in_one_refusal(stub: AsyncStub) -> None:
    paths = ("max_producer_per_topic", "no_such", "retention_policies.neither", "dispatch_rate.nor")
    refusal = await refused(stub.UpdatePolicy(masked(*paths)))
    assert refusal.code is INVALID
    assert refusal.violations == {f"update_mask.paths[{index}]": "UNKNOWN_PATH" for index in (1, 2, 3)}
    assert refusal.info.domain == "topicpolicies"
    assert refusal.info.reason == "UNKNOWN_PATH"


@pytest.mark.parametrize(
    "path",
    [
        "replication_clusters[0]",
        "replication_clusters.0",
        "retention_policies..retention_time_in_minutes",
        "",
        "subscription_policies.`open",
        "back_log_quota_map.no_such_type",
    ],
)
async def test_a_malformed_path_or_one_into_a_list_or_an_unknown_map_key_is_refused(stub: AsyncStub, path: str) -> None:
    refusal = await refused(stub.UpdatePolicy(masked(path)))
    assert refusal.code is INVALID
    assert list(refusal.violations) == ["update_mask.paths[0]"]
    assert refusal.info.reason


async def test_a_wildcard_beside_other_paths_is_refused(stub: AsyncStub) -> None:
    refusal = await refused(stub.UpdatePolicy(masked("*", "max_producer_per_topic")))
    assert (refusal.code, refusal.info.reason) == (INVALID, "WILDCARD_NOT_ALONE")


async def test_an_update_without_a_setting_and_a_mask_is_refused(stub: AsyncStub) -> None:
    refusal = await refused(stub.UpdatePolicy(UpdatePolicyRequest(topic=TOPIC)))
    assert (refusal.code, refusal.info.reason) == (INVALID, "EMPTY_MASK")


async def test_an_object_without_all_of_its_required_fields_is_refused(stub: AsyncStub) -> None:
    half = TopicPolicies()
    half.persistence.bookkeeper_ensemble = 3
    refusal = await refused(stub.UpdatePolicy(masked("persistence", policies=half)))
    assert (refusal.code, refusal.info.reason) == (INVALID, "HALF_OBJECT")
    assert "bookkeeper_write_quorum" in refusal.message
    assert "bookkeeper_ack_quorum" in refusal.message


async def test_a_path_that_would_create_an_incomplete_object_is_refused(stub: AsyncStub) -> None:
    request = masked("inactive_topic_policies.delete_while_inactive")
    request.policies.inactive_topic_policies.delete_while_inactive = True
    refusal = await refused(stub.UpdatePolicy(request))
    assert (refusal.code, refusal.info.reason) == (INVALID, "HALF_OBJECT")


@pytest.mark.parametrize(
    "topic",
    ["", "orders", "public/orders", "persistent://public/default/", "kafka://public/default/orders", "persistent://pub lic/default/orders",
     "persistent:///default/orders", "persistent://public/default/-partition-0", "persistent://public/default/" + "x" * 2000,
     "persistent://public/default/a\nb"],
)  # fmt: skip
async def test_a_malformed_topic_is_refused_by_every_method(stub: AsyncStub, topic: str) -> None:
    calls: list[Callable[[], Awaitable[Message]]] = [
        lambda: stub.UpdatePolicy(UpdatePolicyRequest(topic=topic, policies=TopicPolicies(max_producer_per_topic=1))),
        lambda: stub.GetPolicy(GetPolicyRequest(topic=topic)),
        lambda: stub.DeletePolicy(DeletePolicyRequest(topic=topic)),
    ]
    for call in calls:
        refusal = await refused(call())
        assert (refusal.code, refusal.info.reason) == (INVALID, "MALFORMED_NAME")
        assert refusal.violations == {"topic": "MALFORMED_NAME"}


async def test_all_violations_of_a_request_are_reported_in_one_refusal(stub: AsyncStub) -> None:
    request = masked("no_such")
    request.topic = "nowhere"
    request.scope = 9  # type: ignore[assignment]
    request.request_id = "seven"
    refusal = await refused(stub.UpdatePolicy(request))
    assert refusal.code is INVALID
    assert refusal.info.reason == "INVALID_REQUEST"
    assert refusal.violations == {
        "topic": "MALFORMED_NAME",
        "scope": "UNKNOWN_SCOPE",
        "update_mask.paths[0]": "UNKNOWN_PATH",
        "request_id": "MALFORMED_REQUEST_ID",
    }


async def test_an_oversized_message_is_refused(stub: AsyncStub) -> None:
    policies = TopicPolicies()
    policies.entry_filters.entry_filter_names = "x" * (5 << 20)
    refusal = await refused(stub.UpdatePolicy(UpdatePolicyRequest(topic=TOPIC, policies=policies)))
    assert refusal.code is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_an_update_with_a_stale_etag_is_aborted_with_the_current_version(stub: AsyncStub, before: UpdatePolicyResponse) -> None:
    request = masked("max_producer_per_topic")
    request.etag = before.previous_version
    refusal = await refused(stub.UpdatePolicy(request))
    assert (refusal.code, refusal.info.reason) == (grpc.StatusCode.ABORTED, "ETAG_MISMATCH")
    assert refusal.info.metadata["version"] == before.document.version


async def test_a_deletion_with_a_stale_etag_is_aborted_with_the_current_version(stub: AsyncStub, before: UpdatePolicyResponse) -> None:
    refusal = await refused(stub.DeletePolicy(DeletePolicyRequest(topic=TOPIC, etag=before.previous_version)))
    assert (refusal.code, refusal.info.reason) == (grpc.StatusCode.ABORTED, "ETAG_MISMATCH")
    assert refusal.info.metadata["version"] == before.document.version


async def test_a_request_id_used_again_for_another_change_is_refused(stub: AsyncStub) -> None:
    other = "persistent://public/default/other"
    request = UpdatePolicyRequest(topic=other, policies=TopicPolicies(max_producer_per_topic=1), request_id=str(uuid.uuid4()))
    first = await stub.UpdatePolicy(request)
    request.policies.max_producer_per_topic = 2
    refusal = await refused(stub.UpdatePolicy(request))
    assert (refusal.code, refusal.info.reason) == (INVALID, "REQUEST_ID_REUSED")
    assert (await stub.GetPolicy(GetPolicyRequest(topic=other))).documents[0] == first.document
    refusal = await refused(stub.DeletePolicy(DeletePolicyRequest(topic=other, request_id=request.request_id)))
    assert (refusal.code, refusal.info.reason) == (INVALID, "REQUEST_ID_REUSED")


async def test_a_repeated_request_gets_the_answer_to_the_first_one(stub: AsyncStub) -> None:
    other = "persistent://public/default/other"
    request = UpdatePolicyRequest(topic=other, policies=TopicPolicies(max_producer_per_topic=1), request_id=str(uuid.uuid4()))
    first = await stub.UpdatePolicy(request)
    await stub.UpdatePolicy(UpdatePolicyRequest(topic=other, policies=TopicPolicies(max_producer_per_topic=2)))
    again = await stub.UpdatePolicy(request)
    assert again.replayed
    assert (again.version, again.previous_version, again.outcome) == (first.version, first.previous_version, first.outcome)
    assert not again.HasField("document"), "the document has changed since"
    assert first.version == first.document.version
    assert (await stub.GetPolicy(GetPolicyRequest(topic=other))).documents[0].policies.max_producer_per_topic == 2


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (ListPoliciesRequest(namespace="public"), "namespace"),
        (ListPoliciesRequest(namespace="public/default", page_size=-1), "page_size"),
        (ListPoliciesRequest(namespace="public/default", scopes=[SCOPE_LOCAL, SCOPE_GLOBAL, SCOPE_LOCAL]), "scopes"),
        (ListPoliciesRequest(namespace="public/default", scopes=[7]), "scopes[0]"),  # type: ignore[list-item]
        (ListPoliciesRequest(namespace="public/default", page_token="?"), "page_token"),
        (ListPoliciesRequest(namespace="public/default", page_token="AAAA"), "page_token"),
    ],
)
async def test_a_malformed_listing_is_refused(stub: AsyncStub, request_: ListPoliciesRequest, field: str) -> None:
    refusal = await refused(stub.ListPolicies(request_))
    assert refusal.code is INVALID
    assert list(refusal.violations) == [field]


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (WatchPoliciesRequest(), "topics"),
        (WatchPoliciesRequest(topics=[TOPIC, "nowhere"]), "topics[1]"),
        (WatchPoliciesRequest(namespaces=["nowhere"]), "namespaces[0]"),
        (WatchPoliciesRequest(topics=[TOPIC], mode=7), "mode"),  # type: ignore[arg-type]
        (WatchPoliciesRequest(topics=[TOPIC], bookmark_interval=Duration(nanos=1)), "bookmark_interval"),
        (WatchPoliciesRequest(topics=[TOPIC], from_beginning=True), "from_beginning"),
        (WatchPoliciesRequest(topics=[TOPIC], scopes=[SCOPE_LOCAL, SCOPE_LOCAL]), "scopes[1]"),
        (WatchPoliciesRequest(topics=[TOPIC], resume={"public/elsewhere": WatchToken(log="x", positions=["1"])}), "resume"),
    ],
)
async def test_a_malformed_watch_is_refused(stub: AsyncStub, request_: WatchPoliciesRequest, field: str) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        async for _ in stub.WatchPolicies(request_):
            pass
    refusal = Refusal(caught.value)
    assert refusal.code is INVALID
    assert list(refusal.violations) == [field]
