"""Every policy in both directions on a real broker: the admin API shows what gRPC sets, and gRPC shows and streams what the admin API sets.

The tests run with a plain and with a partitioned ``__change_events``.
"""

from __future__ import annotations

import asyncio
import itertools
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

import grpc
import pytest

from tests.broker.admin import Admin
from tests.broker.policy_case import Case, Example, Need, comparable, prepare, replicated_namespace, stop_replicating
from tests.broker.policy_cases import CASES
from tests.broker.pulsar_broker import Broker
from tests.promises.server_process import ServerProcess
from tests.stubs import each, one, reading
from topicpolicies.v1 import service_pb2
from topicpolicies.v1.policies_pb2 import PolicyDocument, TopicPolicies
from topicpolicies.v1.policies_pb2 import Scope as ScopeNumber
from topicpolicies.v1.service_pb2_grpc import TopicPoliciesServiceStub
from topicpolicies_server.core.names import Scope

_SECONDS = 30
SHOWN_AS_FALSE = {"dispatcher_pause_on_ack_state_persistent_enabled", "schema_validation_enforced"}
"""Policies that the admin API shows as false when they are unset."""
_T = TypeVar("_T")
WHICH = [(case, scope) for case in CASES for scope in case.scopes]
IDS = [f"{case.setting}-{scope.name}" for case, scope in WHICH]
every_field = pytest.mark.parametrize(("case", "scope"), WHICH, ids=IDS)


class Sidecar(NamedTuple):
    """A server on the shared broker, and the namespaces that tests use."""

    process: ServerProcess
    stub: TopicPoliciesServiceStub
    namespaces: dict[Need, str]
    """The namespaces, by what a case needs."""

    def get(self, topic: str, scope: Scope, at_least_version: str | None = None) -> PolicyDocument:
        """GetPolicy."""
        return one(self.stub.GetPolicy(reading(topic, ScopeNumber.ValueType(scope), at_least_version), timeout=_SECONDS))

    def update(self, topic: str, scope: Scope, mask: tuple[str, ...], policies: TopicPolicies) -> service_pb2.UpdatePolicyResponse:
        """UpdatePolicy."""
        request = service_pb2.UpdatePolicyRequest(
            topic=topic, scope=ScopeNumber.ValueType(scope), policies=policies, request_id=str(uuid.uuid4())
        )
        request.update_mask.paths.extend(mask)
        return self.stub.UpdatePolicy(request, timeout=_SECONDS)


@pytest.fixture(scope="module", params=[0, 3], ids=["plain", "3-partitions"])
def sidecar(request: pytest.FixtureRequest, broker: Broker, admin: Admin, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sidecar]:
    """A server on the shared broker."""
    own, replicated = admin.create_namespace("fields"), replicated_namespace(admin, request.param)
    if request.param:
        admin.partition_change_events(own, request.param)
    output: Path = tmp_path_factory.mktemp("sidecar") / "server.log"
    process = ServerProcess(["--pulsar", broker.service_url, "--admin-url", broker.admin_url, "--show-secrets"], output)
    asyncio.run(process.start())
    with grpc.insecure_channel(process.address) as channel:
        needs = {Need.NOTHING: own, Need.SHADOW_TOPICS: own, Need.TWO_CLUSTERS: replicated}
        yield Sidecar(process, TopicPoliciesServiceStub(channel), needs)
    process.kill()
    stop_replicating(admin, replicated)


@pytest.fixture
def prepared(sidecar: Sidecar, admin: Admin, case: Case, scope: Scope, request: pytest.FixtureRequest) -> tuple[str, Case]:
    """``tenant/namespace/topic`` on which the case can be set, and the case for it."""
    local = f"{case.setting.replace('/', '-')}-{scope.name}-{request.function.__name__[:24]}".lower()
    return prepare(admin, case, sidecar.namespaces[case.need], local)


def soon(read: Callable[[], _T], expected: _T) -> None:
    """Waits until ``read`` returns what is expected: brokers read an event some milliseconds later."""
    deadline = time.monotonic() + _SECONDS
    while (found := read()) != expected:
        assert time.monotonic() < deadline, f"still {found}, not {expected}"
        time.sleep(0.05)


@every_field
def test_the_admin_api_shows_every_policy_that_grpc_sets(sidecar: Sidecar, admin: Admin, prepared: tuple[str, Case], scope: Scope) -> None:
    topic, case = prepared

    def shown() -> TopicPolicies:
        return comparable(case.read(case.reading_call(scope).on(admin, topic)))

    for example in case.examples:
        sidecar.update(topic, scope, case.mask, example.policies)
        soon(shown, comparable(example.policies))
    cleared = sidecar.update(topic, scope, case.mask, TopicPolicies())
    assert cleared.document.policies == TopicPolicies()
    soon(shown, TopicPolicies(**{case.setting: False}) if case.setting in SHOWN_AS_FALSE else TopicPolicies())  # type: ignore[arg-type]


