"""Every command of ``pulsar-admin topicPolicies`` here, beside the calls of the broker's admin API that pulsar-admin makes for it.

The reference is the admin API of a real broker, because Pulsar's command line is not among the artifacts that can be had without its
distribution: the call of each command, and the form in which its answer is printed, were read in ``CmdTopicPolicies`` and ``CliCommand``
of Pulsar 4.2, and are written here by hand. Entry filters are set by hand on one side only, because a broker refuses those that are not
installed on it. GLOBAL clusters need a namespace that is replicated.
"""

from __future__ import annotations

import json
import re
import shlex
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from typer.testing import CliRunner, Result

from tests.broker.admin import Admin, AdminError
from tests.promises.broker.policy_case import HERE, replicated_namespace, stop_replicating
from tests.promises.conftest import Sidecars, sidecars
from topicpolicies_server.cli.app import app
from topicpolicies_server.cli.exits import ExitCode
from topicpolicies_server.cli.verbs import VERBS

__all__ = ["sidecars"]  # a fixture of the gate
_SECONDS = 100
_PAGE = Path(__file__).parents[2] / "docs" / "from-pulsar-admin.md"
_RATE = {
    "dispatchThrottlingRateInMsg": -1,
    "dispatchThrottlingRateInByte": -1,
    "relativeToPublishRate": False,
    "ratePeriodInSecond": 1,
}
_OFFLOAD = {
    "managedLedgerOffloadBucket": "kept",
    "managedLedgerOffloadMaxBlockSizeInBytes": 67108864,
    "managedLedgerOffloadReadBufferSizeInBytes": 1048576,
}


class Case(NamedTuple):
    """What one ``set`` command takes, and the call that pulsar-admin makes for it."""

    verb: str
    flags: str
    path: str
    """The endpoint below the topic."""
    body: Any = None
    query: Mapping[str, str] = {}
    method: str = "POST"
    key: str = ""
    """The flag of ``get`` and ``remove`` that chooses an entry of a map."""
    scopes: tuple[str, ...] = ("", "-g")
    applied: bool = True
    """Whether pulsar-admin's ``get`` takes ``-ap``."""
    reading: str = ""
    """The endpoint that reads it, if it is another one."""
    settable: bool = True
    """Whether the broker accepts the value."""


def _quota(flags: str, kind: str, size: int, seconds: int, policy: str, key: str = "") -> Case:
    body = {"limit": size, "limitSize": size, "limitTime": seconds, "policy": policy}
    return Case("backlog-quota", flags, "backlogQuota", body, {"backlogQuotaType": kind}, key=key, reading="backlogQuotaMap")


def _offload(flags: str, driver: str, **members: Any) -> Case:
    return Case("offload-policies", flags, "offloadPolicies", {**_OFFLOAD, "managedLedgerOffloadDriver": driver, **members})


