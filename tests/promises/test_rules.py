"""Pulsar's own rules, as docs/rules.md lists them, with facts from a cluster file; disabled topics; and effective policies."""

from __future__ import annotations

import asyncio
import itertools
import os
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from topicpolicies.v1 import policies_pb2 as pb
from topicpolicies.v1.policies_pb2 import TopicPolicies

from .api import GLOBAL, LOCAL, Api, Refused, refusal
from .conftest import Serving
from .server_process import ServerProcess
from .watching import Watching, documents, kinds, whole

PAGE = Path(__file__).parents[2] / "docs" / "rules.md"
INVALID, FAILED = "INVALID_ARGUMENT", "FAILED_PRECONDITION"
SHADOW = "persistent://acme/plain/shadow"


class Case(NamedTuple):
    """A rule, with an update on each side of its limit."""

    field: str
    reason: str
    accepted: dict[str, Any] | None
    refused: dict[str, Any]
    code: str = INVALID
    namespace: str = "plain"
    scope: Any = LOCAL
    before: dict[str, Any] | None = None
    """What the document has before both."""
    domain: str = "persistent"


def retention(minutes: int, megabytes: int) -> dict[str, Any]:
    return {"retention_policies": {"retention_time_in_minutes": minutes, "retention_size_in_mb": megabytes}}


def quota(size: int = -1, seconds: int = -1) -> dict[str, Any]:
    kind = "message_age" if size < 0 else "destination_storage"
    return {
        "back_log_quota_map": {
            kind: pb.BacklogQuota(limit_size=size, limit_time=seconds, policy=pb.BACKLOG_QUOTA_POLICY_PRODUCER_EXCEPTION)
        }
    }


def persistence(ensemble: int, write: int, ack: int) -> dict[str, Any]:
    return {"persistence": {"bookkeeper_ensemble": ensemble, "bookkeeper_write_quorum": write, "bookkeeper_ack_quorum": ack}}


def clusters(*names: str) -> dict[str, Any]:
    return {"replication_clusters": names}


def shadows(*names: str) -> dict[str, Any]:
    return {"shadow_topics": names}


def filters(names: str) -> dict[str, Any]:
    return {"entry_filters": {"entry_filter_names": names}}


def offload(**members: str) -> dict[str, Any]:
    return {"offload_policies": {f"managed_ledger_offload_{name}": value for name, value in members.items()}}


def of_subscription(messages: int) -> dict[str, Any]:
    rate = pb.DispatchRate(dispatch_throttling_rate_in_msg=messages)
    return {"subscription_policies": {"billing": pb.SubscriptionPolicies(dispatch_rate=rate)}}


