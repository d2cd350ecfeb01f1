"""The rules, compared with a real broker: gRPC refuses what the admin API refuses and accepts the rest, with documented exceptions."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

import pytest

from tests.broker.admin import Admin, AdminError
from tests.broker.jars import LATEST
from tests.promises.api import Refused
from tests.promises.blocking import BlockingApi
from tests.promises.broker.policy_case import ELSEWHERE, HERE, ensure, replicated_namespace, stop_replicating
from tests.promises.broker.rule_cases import CASES, DIFFERENCES, NOT_IN_4_0_0, TAKEN, RuleCase, Where
from tests.promises.conftest import Sidecars

# These tests share clusters and tenants that they add to the broker.
pytestmark = [pytest.mark.broker]

_SECONDS = 30
_DOCS = Path(__file__).parents[3] / "docs" / "rules.md"
_UNTRIED = {
    ("entry_filters", "UNKNOWN_ENTRY_FILTER"),
    ("replication_clusters", "LOCAL_CLUSTER_UNKNOWN"),
    ("shadow_topics", "NOT_PERSISTENT"),
}
"""Rules that no update on this broker can violate: it doesn't list its filters, its name is known, and its topics are persistent."""


class Both(NamedTuple):
    """A broker and a server on its log."""

    admin: Admin
    api: BlockingApi
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
        if case.before and LATEST == "4.0.0":
            time.sleep(1)  # it answers before it has read its own change
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
        while case.before and self.api.get(topic).policies is None:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        try:
            self.api.update(topic, case.policies, mask=case.mask, scope=case.scope)
        except Refused as error:
            return frozenset(each.reason for each in error.violations) or frozenset({error.reason})
        return frozenset()


def _parameter(case: RuleCase) -> Any:
    lacking = NOT_IN_4_0_0.get(case.title)
    return pytest.param(case, id=case.title, marks=() if lacking is None else pytest.mark.not_in_4_0_0(lacking))


@pytest.fixture(scope="module")
def both(admin: Admin, sidecars: Sidecars) -> Iterator[Both]:
    """A server on the shared broker, and namespaces for all cases."""
    replicated = replicated_namespace(admin)
    for name in ("third", "peer"):
        ensure(admin, f"clusters/{name}", {"serviceUrl": "http://127.0.0.1:9", "brokerServiceUrl": "pulsar://127.0.0.1:9"})
    admin.call("POST", f"clusters/{ELSEWHERE}/peers", ["peer"])
    admin.call("POST", "tenants/replicated", {"allowedClusters": [HERE, ELSEWHERE, "third", "peer"]})
    namespaces: dict[Where, str] = {Where.REPLICATED: replicated, Where.NOWHERE: "public/nowhere"}
    for where in (Where.PLAIN, Where.RETAINED, Where.QUOTED):
        namespaces[where] = admin.create_namespace(f"rules-{where.value}")
    admin.call("POST", f"namespaces/{namespaces[Where.RETAINED]}/retention", {"retentionTimeInMinutes": 10, "retentionSizeInMB": 100})
    quota = {"limit": 100 * 1024 * 1024, "limitSize": 100 * 1024 * 1024, "limitTime": 600, "policy": "producer_exception"}
    admin.call("POST", f"namespaces/{namespaces[Where.QUOTED]}/backlogQuota", quota, backlogQuotaType="destination_storage")
    with contextlib.suppress(AdminError):  # another process of the run has created it
        admin.create_topic("public/default/shadow")
    with BlockingApi(sidecars.one.address) as api:
        yield Both(admin, api, namespaces, itertools.count())
    stop_replicating(admin, replicated)


@pytest.mark.parametrize("case", [_parameter(case) for case in CASES])
def test_the_rules_are_the_admin_apis(both: Both, case: RuleCase) -> None:
    status = both.call(both.topic(case), case.call)
    reasons = both.update(both.topic(case), case)
    assert (status, reasons) == (case.status, case.reasons)
    agreed = (status == TAKEN) == (not reasons)
    assert agreed == (not case.difference), "exactly the listed cases differ"


def documented() -> set[tuple[str, str]]:
    """Returns the rules of the documentation: the field, and the reason of the refusal."""
    rows = (line.split("|") for line in _DOCS.read_text(encoding="utf-8").splitlines() if line.startswith("| `"))
    return {(row[1].strip(" `"), row[4].strip(" `")) for row in rows if len(row) == 6}


def test_every_documented_rule_has_a_case_that_violates_it() -> None:
    tried = {(path.partition(".")[0], reason) for case in CASES for path in case.mask for reason in case.reasons}
    assert len(documented()) > 30
    assert documented() - tried == _UNTRIED


def test_every_difference_is_documented_with_its_reason() -> None:
    page = " ".join(_DOCS.read_text(encoding="utf-8").split())
    assert len(DIFFERENCES) > 3
    for case in DIFFERENCES:
        assert case.difference in page