CASES = (
    Case("message-ttl", "-t 3h", "messageTTL", query={"messageTTL": "10800"}),
    Case("message-ttl", "--ttl 0", "messageTTL", query={"messageTTL": "0"}),
    Case("subscription-expiration-time", "-t 10", "subscriptionExpirationTime", query={"subscriptionExpirationTime": "10"}),
    Case("max-unacked-messages-per-consumer", "-m 5", "maxUnackedMessagesOnConsumer", 5),
    Case("max-unacked-messages-per-subscription", "--maxNum 0", "maxUnackedMessagesOnSubscription", 0),
    Case("max-consumers-per-subscription", "-c 5", "maxConsumersPerSubscription", 5, applied=False),
    Case("max-consumers", "--max-consumers 5", "maxConsumers", 5),
    Case("max-producers", "-p 5", "maxProducers", 5),
    Case("max-subscriptions-per-topic", "-s 5", "maxSubscriptionsPerTopic", 5, applied=False),
    Case("max-message-size", "-m 1024", "maxMessageSize", 1024, applied=False),
    Case("subscription-types-enabled", "-t Shared,Key_Shared", "subscriptionTypesEnabled", ["Shared", "Key_Shared"], applied=False),
    Case("retention", "-t 3h -s 1G", "retention", {"retentionTimeInMinutes": 180, "retentionSizeInMB": 1024}),
    Case("retention", "--time 120 --size -1", "retention", {"retentionTimeInMinutes": 2, "retentionSizeInMB": -1}),
    Case("retention", "-t 0 -s 0", "retention", {"retentionTimeInMinutes": 0, "retentionSizeInMB": 0}),
    Case("retention", "-t 1y -s 2048k", "retention", {"retentionTimeInMinutes": 525600, "retentionSizeInMB": 2}),
    _quota("-l 10M -p producer_exception", "destination_storage", 10 << 20, -1, "producer_exception"),
    _quota("-l 10M -lt 1h -p producer_request_hold", "destination_storage", 10 << 20, -1, "producer_request_hold"),
    _quota("-lt 1h -p consumer_backlog_eviction -t message_age", "message_age", -1, 3600, "consumer_backlog_eviction", "-t message_age"),
    Case("deduplication", "-e", "deduplicationEnabled", True, applied=False),
    Case("deduplication", "--disable", "deduplicationEnabled", False, applied=False),
    Case("deduplication-snapshot-interval", "-i 60", "deduplicationSnapshotInterval", 60, applied=False),
    Case(
        "persistence",
        "-e 3 -w 3",
        "persistence",
        {"bookkeeperEnsemble": 3, "bookkeeperWriteQuorum": 3, "bookkeeperAckQuorum": 2, "managedLedgerMaxMarkDeleteRate": -1.0},
        applied=False,
    ),
    Case(
        "persistence",
        "-r 0.5 -c bookkeeper",
        "persistence",
        {
            "bookkeeperEnsemble": 2,
            "bookkeeperWriteQuorum": 2,
            "bookkeeperAckQuorum": 2,
            "managedLedgerMaxMarkDeleteRate": 0.5,
            "managedLedgerStorageClassName": "bookkeeper",
        },
        applied=False,
    ),
    Case("dispatch-rate", "-md 5 -bd 1000 -dt 2 -rp", "dispatchRate", dict(zip(_RATE, (5, 1000, True, 2), strict=True))),
    Case("replicator-dispatch-rate", "-bd 5", "replicatorDispatchRate", {**_RATE, "dispatchThrottlingRateInByte": 5}),
    Case("subscription-dispatch-rate", "-md 7", "subscriptionDispatchRate", {**_RATE, "dispatchThrottlingRateInMsg": 7}),
    Case(
        "subscription-dispatch-rate",
        "-md 7 -s a.b",
        "a.b/dispatchRate",
        {**_RATE, "dispatchThrottlingRateInMsg": 7},
        key="-s a.b",
    ),
    Case(
        "publish-rate",
        "-m 5",
        "publishRate",
        {"publishThrottlingRateInMsg": 5, "publishThrottlingRateInByte": -1},
        applied=False,
    ),
    Case("subscribe-rate", "-sr 5", "subscribeRate", {"subscribeThrottlingRatePerConsumer": 5, "ratePeriodInSecond": 30}),
    Case("compaction-threshold", "-t 100M", "compactionThreshold", 100 << 20),
    Case("delayed-delivery", "-e -t 5s", "delayedDelivery", {"tickTime": 5000, "active": True, "maxDeliveryDelayInMillis": 0}),
    Case("delayed-delivery", "-d -md 1d", "delayedDelivery", {"tickTime": 1000, "active": False, "maxDeliveryDelayInMillis": 86400000}),
    Case(
        "inactive-topic-policies",
        "-e -t 1d -m delete_when_no_subscriptions",
        "inactiveTopicPolicies",
        {"inactiveTopicDeleteMode": "delete_when_no_subscriptions", "maxInactiveDurationSeconds": 86400, "deleteWhileInactive": True},
    ),
    Case(
        "inactive-topic-policies",
        "-d -t 60 -m delete_when_subscriptions_caught_up",
        "inactiveTopicPolicies",
        {"inactiveTopicDeleteMode": "delete_when_subscriptions_caught_up", "maxInactiveDurationSeconds": 60, "deleteWhileInactive": False},
    ),
    Case("schema-compatibility-strategy", "-s FULL", "schemaCompatibilityStrategy", "FULL", method="PUT", scopes=("",)),
    Case("schema-compatibility-strategy", "-s UNDEFINED", "schemaCompatibilityStrategy", "UNDEFINED", method="PUT", scopes=("",)),
    _offload(
        "-d aws-s3 -r us -b kept -i me -s secret -t 10G -rsn session",
        "aws-s3",
        managedLedgerOffloadRegion="us",
        managedLedgerOffloadThresholdInBytes=10 << 30,
        s3ManagedLedgerOffloadRegion="us",
        s3ManagedLedgerOffloadBucket="kept",
        s3ManagedLedgerOffloadMaxBlockSizeInBytes=67108864,
        s3ManagedLedgerOffloadReadBufferSizeInBytes=1048576,
        s3ManagedLedgerOffloadCredentialId="me",
        s3ManagedLedgerOffloadCredentialSecret="secret",
        s3ManagedLedgerOffloadRoleSessionName="session",
    ),
    _offload(
        "-d google-cloud-storage -r eu -b kept -dl 5000 -orp bookkeeper-first",
        "google-cloud-storage",
        managedLedgerOffloadRegion="eu",
        managedLedgerOffloadDeletionLagInMillis=5000,
        managedLedgerOffloadedReadPriority="BOOKKEEPER_FIRST",
        gcsManagedLedgerOffloadRegion="eu",
        gcsManagedLedgerOffloadBucket="kept",
        gcsManagedLedgerOffloadMaxBlockSizeInBytes=67108864,
        gcsManagedLedgerOffloadReadBufferSizeInBytes=1048576,
    ),
    _offload("-d azureblob -b kept -ts 60", "azureblob", managedLedgerOffloadThresholdInSeconds=60),
    Case("entry-filters-per-topic", "-efn audit", "entryFilters", {"entryFilterNames": "audit"}, settable=False),
    Case("auto-subscription-creation", "-e", "autoSubscriptionCreation", {"allowAutoSubscriptionCreation": True}),
    Case("auto-subscription-creation", "", "autoSubscriptionCreation", {"allowAutoSubscriptionCreation": False}),
    Case("dispatcher-pause-on-ack-state-persistent", "", "dispatcherPauseOnAckStatePersistent"),
    Case("replication-clusters", f"-c {HERE}", "replication", [HERE]),
)