NUMBERS = [
    "message_ttl_in_seconds", "subscription_expiration_time_in_minutes", "max_producer_per_topic", "max_consumer_per_topic",
    "max_consumers_per_subscription", "max_subscriptions_per_topic", "max_unacked_messages_on_consumer",
    "max_unacked_messages_on_subscription", "max_message_size", "compaction_threshold", "deduplication_snapshot_interval_seconds",
]  # fmt: skip
MEGABYTES_100 = 100 << 20
FULL = {"schema_compatibility_strategy": pb.SCHEMA_COMPATIBILITY_STRATEGY_FULL}
CASES = [
    *(Case(name, "NEGATIVE", {name: 0}, {name: -1}) for name in NUMBERS),
    Case("max_message_size", "ABOVE_BROKER_MAXIMUM", {"max_message_size": 1_000}, {"max_message_size": 1_001}, FAILED),
    Case("retention_policies", "BELOW_MINUS_ONE", retention(-1, -1), retention(-2, 5)),
    Case("retention_policies", "BELOW_MINUS_ONE", retention(5, -1), retention(5, -2)),
    Case("retention_policies", "HALF_ZERO", retention(0, 0), retention(0, 5)),
    Case("retention_policies", "HALF_ZERO", retention(1, 1), retention(5, 0)),
    Case("retention_policies", "RETENTION_BELOW_QUOTA", retention(10, 101), retention(10, 100), FAILED, before=quota(MEGABYTES_100)),
    Case("retention_policies", "RETENTION_BELOW_QUOTA", retention(11, 101), retention(10, 101), FAILED, "quoted"),
    Case("retention_policies", "RETENTION_BELOW_QUOTA", retention(11, 101), retention(11, 100), FAILED, "quoted"),
    Case("back_log_quota_map", "QUOTA_ABOVE_RETENTION", quota(MEGABYTES_100 - 1), quota(MEGABYTES_100), FAILED, before=retention(10, 100)),
    Case("back_log_quota_map", "QUOTA_ABOVE_RETENTION", quota(seconds=599), quota(seconds=600), FAILED, before=retention(10, -1)),
    Case("back_log_quota_map", "QUOTA_ABOVE_RETENTION", quota(seconds=599), quota(seconds=600), FAILED, "retained"),
    Case("persistence", "NOT_POSITIVE", persistence(1, 1, 1), persistence(0, 0, 0)),
    Case("persistence", "QUORUM_ORDER", persistence(3, 3, 3), persistence(2, 3, 1)),
    Case("persistence", "QUORUM_ORDER", persistence(3, 2, 2), persistence(3, 2, 3)),
    Case("persistence", "ABOVE_BROKER_MAXIMUM", persistence(5, 5, 5), persistence(6, 5, 5), FAILED),
    Case("replication_clusters", "LOCAL_CLUSTER_MISSING", clusters("us", "eu"), clusters("eu"), FAILED),
    Case("replication_clusters", "NAMESPACE_NOT_REPLICATED", None, clusters("us"), FAILED, "plain", GLOBAL),
    Case("replication_clusters", "CLUSTER_NOT_IN_NAMESPACE", clusters("us", "eu"), clusters("us", "asia"), FAILED, "replicated", GLOBAL),
    Case("replication_clusters", "UNKNOWN_CLUSTER", clusters("us"), clusters("us", "nowhere"), FAILED),
    Case("replication_clusters", "PEER_CLUSTERS", clusters("us", "eu"), clusters("us", "eu", "peer"), FAILED),
    Case("replication_clusters", "CLUSTER_NOT_ALLOWED", clusters("us", "asia"), clusters("us", "forbidden"), FAILED),
    Case("shadow_topics", "LOCAL_SCOPE_ONLY", None, shadows(SHADOW), INVALID, "plain", GLOBAL),
    Case("shadow_topics", "NOT_PERSISTENT", None, shadows(SHADOW), INVALID, domain="non-persistent"),
    Case("shadow_topics", "MALFORMED_NAME", shadows(SHADOW), shadows("persistent://public")),
    Case("shadow_topics", "SHADOW_NOT_PERSISTENT", shadows(SHADOW), shadows("non-persistent://acme/plain/shadow")),
    Case("shadow_topics", "SHADOW_NOT_FOUND", shadows(SHADOW), shadows(f"{SHADOW}-2"), FAILED),
    Case("schema_compatibility_strategy", "LOCAL_SCOPE_ONLY", None, FULL, INVALID, "plain", GLOBAL),
    Case("entry_filters", "BLANK", filters("by-region"), filters(" , ")),
    Case("entry_filters", "UNKNOWN_ENTRY_FILTER", filters("by-region"), filters("by-region,other"), FAILED),
    Case("offload_policies", "UNKNOWN_DRIVER", offload(driver="filesystem"), offload(driver="tape")),
    Case("offload_policies", "NO_BUCKET", offload(driver="azureblob", bucket="b"), offload(driver="azureblob")),
    Case("subscription_policies", "NO_LIMIT", of_subscription(1), of_subscription(-1)),
]
NAMESPACE_LEVEL = """
max_producers_per_topic = 31
max_consumers_per_topic = 32
message_ttl_in_seconds = 33
max_unacked_messages_per_consumer = 34
deduplicationEnabled = true
retention_policies = { retentionTimeInMinutes = 35, retentionSizeInMB = 36 }
topicDispatchRate = { us = { dispatchThrottlingRateInMsg = 37, dispatchThrottlingRateInByte = -1, ratePeriodInSecond = 1 } }
delayed_delivery_policies = { active = false, tickTime = 38 }
subscription_types_enabled = ["Exclusive"]
backlog_quota_map = { message_age = { limitSize = -1, limitTime = 39, policy = "producer_exception" } }
offload_policies = { managedLedgerOffloadDriver = "aws-s3", managedLedgerOffloadBucket = "of-namespace", managedLedgerOffloadRegion = "r" }
"""


def topics(case: Case, number: int) -> tuple[str, str]:
    """Returns the topics on which the two updates of a case are made."""
    name = f"{case.domain}://acme/{case.namespace}/case-{number}"
    return f"{name}-accepted", f"{name}-refused"


