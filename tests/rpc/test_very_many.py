"""Requests with very much in them are answered as they should be, and hold up no other call."""

from __future__ import annotations

import time

import grpc
import pytest
from google.protobuf.field_mask_pb2 import FieldMask

from tests.stubs import AsyncStub
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies.v1.service_pb2 import LIST_OPERATION_UNION, GetPolicyRequest, UpdatePolicyRequest
from topicpolicies_server.core.errors import PolicyError
from topicpolicies_server.rpc.requests import read_change

from .conftest import TOPIC, refused

INVALID = grpc.StatusCode.INVALID_ARGUMENT
CONFIGURATIONS = "offload_policies.managed_ledger_extra_configurations"


def configured(first: int, last: int) -> TopicPolicies:
    policies = TopicPolicies()
    policies.offload_policies.managed_ledger_offload_driver = "filesystem"
    for number in range(first, last):
        policies.offload_policies.managed_ledger_extra_configurations[f"k{number}"] = "v"
    return policies


@pytest.mark.parametrize("paths", [["offload_policies"], ["*"], []])
async def test_a_map_inside_an_object_has_no_more_elements_than_any_other(stub: AsyncStub, paths: list[str]) -> None:
    request = UpdatePolicyRequest(topic=TOPIC, policies=configured(0, 5_001), update_mask=FieldMask(paths=paths))
    refusal = await refused(stub.UpdatePolicy(request))
    assert (refusal.code, refusal.violations) == (INVALID, {f"policies.{CONFIGURATIONS}": "TOO_MANY_ELEMENTS"})


async def test_several_updates_make_no_longer_maps_and_lists_than_one(stub: AsyncStub) -> None:
    whole = UpdatePolicyRequest(topic=TOPIC, policies=configured(0, 5_000), update_mask=FieldMask(paths=["offload_policies"]))
    assert (await stub.UpdatePolicy(whole)).version
    refusal = await refused(stub.UpdatePolicy(UpdatePolicyRequest(topic=TOPIC, policies=configured(5_000, 5_001))))
    assert (refusal.code, refusal.violations) == (INVALID, {f"policies.{CONFIGURATIONS}": "TOO_MANY_ELEMENTS"})

    shadows = UpdatePolicyRequest(topic=TOPIC, update_mask=FieldMask(paths=["shadow_topics"]))
    shadows.policies.shadow_topics.extend(f"persistent://public/default/s{number}" for number in range(5_000))
    await stub.UpdatePolicy(shadows)
    shadows.list_operations["shadow_topics"] = LIST_OPERATION_UNION
    shadows.policies.shadow_topics[:] = ["persistent://public/default/one-more"]
    refusal = await refused(stub.UpdatePolicy(shadows))
    assert (refusal.code, refusal.violations) == (INVALID, {"policies.shadow_topics": "TOO_MANY_ELEMENTS"})

    beside = UpdatePolicyRequest(topic=TOPIC, policies=TopicPolicies(max_producer_per_topic=7))
    assert (await stub.UpdatePolicy(beside)).document.policies.max_producer_per_topic == 7
    document = await stub.GetPolicy(GetPolicyRequest(topic=TOPIC))
    assert len(document.policies.shadow_topics) == len(document.policies.offload_policies.managed_ledger_extra_configurations) == 5_000


def test_a_mask_of_very_many_paths_is_refused_before_they_are_read() -> None:
    request = UpdatePolicyRequest(topic=TOPIC, update_mask=FieldMask(paths=[""] * 1_000_000))
    began = time.thread_time()
    with pytest.raises(PolicyError) as refusal:
        read_change(request)
    assert refusal.value.violations[0].reason == "TOO_MANY_PATHS"
    assert time.thread_time() - began < 0.01