def as_java(value: Any, indent: str = "") -> str:
    """Returns JSON as Jackson's pretty printer writes it: lists on one line, a blank on both sides of a colon."""
    if isinstance(value, list):
        return f"[ {', '.join(map(json.dumps, value))} ]" if value else "[ ]"
    if isinstance(value, dict) and value:
        inner = f"{indent}  "
        lines = (f"{inner}{json.dumps(name)} : {as_java(each, inner)}" for name, each in value.items())
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    return "{ }" if value == {} else json.dumps(value)


def printed(verb: str, answer: Any) -> str:
    """Returns what pulsar-admin prints for an answer of the admin API."""
    if verb == "backlog-quota":
        quotas = {kind: ", ".join(f"{name}={value}" for name, value in quota.items()) for kind, quota in answer.items()}
        return "".join(f"{kind}    BacklogQuotaImpl({members})\n" for kind, members in quotas.items())
    return (answer if isinstance(answer, str) else as_java(answer)) + "\n"


def members(printed: str) -> list[str]:
    """Returns the lines of what is printed, sorted: brokers write computed members in any order."""
    return sorted(line.removesuffix(",") for line in printed.splitlines())


class Both(NamedTuple):
    """A broker, and the command line of a server on its log."""

    admin: Admin
    address: str
    namespace: str
    replicated: str

    def run(self, command: str, topic: str, *, code: int = 0) -> str:
        """Runs a command of ours, which must end with a code; returns what it prints."""
        ended = self.invoke(*shlex.split(command), topic)
        assert ended.exit_code == code, ended.output
        return ended.stdout

    def call(self, case: Case, method: str, topic: str, scope: str, **query: str) -> Any:
        """Makes the call of pulsar-admin that gets, sets or removes a value."""
        setting, chosen = method == case.method, {"isGlobal": "true"} if scope else {}
        if setting or (case.verb == "backlog-quota" and method == "DELETE"):
            chosen |= case.query
        path = case.reading or case.path if method == "GET" else case.path
        return self.admin.call(method, f"persistent/{topic}/{path}", case.body if setting else None, **chosen, **query)

    def policies(self, topic: str, scope: str) -> Any:
        """Returns a document, as ``get`` has it, with sorted lists: the broker keeps sets."""
        ended = self.invoke("get", topic, "-o", "json", *([scope] if scope else []))
        found = json.loads(ended.stdout).get("policies", {})
        return {name: sorted(value) if isinstance(value, list) else value for name, value in found.items()}

    def invoke(self, *arguments: str) -> Result:
        """Runs a command of ours to its end."""
        return CliRunner(env={"TOPICPOLICIES_SERVER": self.address, "TERM": "dumb"}).invoke(app, list(arguments))


def soon(read: Callable[[], Any], wanted: Any) -> None:
    """Waits until ``read`` returns what is wanted: either side reads what the other one wrote some milliseconds later."""
    deadline = time.monotonic() + _SECONDS
    while (found := read()) != wanted:
        assert time.monotonic() < deadline, f"{found}, not {wanted}"
        time.sleep(0.02)


@pytest.fixture(scope="module")
def both(sidecars: Sidecars, admin: Admin) -> Iterator[Both]:
    """The shared broker and one of the servers on its log."""
    replicated = replicated_namespace(admin)
    yield Both(admin, sidecars.one.address, admin.create_namespace("verbs"), replicated)
    stop_replicating(admin, replicated)


def test_every_command_has_a_case() -> None:
    assert {f"{action}-{case.verb}" for case in CASES for action in ("set", "get", "remove")} == VERBS.keys()