def cluster_file() -> str:
    names = [SHADOW, "persistent://acme/levels/one", "persistent://acme/bare/one"]
    names += [f"persistent://acme/plain/free-{number}" for number in range(20)]
    names += [name for number, case in enumerate(CASES) for name in topics(case, number)]
    return f"""
cluster = "us"
all_topics = true
[clusters]
us = []
eu = ["peer"]
peer = []
asia = []
forbidden = []
[tenants]
acme = ["us", "eu", "peer", "asia"]
[broker]
maxMessageSize = 1000
installedEntryFilters = ["by-region"]
maxConsumersPerTopic = 41
[namespaces."acme/plain"]
[namespaces."acme/bare"]
[namespaces."acme/levels"]
{NAMESPACE_LEVEL}
[namespaces."acme/retained"]
retention_policies = {{ retentionTimeInMinutes = 10, retentionSizeInMB = -1 }}
[namespaces."acme/quoted".backlog_quota_map]
destination_storage = {{ limitSize = {MEGABYTES_100}, limitTime = 600, policy = "producer_exception" }}
[namespaces."acme/replicated"]
replication_clusters = ["us", "eu"]
[topics]
""" + "".join(f'"{name}" = {{}}\n' for name in names)


@pytest.fixture(scope="module")
def ruled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server that knows everything about a cluster."""
    home = tmp_path_factory.mktemp("ruled")
    (home / "cluster.toml").write_text(cluster_file())
    server = ServerProcess(["--data", str(home / "policies.db"), "--cluster-file", str(home / "cluster.toml")], home / "server.log")
    asyncio.run(server.start())
    yield server.address
    server.kill()


@pytest.fixture
async def knowing(ruled: str) -> AsyncIterator[Api]:
    """A caller of that server."""
    async with Api(ruled) as api:
        yield api


# Each rule, on both sides of its limit


@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda number: f"{CASES[number].field}-{CASES[number].reason}-{number}")
async def test_a_rule_on_both_sides_of_its_limit(knowing: Api, number: int) -> None:
    case = CASES[number]
    accepted, refused = topics(case, number)
    if case.before is not None:
        await knowing.update(accepted, case.before)
        await knowing.update(refused, case.before)
    if case.accepted is not None:
        assert (await knowing.update(accepted, case.accepted, scope=case.scope)).outcome == "APPLIED"
    before = await knowing.get(refused, case.scope)
    for options in ({}, {"dry_run": True}, {"mask": [case.field]}):
        found = await refusal(knowing.update(refused, case.refused, scope=case.scope, **options))
        assert (found.code, case.reason) == (case.code, found.violations[0].reason)
        assert {each.field.removeprefix("policies.").partition(".")[0].partition("[")[0] for each in found.violations} == {case.field}
    assert await knowing.get(refused, case.scope) == before


def test_every_rule_of_the_page_has_a_case() -> None:
    rows = re.findall(r"^\| `(\w+)` \| .* \| (\w+) \| `(\w+)` \|$", PAGE.read_text(), flags=re.MULTILINE)
    cases = {(case.field, case.code, case.reason) for case in CASES} | {("replication_clusters", FAILED, "LOCAL_CLUSTER_UNKNOWN")}
    assert len(rows) > 30 and set(rows) == cases


async def test_with_an_unknown_local_cluster_no_list_of_clusters_is_accepted(serving: Serving, topic: str) -> None:
    server = await serving()
    async with Api(server.address) as api:
        found = await refusal(api.update(topic, clusters("us")))
        assert (found.code, found.reason) == (FAILED, "LOCAL_CLUSTER_UNKNOWN")
        await api.update(topic, {"max_message_size": 10**9, **filters("any"), **persistence(100, 100, 100)})
        assert (await refusal(api.effective(topic))).reason == "LEVELS_UNKNOWN"


async def test_all_violations_come_at_once_and_the_graver_status_counts(knowing: Api) -> None:
    topic = "persistent://acme/plain/free-0"
    wrong = {
        "max_producer_per_topic": -1,
        "max_message_size": 2_000,
        **clusters("eu", "nowhere"),
        **filters("other"),
        **persistence(2, 3, 1),
    }
    found = await refusal(knowing.update(topic, wrong))
    assert found.code == INVALID
    assert {(each.field.removeprefix("policies."), each.reason) for each in found.violations} == {
        ("max_producer_per_topic", "NEGATIVE"),
        ("max_message_size", "ABOVE_BROKER_MAXIMUM"),
        ("replication_clusters", "LOCAL_CLUSTER_MISSING"),
        ("replication_clusters", "UNKNOWN_CLUSTER"),
        ("replication_clusters", "CLUSTER_NOT_ALLOWED"),
        ("entry_filters.entry_filter_names", "UNKNOWN_ENTRY_FILTER"),
        ("persistence", "QUORUM_ORDER"),
    }
    del wrong["max_producer_per_topic"], wrong["persistence"]
    assert (await refusal(knowing.update(topic, wrong))).code == FAILED


async def test_topics_that_do_not_exist_have_no_policies_but_may_lose_them(knowing: Api) -> None:
    found = await refusal(knowing.update("persistent://acme/plain/missing", {"max_producer_per_topic": 1}))
    assert (found.code, found.reason) == ("NOT_FOUND", "TOPIC_NOT_FOUND")
    assert (await knowing.delete("persistent://acme/plain/missing")).outcome == "ABSENT"


async def test_the_local_cluster_can_not_be_taken_out_of_a_list_either(knowing: Api) -> None:
    topic = "persistent://acme/plain/free-1"
    made = await knowing.update(topic, clusters("us", "eu"))
    taken: dict[str, Any] = {"mask": ["replication_clusters"], "lists": {"replication_clusters": "SUBTRACT"}}
    assert (await refusal(knowing.update(topic, clusters("us"), **taken))).reason == "LOCAL_CLUSTER_MISSING"
    assert await knowing.get(topic) == made.document


async def test_retention_and_quota_in_one_update_are_compared_with_each_other(knowing: Api) -> None:
    topic = "persistent://acme/plain/free-2"
    await knowing.update(topic, retention(10, 100))
    both = {**retention(20, 200), **quota(MEGABYTES_100 + 1)}
    assert (await refusal(knowing.update(topic, quota(MEGABYTES_100 + 1)))).reason == "QUOTA_ABOVE_RETENTION"
    assert (await knowing.update(topic, both)).outcome == "APPLIED"


async def test_of_retention_and_quota_that_conflict_at_once_one_is_refused(knowing: Api) -> None:
    for number in range(3, 13):
        topic = f"persistent://acme/plain/free-{number}"
        calls = (knowing.update(topic, quota(seconds=3_600)), knowing.update(topic, retention(60, -1)))
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert [isinstance(each, Refused) for each in outcomes].count(True) == 1


async def test_what_is_there_is_not_checked_again(serving: Serving, tmp_path: Path) -> None:
    """A document can be read and written back, and another field changed, after the cluster has become stricter."""
    path = tmp_path / "cluster.toml"
    path.write_text('cluster = "us"\n[broker]\nmaxMessageSize = 1000\n')
    server = await serving("--cluster-file", str(path))
    topic = "persistent://acme/plain/one"
    async with Api(server.address) as api:
        made = await api.update(topic, {"max_message_size": 1_000})
        path.write_text('cluster = "us"\n[broker]\nmaxMessageSize = 500\n')
        async with asyncio.timeout(20):
            while True:
                try:
                    await api.update(topic, {"max_message_size": 700}, dry_run=True)
                except Refused:
                    break
                await asyncio.sleep(0.1)
        assert made.document is not None
        assert (await api.update(topic, made.document.policies, mask=["*"])).outcome == "UNCHANGED"
        assert (await api.update(topic, {"max_producer_per_topic": 1})).outcome == "APPLIED"


# Effective policies

LEVELS: dict[str, tuple[dict[str, Any], dict[str, Any], object, object]] = {
    "max_consumer_per_topic": ({"max_consumer_per_topic": 1}, {"max_consumer_per_topic": 2}, 32, 41),
    "max_unacked_messages_on_consumer": ({"max_unacked_messages_on_consumer": 0}, {"max_unacked_messages_on_consumer": 2}, 34, 50_000),
    "deduplication_enabled": ({"deduplication_enabled": False}, {"deduplication_enabled": False}, True, False),
    "delayed_delivery_tick_time_millis": (
        {"delayed_delivery_tick_time_millis": 1}, {"delayed_delivery_tick_time_millis": 2}, 38, 1_000
    ),
    "retention_policies": (
        retention(1, 2), retention(3, 4),
        pb.RetentionPolicies(retention_time_in_minutes=35, retention_size_in_mb=36),
        pb.RetentionPolicies(retention_time_in_minutes=0, retention_size_in_mb=0),
    ),
    "subscription_types_enabled": (
        {"subscription_types_enabled": [pb.SUBSCRIPTION_TYPE_SHARED]}, {"subscription_types_enabled": [pb.SUBSCRIPTION_TYPE_FAILOVER]},
        [pb.SUBSCRIPTION_TYPE_EXCLUSIVE],
        [pb.SUBSCRIPTION_TYPE_EXCLUSIVE, pb.SUBSCRIPTION_TYPE_SHARED, pb.SUBSCRIPTION_TYPE_FAILOVER, pb.SUBSCRIPTION_TYPE_KEY_SHARED],
    ),
}  # fmt: skip
"""By field: the topic's LOCAL and GLOBAL values, and those of the namespace and the brokers."""