@every_field
def test_grpc_shows_and_streams_every_policy_that_the_admin_api_sets(
    sidecar: Sidecar, admin: Admin, prepared: tuple[str, Case], scope: Scope
) -> None:
    topic, case = prepared
    if not case.settable:
        _refused_by_the_broker(admin, case, topic, scope)
        return
    request = service_pb2.WatchPoliciesRequest(topics=[topic], scopes=[ScopeNumber.ValueType(scope)], mode=service_pb2.WATCH_MODE_EVERY)
    stream = sidecar.stub.WatchPolicies(request, timeout=4 * _SECONDS)
    changes = (event.change for event in each(stream) if event.HasField("change"))
    assert not next(changes).document.HasField("policies")
    streamed: list[TopicPolicies] = []
    wanted: list[TopicPolicies] = []
    for example in case.examples:
        case.setting_call(example, scope).on(admin, topic)
        wanted.append(comparable(example.policies))
        soon(lambda: comparable(sidecar.get(topic, scope).policies), wanted[-1])
    if case.removable:
        case.removing_call(scope).on(admin, topic)
        wanted.append(comparable(case.removed))
        soon(lambda: comparable(sidecar.get(topic, scope).policies), wanted[-1])
    versions: list[str] = []
    for change in itertools.islice(changes, len(wanted)):
        streamed.append(comparable(change.document.policies))
        versions.append(change.document.version)
        assert change.origin.producer_name.startswith("standalone")
        assert not change.origin.request_id, "a broker wrote it"
    stream.cancel()
    assert streamed == wanted
    assert versions == sorted(set(versions))
    assert sidecar.get(topic, scope, versions[-1]).version == versions[-1]


def _refused_by_the_broker(admin: Admin, case: Case, topic: str, scope: Scope) -> None:
    """Asserts that the broker's admin API refuses the values of a case that it can't set."""
    from tests.broker.admin import AdminError  # noqa: PLC0415

    example: Example = case.examples[0]
    with pytest.raises(AdminError):
        case.setting_call(example, scope).on(admin, topic)


def test_every_document_survives_a_compaction_and_a_restart_of_the_sidecar(sidecar: Sidecar, admin: Admin) -> None:
    namespace = sidecar.namespaces[Need.NOTHING]
    prefix = f"{namespace}/kept-{uuid.uuid4().hex[:6]}"
    written: dict[tuple[str, Scope], tuple[str, TopicPolicies]] = {}
    superseded = 0
    for number, (case, scope) in enumerate(which for which in WHICH if which[0].need is Need.NOTHING):
        topic = f"{prefix}-{number}"
        admin.create_topic(topic)
        by_broker = number % 2 and case.settable
        for example in case.examples:
            if by_broker:
                case.setting_call(example, scope).on(admin, topic)
                soon(lambda topic=topic, scope=scope: comparable(sidecar.get(topic, scope).policies), comparable(example.policies))  # type: ignore[misc]
            else:
                sidecar.update(topic, scope, case.mask, example.policies)
            superseded += 1
        now = sidecar.get(topic, scope)
        written[topic, scope] = (now.version, now.policies)
    gone = f"{prefix}-gone"
    admin.create_topic(gone)
    sidecar.update(gone, Scope.LOCAL, ("max_producer_per_topic",), TopicPolicies(max_producer_per_topic=3))
    assert sidecar.stub.DeletePolicy(service_pb2.DeletePolicyRequest(topic=gone)).outcome == service_pb2.DELETE_OUTCOME_DELETED
    time.sleep(0.5)  # the tombstone follows at once; a client can't see when
    admin.compact_change_events(namespace)
    sidecar.process.kill()
    asyncio.run(sidecar.process.start())
    assert superseded == 2 * len(written) > 60
    soon(lambda: _answers(sidecar, gone), True)
    for (topic, scope), (version, policies) in written.items():
        found = sidecar.get(topic, scope)
        assert found.version == version
        assert comparable(found.policies) == comparable(policies)
    assert not sidecar.get(gone, Scope.LOCAL).HasField("policies")


def _answers(sidecar: Sidecar, topic: str) -> bool:
    """Whether the restarted server answers: the channel may still be backing off."""
    try:
        sidecar.get(topic, Scope.LOCAL)
    except grpc.RpcError:
        return False
    return True