@pytest.mark.parametrize(
    ("case", "scope"),
    [pytest.param(case, scope, id=f"{case.verb} {case.flags} {scope}".strip()) for case in CASES for scope in case.scopes],
)
def test_a_command_does_and_prints_what_pulsar_admin_does(both: Both, case: Case, scope: str) -> None:
    replicated = case.path == "replication" and scope
    here, there = (f"{both.replicated if replicated else both.namespace}/{uuid.uuid4().hex[:8]}" for _ in range(2))
    for topic in (here, there):
        both.admin.create_topic(topic)
    command = f"{case.verb} {scope} {case.key}"

    def shown(topic: str, **query: str) -> Any:
        found = both.call(case, "GET", topic, scope, **query)
        return sorted(found) if isinstance(found, list) else found

    if not case.settable:
        with pytest.raises(AdminError):
            both.call(case, case.method, there, scope)
        return
    unset = shown(there)
    both.call(case, case.method, there, scope)
    assert both.run(f"set-{case.verb} {scope} {case.flags}", here) == ""
    wanted = shown(there)
    soon(lambda: shown(here), wanted)
    document = both.policies(here, scope)
    soon(lambda: both.policies(there, scope), document)
    get = f"get-{command}" if case.verb != "backlog-quota" else f"get-{case.verb} {scope}"
    for topic in (here, there):
        assert members(both.run(get, topic)) == members(printed(case.verb, both.call(case, "GET", topic, scope)))
    if case.applied and (case.verb, scope) != ("auto-subscription-creation", "-g"):  # brokers enforce the LOCAL one alone
        expected = printed(case.verb, both.call(case, "GET", here, scope, applied="true"))
        found = both.run(f"{get} -ap", here)
        if case.verb == "backlog-quota":  # brokers enforce a quota of each type, the admin API leaves out what the topic does not set
            found = "".join(line for line in found.splitlines(keepends=True) if line in expected)
        assert members(found) == members(expected)
    both.call(case, "DELETE", there, scope)
    assert both.run(f"remove-{command}", here) == ""
    removed = shown(there)
    assert removed == ([] if isinstance(wanted, list) and case.path != "replication" else unset)
    soon(lambda: shown(here), removed)
    gone = members(printed(case.verb, removed))
    soon(lambda: members(both.run(get, there)), gone)
    assert members(both.run(get, here)) == gone


def test_a_topic_that_does_not_exist_and_a_topic_of_the_default_namespace(both: Both) -> None:
    missing = both.run("get-retention", f"{both.namespace}/missing", code=ExitCode.NOT_FOUND)
    with pytest.raises(AdminError) as refused:
        both.admin.call("GET", f"persistent/{both.namespace}/missing/retention")
    assert refused.value.status == HTTPStatus.NOT_FOUND and not missing
    name = uuid.uuid4().hex[:8]
    both.admin.create_topic(f"public/default/{name}")
    both.run("set-max-producers -p 7", name)
    soon(lambda: both.admin.call("GET", f"persistent/public/default/{name}/maxProducers"), 7)


def test_delete_of_pulsar_admin_deletes_both_documents(both: Both) -> None:
    here, there = (f"{both.namespace}/{uuid.uuid4().hex[:8]}" for _ in range(2))
    for topic in (here, there):
        both.admin.create_topic(topic)
        for scope in ("", "-g"):
            both.run(f"set-max-producers -p 7 {scope}", f"persistent://{topic}")
    both.admin.call("DELETE", f"persistent/{there}/policies")
    both.run("delete", here)
    both.run("delete -g", here)
    for scope in ("", "-g"):
        soon(lambda scope=scope: [both.policies(topic, scope) for topic in (here, there)], [{}, {}])  # type: ignore[misc]


def test_the_rows_of_the_page_for_people_who_know_pulsar_admin(both: Both) -> None:
    rows = re.findall(r"^\| `((?:set|remove)-.*?)` \| (``?) ?(update .*?) ?\2[ ;]", _PAGE.read_text(), re.MULTILINE)
    assert len(rows) > 5
    for theirs, _, ours in rows:
        topics = [f"{both.namespace}/{uuid.uuid4().hex[:8]}" for _ in range(2)]
        codes = []
        for topic, command in zip(topics, (theirs, ours), strict=True):
            both.admin.create_topic(topic)
            both.run("set-message-ttl -t 1h", topic)
            codes.append(both.invoke(*shlex.split(command.replace("TOPIC", topic))).exit_code)
        assert codes[0] == codes[1] == (ExitCode.ERROR if "clusters" in theirs else ExitCode.OK), theirs  # there are no such clusters
        documents = [both.policies(topic, scope) for topic in topics for scope in ("", "-g")]
        assert documents[:2] == documents[2:], theirs