@pytest.mark.parametrize("name", LEVELS)
async def test_the_first_level_that_sets_a_value_counts(knowing: Api, name: str) -> None:
    local, far, of_namespace, of_broker = LEVELS[name]
    topic, bare = "persistent://acme/levels/one", "persistent://acme/bare/one"

    async def found(at: str) -> tuple[object, str]:
        answer = await knowing.effective(at)
        return getattr(answer.policies, name), answer.sources[name]

    await knowing.update(topic, far, scope=GLOBAL, mask=[name])
    await knowing.update(topic, local, mask=[name])
    assert await found(topic) == (getattr(TopicPolicies(**local), name), "TOPIC_LOCAL")
    await knowing.update(topic, mask=[name])
    assert await found(topic) == (getattr(TopicPolicies(**far), name), "TOPIC_GLOBAL")
    await knowing.update(topic, mask=[name], scope=GLOBAL)
    assert await found(topic) == (of_namespace, "NAMESPACE")
    assert await found(bare) == (of_broker, "BROKER")


async def test_parts_of_maps_and_of_offload_policies_have_levels_of_their_own(knowing: Api) -> None:
    topic = "persistent://acme/levels/one"
    rates = [of_subscription(5)["subscription_policies"], of_subscription(6)["subscription_policies"]]
    rates[1]["other"] = rates[1]["billing"]
    local = await knowing.update(topic, {"subscription_policies": rates[0], **offload(driver="aws-s3", bucket="mine")}, mask=["*"])
    far = await knowing.update(topic, {"subscription_policies": rates[1], **quota(5)}, scope=GLOBAL, mask=["*"])
    answer = await knowing.effective(topic)
    assert (answer.local_version, answer.global_version) == (local.version, far.version)
    policies, sources = answer.policies, answer.sources
    assert policies.subscription_policies["billing"].dispatch_rate.dispatch_throttling_rate_in_msg == 5
    assert policies.subscription_policies["other"].dispatch_rate.dispatch_throttling_rate_in_msg == 6
    assert (sources["subscription_policies.billing"], sources["subscription_policies.other"]) == ("TOPIC_LOCAL", "TOPIC_GLOBAL")
    assert (sources["back_log_quota_map.destination_storage"], sources["back_log_quota_map.message_age"]) == ("TOPIC_GLOBAL", "NAMESPACE")
    assert policies.offload_policies.managed_ledger_offload_bucket == "mine"
    assert sources["offload_policies.managed_ledger_offload_bucket"] == "TOPIC_LOCAL"
    assert policies.offload_policies.managed_ledger_offload_region == "r"
    assert sources["offload_policies.managed_ledger_offload_region"] == "NAMESPACE"
    await knowing.delete(topic)
    await knowing.delete(topic, scope=GLOBAL)


