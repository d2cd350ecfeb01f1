"""Regressions: places where the server once differed from the API's definitions."""

from __future__ import annotations

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.field_mask_pb2 import FieldMask

from tests.stubs import AsyncStub
from topicpolicies.v1.policies_pb2 import SCOPE_LOCAL, TopicPolicies
from topicpolicies.v1.service_pb2 import (
    LIST_OPERATION_UNION,
    GetPolicyRequest,
    ListPoliciesRequest,
    UpdatePolicyRequest,
    WatchPoliciesRequest,
)

from .conftest import TOPIC, Refusal, refused

NAMESPACE = "public/default"
INVALID = grpc.StatusCode.INVALID_ARGUMENT


async def test_a_listing_resumes_after_topics_with_the_longest_names(stub: AsyncStub) -> None:
    stem = f"persistent://{NAMESPACE}/"
    topics = [stem + "\N{GRINNING FACE}" * (1_023 - len(stem)) + letter for letter in "ab"]
    for topic in topics:
        await stub.UpdatePolicy(UpdatePolicyRequest(topic=topic, policies=TopicPolicies(max_producer_per_topic=1)))
    first = await stub.ListPolicies(ListPoliciesRequest(namespace=NAMESPACE, page_size=1))
    second = await stub.ListPolicies(ListPoliciesRequest(namespace=NAMESPACE, page_size=1, page_token=first.next_page_token))
    assert [document.topic for page in (first, second) for document in page.documents] == topics


@pytest.mark.parametrize("mask", [["subscription_types_enabled"], []])
@pytest.mark.parametrize("union", [False, True])
async def test_a_negative_number_in_a_list_of_enums_is_refused_as_unknown(stub: AsyncStub, mask: list[str], union: bool) -> None:
    request = UpdatePolicyRequest(topic=TOPIC, update_mask=FieldMask(paths=mask))
    request.policies.subscription_types_enabled.extend([1, -1, -2147483648])  # type: ignore[list-item]
    if union:
        request.list_operations["subscription_types_enabled"] = LIST_OPERATION_UNION
    refusal = await refused(stub.UpdatePolicy(request))
    assert (refusal.code, refusal.info.reason) == (INVALID, "INVALID_REQUEST")
    assert set(refusal.violations.values()) == {"UNKNOWN_ENUM_VALUE"}


@pytest.mark.parametrize("name", ["t\n/n/x", "t/n\n/x", "persistent://t/n\n/x"])
async def test_a_name_with_a_newline_at_the_end_of_a_part_is_malformed(stub: AsyncStub, name: str) -> None:
    assert (await refused(stub.GetPolicy(GetPolicyRequest(topic=name)))).violations == {"topic": "MALFORMED_NAME"}
    namespace = name.removeprefix("persistent://").rpartition("/")[0]
    assert (await refused(stub.ListPolicies(ListPoliciesRequest(namespace=namespace)))).violations == {"namespace": "MALFORMED_NAME"}


async def test_all_violations_of_a_request_are_reported_together_by_every_method(stub: AsyncStub) -> None:
    read = GetPolicyRequest(topic="nowhere", scope=7, at_least_version="x" * 257)  # type: ignore[arg-type]
    assert set((await refused(stub.GetPolicy(read))).violations) == {"topic", "scope", "at_least_version"}
    update = UpdatePolicyRequest(topic="nowhere", policies=TopicPolicies(max_producer_per_topic=1), actor="x" * 257)
    assert set((await refused(stub.UpdatePolicy(update))).violations) == {"topic", "actor"}
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        async for _ in stub.WatchPolicies(WatchPoliciesRequest(mode=9, bookmark_interval=Duration(seconds=-1, nanos=2_100_000_000))):  # type: ignore[arg-type]
            pass
    assert set(Refusal(caught.value).violations) == {"topics", "mode", "bookmark_interval"}
    masked = UpdatePolicyRequest(topic=TOPIC, update_mask=FieldMask(paths=["nope"]))
    for name in ("a", "b", "c", "d"):
        masked.list_operations[name] = LIST_OPERATION_UNION
    assert set((await refused(stub.UpdatePolicy(masked))).violations) == {"list_operations", "update_mask.paths[0]"}


@pytest.mark.parametrize("scopes", [[7, SCOPE_LOCAL], [7, 8], [9, 9]])
async def test_a_number_that_is_not_a_scope_is_reported_as_unknown_and_not_as_a_repeated_scope(stub: AsyncStub, scopes: list[int]) -> None:
    refusal = await refused(stub.ListPolicies(ListPoliciesRequest(namespace=NAMESPACE, scopes=scopes)))  # type: ignore[arg-type]
    assert set(refusal.violations.values()) == {"UNKNOWN_SCOPE"}


async def test_several_violations_of_an_update_have_the_same_common_reason_with_and_without_a_mask(stub: AsyncStub) -> None:
    policies = TopicPolicies(max_producer_per_topic=-1)
    policies.retention_policies.retention_time_in_minutes = 1
    for paths in (["max_producer_per_topic", "retention_policies"], []):
        refusal = await refused(stub.UpdatePolicy(UpdatePolicyRequest(topic=TOPIC, policies=policies, update_mask=FieldMask(paths=paths))))
        assert (set(refusal.violations.values()), refusal.info.reason) == ({"NEGATIVE", "HALF_OBJECT"}, "INVALID_REQUEST")
