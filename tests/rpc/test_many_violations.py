"""A request with very many violations is refused with bounded details: gRPC peers drop answers whose metadata exceed 8 KiB."""

from __future__ import annotations

import grpc
import pytest

from tests.stubs import AsyncStub
from topicpolicies.masks import format_path
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies.v1.service_pb2 import UpdatePolicyRequest

from .conftest import TOPIC, refused


@pytest.mark.parametrize(
    "path", ["no_such_field", "ü" * 64, "subscription_policies.`" + "s" * 60 + "`.no_such_field"], ids=["ascii", "two bytes", "long"]
)
async def test_of_five_hundred_invalid_paths_the_first_are_named_and_the_others_counted(stub: AsyncStub, path: str) -> None:
    request = UpdatePolicyRequest(topic=TOPIC)
    request.update_mask.paths.extend([path] * 500)
    for _ in range(5):  # above 8 KiB a peer refuses at random
        refusal = await refused(stub.UpdatePolicy(request))
        assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT
        assert refusal.info.reason == "INVALID_REQUEST"
        assert refusal.violations["update_mask.paths[0]"] == "UNKNOWN_PATH"
        assert "MORE_VIOLATIONS" in refusal.violations.values()
        assert "more" in refusal.message


async def test_a_violation_with_a_very_long_field_name_is_refused(stub: AsyncStub) -> None:
    key = "ü" * 4_000
    policies = TopicPolicies()
    policies.back_log_quota_map[key].limit_time = 1
    request = UpdatePolicyRequest(topic=TOPIC, policies=policies)
    request.update_mask.paths.append("back_log_quota_map")
    for _ in range(5):
        refusal = await refused(stub.UpdatePolicy(request))
        assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT
    assert len(format_path((key,))) > 4_000