# Disabled topics

NAMESPACE, OTHER = "acme/orders", "acme/other"
ONE, TWO, ELSEWHERE = f"persistent://{NAMESPACE}/one", f"persistent://{NAMESPACE}/two", f"persistent://{OTHER}/one"
_moments = itertools.count(1)


def say(path: Path, namespace: str = "false", **of_topics: str) -> None:
    """Sets the property of a namespace, and of topics in it."""
    lines = ['cluster = "us"', "[broker]", f'[namespaces."{NAMESPACE}"]', "max_producers_per_topic = 5"]
    lines.append(f'properties = {{ __topic_policies_disabled = "{namespace}" }}')
    for name, value in of_topics.items():
        lines += [f'[topics."persistent://{NAMESPACE}/{name}"]', f'properties = {{ __topic_policies_disabled = "{value}" }}']
    path.write_text("\n".join(lines))
    os.utime(path, (at := next(_moments), at))


async def become(api: Api, topic: str, disabled: bool) -> None:
    """Waits until a topic is disabled, or enabled."""
    async with asyncio.timeout(20):
        while (await api.get(topic)).disabled != disabled:  # noqa: ASYNC110 (another process)
            await asyncio.sleep(0.05)


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    path = tmp_path / "cluster.toml"
    say(path)
    return path


