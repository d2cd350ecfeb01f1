"""The rules, compared with a real broker: gRPC refuses what the admin API refuses and accepts the rest, with documented exceptions."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

import grpc
import pytest
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo
from google.rpc.status_pb2 import Status

from tests.broker.admin import Admin, AdminError
from tests.broker.policy_case import ELSEWHERE, HERE, replicated_namespace, stop_replicating
from tests.broker.pulsar_broker import Broker
from tests.broker.rule_cases import CASES, DIFFERENCES, TAKEN, RuleCase, Where
from tests.promises.server_process import ServerProcess
from tests.stubs import one, reading
from topicpolicies.v1 import service_pb2
from topicpolicies.v1.policies_pb2 import Scope as ScopeNumber
from topicpolicies.v1.service_pb2_grpc import TopicPoliciesServiceStub
from topicpolicies_server.core.rules import RULES

# These tests share clusters and tenants that they add to the broker.
pytestmark = [pytest.mark.broker, pytest.mark.xdist_group("rules")]

_SECONDS = 30
_DOCS = Path(__file__).parents[2] / "docs" / "rules.md"
_UNTRIED = {
    ("entry_filters", "UNKNOWN_ENTRY_FILTER"),
    ("replication_clusters", "LOCAL_CLUSTER_UNKNOWN"),
    ("shadow_topics", "NOT_PERSISTENT"),
}
"""Rules that no update on this broker can violate: it doesn't list its filters, its name is known, and its topics are persistent."""


class Both(NamedTuple):
    """A broker and a server on its log."""

    admin: Admin
    stub: TopicPoliciesServiceStub
    namespaces: dict[Where, str]
    numbers: Iterator[int]

    def topic(self, case: RuleCase) -> str:
        """Prepares a topic for a case, and returns ``tenant/namespace/topic``."""
        topic = f"{self.namespaces[case.where]}/case-{next(self.numbers)}"
        if case.exists and case.local:
            self.admin.create_topic(topic, partitions=1)
        elif case.exists:
            self.admin.create_topic(topic)
        for call in case.before:
            assert self.call(topic, call) == TAKEN
        return topic + case.local

    def call(self, topic: str, call: tuple[str, str, object]) -> int:
        """Makes a call of the admin API, and returns the status of the answer."""
        method, path, body = call
        path, _, query = path.partition("?")
        try:
            self.admin.call(method, f"persistent/{topic}/{path}", body, **dict(parse_qsl(query)))
        except AdminError as error:
            return error.status
        return TAKEN

    def update(self, topic: str, case: RuleCase) -> frozenset[str]:
        """Makes the update over gRPC, and returns the reasons of the refusal; none if it is accepted."""
        deadline = time.monotonic() + _SECONDS
        while case.before and not one(self.stub.GetPolicy(reading(topic))).HasField("policies"):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        request = service_pb2.UpdatePolicyRequest(topic=topic, scope=ScopeNumber.ValueType(case.scope), policies=case.policies)
        request.update_mask.paths.extend(case.mask)
        try:
            self.stub.UpdatePolicy(request, timeout=_SECONDS)
        except grpc.RpcError as error:
            failed: Any = error
            return _reasons(dict(failed.trailing_metadata())["grpc-status-details-bin"])
        return frozenset()


@pytest.fixture(scope="module")
def both(broker: Broker, admin: Admin, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    """A server on the shared broker, and namespaces for all cases."""
    replicated = replicated_namespace(admin)
    admin.call("PUT", "clusters/third", {"serviceUrl": "http://127.0.0.1:9", "brokerServiceUrl": "pulsar://127.0.0.1:9"})
    with contextlib.suppress(AdminError):
        admin.call("PUT", "clusters/peer", {"serviceUrl": "http://127.0.0.1:9", "brokerServiceUrl": "pulsar://127.0.0.1:9"})
    admin.call("POST", f"clusters/{ELSEWHERE}/peers", ["peer"])
    admin.call("POST", "tenants/replicated", {"allowedClusters": [HERE, ELSEWHERE, "third", "peer"]})
    namespaces: dict[Where, str] = {Where.REPLICATED: replicated, Where.NOWHERE: "public/nowhere"}
    for where in (Where.PLAIN, Where.RETAINED, Where.QUOTED):
        namespaces[where] = admin.create_namespace(f"rules-{where.value}")
    admin.call("POST", f"namespaces/{namespaces[Where.RETAINED]}/retention", {"retentionTimeInMinutes": 10, "retentionSizeInMB": 100})
    quota = {"limit": 100 * 1024 * 1024, "limitSize": 100 * 1024 * 1024, "limitTime": 600, "policy": "producer_exception"}
    admin.call("POST", f"namespaces/{namespaces[Where.QUOTED]}/backlogQuota", quota, backlogQuotaType="destination_storage")
    admin.create_topic("public/default/shadow")
    process = ServerProcess(
        ["--pulsar", broker.service_url, "--admin-url", broker.admin_url], tmp_path_factory.mktemp("sidecar") / "server.log"
    )
    asyncio.run(process.start())
    with grpc.insecure_channel(process.address) as channel:
        yield Both(admin, TopicPoliciesServiceStub(channel), namespaces, itertools.count())
    process.kill()
    admin.call("POST", f"clusters/{ELSEWHERE}/peers", [])
    stop_replicating(admin, replicated)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_the_admin_api_and_the_service_agree_except_in_listed_differences(both: Both, case: RuleCase) -> None:
    status = both.call(both.topic(case), case.call)
    reasons = both.update(both.topic(case), case)
    assert (status, reasons) == (case.status, case.reasons)
    agreed = (status == TAKEN) == (not reasons)
    assert agreed == (not case.difference), "exactly the listed cases differ"


def test_every_rule_has_a_case_that_violates_it() -> None:
    tried = {(path.partition(".")[0], reason) for case in CASES for path in case.mask for reason in case.reasons}
    assert {(rule.field, rule.reason) for rule in RULES} - tried == _UNTRIED


def test_every_difference_is_documented_with_its_reason() -> None:
    documented = " ".join(_DOCS.read_text(encoding="utf-8").split())
    assert len(DIFFERENCES) > 3
    for case in DIFFERENCES:
        assert case.difference in documented


def test_every_rule_is_documented() -> None:
    rows = {line.strip() for line in _DOCS.read_text(encoding="utf-8").splitlines()}
    for rule in RULES:
        assert f"| `{rule.field}` | {rule.statement} | {rule.kind.value} | `{rule.reason}` |" in rows


def _reasons(details: bytes) -> frozenset[str]:
    """Returns the reasons of the violations, or of the error itself if there are none."""
    info, bad = ErrorInfo(), BadRequest()
    for detail in Status.FromString(details).details:
        detail.Unpack(info)
        detail.Unpack(bad)
    return frozenset(violation.reason for violation in bad.field_violations) or frozenset({info.reason})