async def test_disabled_topics_are_refused_and_not_shown_without_a_restart(serving: Serving, cluster: Path) -> None:
    server = await serving("--cluster-file", str(cluster))
    async with Api(server.address) as api:
        made = await api.update(ONE, {"max_producer_per_topic": 77})
        say(cluster, "true")
        await become(api, ONE, disabled=True)
        for call in (api.update(ONE, {"max_producer_per_topic": 1}), api.delete(ONE)):
            found = await refusal(call)
            assert (found.code, found.reason) == (FAILED, "TOPIC_POLICIES_DISABLED")
        shown = await api.get(ONE)
        assert (shown.policies, shown.version) == (None, "0")
        assert await api.documents(NAMESPACE) == []
        effective = await api.effective(ONE)
        assert effective.disabled and effective.policies.max_producer_per_topic == 5
        say(cluster, "true", one="false")
        await become(api, ONE, disabled=False)
        assert await api.get(ONE) == made.document, "the topic's value overrides that of its namespace"
        assert (await refusal(api.update(TWO, {"max_producer_per_topic": 1}))).reason == "TOPIC_POLICIES_DISABLED"
        say(cluster, "false", one="true", two="perhaps")
        await become(api, ONE, disabled=True)
        await api.update(TWO, {"max_producer_per_topic": 1})
        assert (await api.get(TWO)).policies is not None, "another value is ignored"


async def test_a_watch_shows_a_disabled_namespace_as_empty_and_goes_on(serving: Serving, cluster: Path) -> None:
    server = await serving("--cluster-file", str(cluster))
    async with Api(server.address) as api:
        one = (await api.update(ONE, {"max_producer_per_topic": 1})).document
        elsewhere = (await api.update(ELSEWHERE, {"max_producer_per_topic": 2})).document
        states: list[tuple[str, str]] = []
        async with Watching(api, [NAMESPACE, OTHER], scopes=[LOCAL]) as watch:
            first = [*await watch.synced(), *await watch.synced()]
            assert sorted(kinds(first)) == ["change", "change", "synced", "synced"]
            for value, expected in (("true", []), ("false", [one])):
                say(cluster, value)
                reset = await watch.until(lambda event: event.kind == "reset")
                assert (reset[-1].namespace, reset[-1].reason) == (NAMESPACE, "TOPIC_POLICIES_SWITCHED")
                assert documents(await watch.synced()) == expected
            last = (await api.update(ELSEWHERE, {"max_producer_per_topic": 3})).document
            assert (await watch.change()).document == last and last != elsewhere
        say(cluster, "true")
        await become(api, ONE, disabled=True)
        async for event in api.watch([NAMESPACE], until_synced=True):
            states += [(event.state, event.reason)] if event.kind == "status" else []
        assert ("DISABLED", "TOPIC_POLICIES_DISABLED") in states


async def test_a_watch_shows_disabled_topics_that_it_names_as_absent(serving: Serving, cluster: Path) -> None:
    server = await serving("--cluster-file", str(cluster))
    async with Api(server.address) as api:
        one = (await api.update(ONE, {"max_producer_per_topic": 1})).document
        two = (await api.update(TWO, {"max_producer_per_topic": 2})).document
        token = (await whole(api, topics=[ONE, TWO], scopes=[LOCAL]))[-1].token
        say(cluster, one="true")
        await become(api, ONE, disabled=True)
        named = documents(await whole(api, topics=[ONE, TWO], scopes=[LOCAL]))
        assert {each.topic: each.policies for each in named} == {ONE: None, TWO: two and two.policies}
        resumed = await whole(api, topics=[ONE, TWO], scopes=[LOCAL], resume={NAMESPACE: token})
        assert kinds(resumed) == ["reset", "change", "change", "synced"], "the set of disabled topics is another one than the token's"
        for size in (1, 2, 100):
            assert await api.documents(NAMESPACE, size) == [one, two], "a list of a namespace does not ask about each of its topics"
