"""How the log interprets what brokers report about themselves and about a log's topic."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

import pytest

from tests.logs.pulsar.fakes import FakeAdmin
from topicpolicies_server.cluster.admin import AdminSource
from topicpolicies_server.core.errors import Kind
from topicpolicies_server.core.reasons import LogState
from topicpolicies_server.logs.avro import PULSAR_4_2_4, Dialect
from topicpolicies_server.logs.change_log import LogError
from topicpolicies_server.logs.pulsar.admin import Admin
from topicpolicies_server.logs.pulsar.facts import PulsarFacts, dialect_of, learn, unread_logs
from topicpolicies_server.logs.pulsar.ids import NOWHERE, MessageId
from topicpolicies_server.logs.pulsar.topics import NOT_REGISTERED, Compaction, Gap, Layout, Schemas, State, Topics, throttling

REFUSED = LogError(LogState.ADMIN_REFUSED, "superusers only")
SERVICES = "org.apache.pulsar.broker.service"
TOPIC, LOG = "persistent/public/default/__change_events", "persistent://public/default/__change_events"
SCHEMA = "schemas/public/default/__change_events/schema"
POLICIES = "namespaces/public/default"


def admin_answering(answers: dict[str, Any]) -> Admin:
    return cast("Admin", FakeAdmin(answers))


@pytest.mark.parametrize(
    ("version", "dialect"),
    [
        ("4.2.4", Dialect.PREFIXED),
        ("4.1.0", Dialect.PREFIXED),
        ("5.0.0", Dialect.PREFIXED),
        ("5.0.0-SNAPSHOT", Dialect.PREFIXED),
        ("4.0.6", Dialect.PREFIXED),
        ("4.0.10.5", Dialect.PREFIXED),
        ("4.0.5", Dialect.SHARED_KEY),
        ("4.0.0", Dialect.SHARED_KEY),
        ("3.0.13", Dialect.PREFIXED),
        ("3.0.12", Dialect.SHARED_KEY),
        ("3.3.8", Dialect.PREFIXED),
        ("3.3.7", Dialect.SHARED_KEY),
        ("3.1.0", Dialect.UNKNOWN),
        ("2.11.4", Dialect.UNKNOWN),
        ("", Dialect.UNKNOWN),
        ("latest", Dialect.UNKNOWN),
    ],
)
def test_the_dialect_follows_from_the_version_and_is_unknown_for_versions_that_were_not_examined(version: str, dialect: Dialect) -> None:
    assert dialect_of(version) is dialect


async def test_facts_are_taken_from_the_brokers_runtime_configuration() -> None:
    settings = {"clusterName": "east", "allowAutoTopicCreationType": "partitioned", "defaultNumPartitions": "8"}
    admin = admin_answering({"brokers/version": "4.2.4", "brokers/configuration/runtime": settings})
    assert await learn(admin, "pulsar://a:6650") == PulsarFacts("east", Dialect.PREFIXED, 8)


@pytest.mark.parametrize(
    ("service", "system_topics", "new", "existing"),
    [
        (None, "true", True, True),
        ("", "true", True, True),
        (f"{SERVICES}.SystemTopicBasedTopicPoliciesService", "true", True, True),
        (f"{SERVICES}.SystemTopicBasedTopicPoliciesService", "false", False, False),
        (f"{SERVICES}.MetadataStoreTopicPoliciesService", "true", False, True),
        (f"{SERVICES}.MetadataStoreTopicPoliciesService", "false", False, False),
        ("topicpolicies.broker.SidecarTopicPoliciesService", "true", True, True),
        ("topicpolicies.broker.SidecarTopicPoliciesService", "false", True, True),
        ("com.example.Another", "true", True, True),
    ],
)
def test_which_change_logs_brokers_read_follows_from_their_service_and_from_system_topics(
    service: str | None, system_topics: str, new: bool, existing: bool
) -> None:
    unread, reads_existing = unread_logs({"topicPoliciesServiceClassName": service, "systemTopicEnabled": system_topics})
    assert (not unread, reads_existing) == (new, existing)
    assert unread == "" or "systemTopicEnabled=true" in unread


async def test_without_permission_for_the_configuration_the_only_cluster_is_taken() -> None:
    admin = admin_answering({"brokers/version": "4.0.0", "brokers/configuration/runtime": REFUSED, "clusters": ["global", "east"]})
    assert await learn(admin, "pulsar://a:6650") == PulsarFacts("east", Dialect.SHARED_KEY, 0, in_place=True)


async def test_of_several_clusters_the_one_with_a_host_in_the_service_url_is_taken() -> None:
    answers = {
        "brokers/version": "4.2.4",
        "brokers/configuration/runtime": REFUSED,
        "clusters": ["east", "west"],
        "clusters/east": {"brokerServiceUrl": "pulsar://east:6650", "brokerServiceUrlTls": None},
        "clusters/west": {"brokerServiceUrl": "pulsar://west:6650", "brokerServiceUrlTls": "pulsar+ssl://west:6651"},
    }
    assert (await learn(admin_answering(answers), "pulsar+ssl://other:1,WEST:6651")).name == "west"
    with pytest.raises(LogError, match="east, west") as failed:
        await learn(admin_answering(answers), "pulsar://proxy:6650")
    assert failed.value.kind is Kind.FAILED_PRECONDITION


async def test_facts_are_not_guessed_if_brokers_do_not_answer() -> None:
    with pytest.raises(LogError, match="no answer"):
        await learn(admin_answering({"brokers/version": LogError(LogState.ADMIN_UNREACHABLE, "no answer")}), "pulsar://a:6650")


async def test_a_log_is_found_with_its_number_of_partitions() -> None:
    for count, topics in ((0, ["__change_events"]), (2, ["__change_events-partition-0", "__change_events-partition-1"])):
        layout = await Topics(admin_answering({f"{TOPIC}/partitions": {"partitions": count}})).find("public/default")
        assert layout == Layout("public/default", count)
        assert layout is not None
        assert layout.topics == [f"persistent://public/default/{topic}" for topic in topics]


@pytest.mark.parametrize("policies", [None, {"deleted": True}])
async def test_a_namespace_that_does_not_exist_or_is_being_deleted_is_not_found(policies: Any) -> None:
    topics = Topics(admin_answering({POLICIES: policies}))
    for question in (topics.find("public/default"), topics.expected("public/default", 0)):
        with pytest.raises(LogError) as failed:
            await question
        assert failed.value.kind is Kind.NOT_FOUND


async def test_looking_for_a_log_sends_only_requests_that_create_nothing() -> None:
    admin = FakeAdmin({POLICIES: {}})
    topics = Topics(cast("Admin", admin))
    assert await topics.find("public/default") is None
    await topics.expected("public/default", 0)
    assert set(admin.asked) == {f"{TOPIC}/partitions", POLICIES}


@pytest.mark.parametrize(
    ("override", "default", "expected"),
    [
        (None, 0, 0),
        (None, 4, 4),
        ({"topicType": "partitioned", "defaultNumPartitions": 3}, 0, 3),
        ({"topicType": "partitioned"}, 0, 1),
        ({"topicType": "non-partitioned"}, 4, 0),
    ],
)
async def test_a_namespaces_setting_for_new_topics_takes_precedence_over_the_brokers(override: Any, default: int, expected: int) -> None:
    topics = Topics(admin_answering({POLICIES: {"autoTopicCreationOverride": override}}))
    assert (await topics.expected("public/default", default)).partitions == expected


@pytest.mark.parametrize(
    ("stats", "last"),
    [
        (None, NOWHERE),
        ({"lastConfirmedEntry": "7:3", "ledgers": [{"ledgerId": 7}]}, MessageId(7, 3)),
        ({"lastConfirmedEntry": "7:-1", "ledgers": [{"ledgerId": 7}]}, MessageId(7, -1)),
        ({"lastConfirmedEntry": "nonsense"}, NOWHERE),
    ],
)
async def test_the_state_of_a_topic_has_its_last_entry(stats: Any, last: MessageId) -> None:
    topics = Topics(admin_answering({f"{TOPIC}/internalStats": stats}))
    assert (await topics.state(LOG)).last == last


@pytest.mark.parametrize(
    ("horizon", "recalled", "first"),
    [
        (MessageId(5, 3), 100, MessageId(3, 0)),
        (MessageId(5, 1), 5, MessageId(3, 7)),
        (MessageId(7, -1), 3, MessageId(5, 1)),
        (MessageId(7, 8), 4, MessageId(7, 5)),
        (MessageId(7, 8), 0, MessageId(7, 9)),
        (MessageId(2, 8), 4, MessageId(2, 9)),  # its ledger is gone
    ],
)
async def test_a_topic_is_read_uncompacted_from_the_first_entry_on_that_is_wanted_and_left(
    horizon: MessageId, recalled: int, first: MessageId
) -> None:
    stats = {
        "ledgers": [{"ledgerId": 3, "entries": 10}, {"ledgerId": 5, "entries": 4}, {"ledgerId": 7, "entries": 0}],
        "compactedLedger": {"ledgerId": 20},
        "cursors": {"__compaction": {"markDeletePosition": f"{horizon.ledger}:{horizon.entry}"}},
        "lastConfirmedEntry": "7:9",
    }
    topics = Topics(admin_answering({f"{TOPIC}/internalStats": stats}))
    state = await topics.state(LOG, recalled)
    assert state == State(Compaction(20, horizon), MessageId(7, 9), first)


async def test_a_topic_that_was_never_compacted_is_read_from_its_first_ledger_on() -> None:
    stats = {"ledgers": [{"ledgerId": 5, "entries": 4}, {"ledgerId": 7}], "lastConfirmedEntry": "7:9"}
    topics = Topics(admin_answering({f"{TOPIC}/internalStats": stats}))
    assert (await topics.state(LOG, 3)).first == MessageId(5, 0)


@pytest.mark.parametrize(
    ("read", "waiting", "consumer", "all_sent"),
    [("7:4", True, "mine", True), ("7:3", True, "mine", False), ("7:4", False, "mine", False), ("7:4", True, "theirs", False)],
)
async def test_everything_was_sent_only_if_the_readers_own_cursor_waits_behind_the_last_entry(
    read: str, waiting: bool, consumer: str, all_sent: bool
) -> None:
    answers = {
        f"{TOPIC}/stats": {"subscriptions": {"other": {"consumers": []}, "sub": {"consumers": [{"consumerName": consumer}]}}},
        f"{TOPIC}/internalStats": {"cursors": {"sub": {"readPosition": read, "waitingReadOp": waiting}}},
    }
    topics = Topics(admin_answering(answers))
    assert await topics.sent_up_to(LOG, "mine", MessageId(7, 3)) is all_sent


LEDGERS = [{"ledgerId": 3, "entries": 9}, {"ledgerId": 5, "entries": 3}, {"ledgerId": 6, "entries": 2}, {"ledgerId": 8, "entries": 0}]
MARKER = {"X-Pulsar-marker-type": "10"}


@pytest.mark.parametrize(
    ("after", "before", "shown", "skipped"),
    [
        (MessageId(5, 1), MessageId(5, 2), {}, None),
        (MessageId(5, 2), MessageId(6, 0), {}, None),
        (MessageId(6, 1), MessageId(8, 0), {}, None),
        (MessageId(4, 7), MessageId(5, 0), {}, None),  # ledger 4 does not exist any more
        (MessageId(5, 0), MessageId(5, 2), {"5/entry/1": {}}, MessageId(5, 1)),
        (MessageId(5, 1), MessageId(6, 1), {"5/entry/2": {}}, MessageId(5, 2)),
        (MessageId(5, 2), MessageId(6, 2), {"6/entry/0": MARKER, "6/entry/1": {}}, MessageId(6, 1)),
        (MessageId(6, 1), MessageId(8, 2), {"8/entry/0": MARKER, "8/entry/1": MARKER}, None),
        (MessageId(5, 2), MessageId(8, 0), {"6/entry/0": MARKER, "6/entry/1": {}}, MessageId(6, 1)),
        (MessageId(6, 1), MessageId(8, 2), {"8/entry/0": REFUSED}, MessageId(8, 0)),
        (MessageId(6, 1), MessageId(8, 99), {f"8/entry/{entry}": MARKER for entry in range(99)}, MessageId(8, 64)),
    ],
)
async def test_a_message_between_two_entries_is_found_in_any_ledger(
    after: MessageId, before: MessageId, shown: dict[str, Any], skipped: MessageId | None
) -> None:
    entries = {f"{TOPIC}/ledger/{where}": headers for where, headers in shown.items()}
    admin = FakeAdmin({f"{TOPIC}/internalStats": {"ledgers": LEDGERS}, **entries})
    topics = Topics(cast("Admin", admin))
    assert await topics.gap(LOG, after, before) == Gap(skipped, after.ledger == 4, -1)
    assert len(admin.asked) == 1 + min(len(shown), 64)


def schemas_of(answers: dict[str, Any]) -> tuple[Schemas, FakeAdmin]:
    admin = FakeAdmin(answers)
    return Schemas(cast("Admin", admin), "public/default", cluster="standalone", dialect=Dialect.PREFIXED), admin


def registered(version: int, definition: str, kind: str = "AVRO") -> dict[str, Any]:
    return {"version": version, "type": kind, "data": definition}


async def test_a_topic_without_a_schema_is_written_with_the_schema_of_4_2_4() -> None:
    schemas, _ = schemas_of({})
    newest = await schemas.refresh()
    assert (newest.version, newest.codec.definition) == (NOT_REGISTERED, PULSAR_4_2_4)


async def test_a_topic_is_written_with_its_newest_schema_verbatim() -> None:
    newer = json.loads(PULSAR_4_2_4)
    newer["doc"] = "newer"
    definition = json.dumps(newer, indent=3)
    schemas, _ = schemas_of({SCHEMA: registered(4, definition), f"{SCHEMA}/4": registered(4, definition)})
    newest = await schemas.refresh()
    assert (newest.version, newest.codec.definition) == (4, definition)


async def test_registered_schemas_that_are_not_of_policy_events_are_ignored() -> None:
    answers = {
        SCHEMA: registered(2, '"string"'),
        f"{SCHEMA}/2": registered(2, '"string"'),
        f"{SCHEMA}/1": registered(1, "{}", "JSON"),
        f"{SCHEMA}/0": registered(0, PULSAR_4_2_4),
    }
    schemas, _ = schemas_of(answers)
    assert (await schemas.refresh()).version == 0
    assert await schemas.written_with(1) is None
    assert await schemas.written_with(7) is None


async def test_each_schema_version_is_requested_once() -> None:
    schemas, admin = schemas_of({SCHEMA: registered(0, PULSAR_4_2_4), f"{SCHEMA}/0": registered(0, PULSAR_4_2_4)})
    for _ in range(3):
        await schemas.refresh()
        assert await schemas.written_with(0) is schemas.known(0)
        assert await schemas.written_with(9) is None
    assert admin.asked.count(f"{SCHEMA}/0") == admin.asked.count(f"{SCHEMA}/9") == 1


async def test_a_newer_schema_that_an_event_was_written_with_becomes_the_newest() -> None:
    newer = json.dumps({**json.loads(PULSAR_4_2_4), "doc": "newer"})
    answers = {SCHEMA: registered(0, PULSAR_4_2_4), f"{SCHEMA}/0": registered(0, PULSAR_4_2_4), f"{SCHEMA}/1": registered(1, newer)}
    schemas, _ = schemas_of(answers)
    await schemas.refresh()
    assert await schemas.written_with(1) is schemas.newest.codec
    assert (schemas.newest.version, schemas.newest.codec.definition) == (1, newer)
    assert schemas.known(0) not in (None, schemas.newest.codec)


FORMS = [
    "<html>a proxy's page</html>",
    [["x"]],
    {"partitions": "many", "ledgers": 7, "version": "x", "type": "AVRO"},
    7,
    True,
    {"ledgers": [7]},
]


@pytest.mark.parametrize("answer", FORMS, ids=range(len(FORMS)))
async def test_answers_of_any_form_are_interpreted_or_reported_as_a_log_error(answer: Any) -> None:
    class Answering(FakeAdmin):
        async def get(self, *path: str, seconds: float = 0) -> Any:
            return answer

    admin = cast("Admin", Answering())
    topics, schemas = Topics(admin), Schemas(admin, "public/default", cluster="east", dialect=Dialect.PREFIXED)
    layout, place = Layout("public/default", 0), MessageId(7, 1)
    source = AdminSource(admin, "pulsar://a:6650")
    questions = [
        learn(admin, "pulsar://a:6650"),
        topics.find("public/default"),
        topics.expected("public/default", 0),
        topics.stored(layout),
        topics.state(LOG),
        topics.last(LOG),
        topics.sent_up_to(LOG, "mine", place),
        topics.gap(LOG, place, MessageId(8, 1)),
        schemas.refresh(),
        schemas.written_with(3),
        source.cluster(),
        source.clusters(),
        source.tenant("public"),
        source.namespace("public/default"),
        source.topic("persistent://public/default/a"),
        source._lists("public/default"),
    ]
    failures = [answer for answer in await asyncio.gather(*questions, return_exceptions=True) if isinstance(answer, BaseException)]
    assert {type(failure) for failure in failures} == {LogError}
    assert len(failures) > 5


async def test_an_html_page_is_neither_a_version_nor_a_list_of_names() -> None:
    page = "<html>a proxy's page</html>"
    with pytest.raises(LogError) as failed:
        await learn(admin_answering({"brokers/version": page, "brokers/configuration/runtime": {"clusterName": "east"}}), "pulsar://a:6650")
    assert failed.value.state == LogState.ADMIN_UNREACHABLE
    source = AdminSource(admin_answering({"clusters": page, "persistent/a/b/partitioned": page, "persistent/a/b": page}), "pulsar://a:6650")
    for question in (source.clusters(), source._lists("a/b")):
        with pytest.raises(LogError, match="no list of names"):
            await question


def a_rate(messages: int = -1, size: int = -1, period: int = 1, kind: str = "dispatch") -> dict[str, Any]:
    return {f"{kind}ThrottlingRateInMsg": messages, f"{kind}ThrottlingRateInByte": size, "ratePeriodInSecond": period}


@pytest.mark.parametrize(
    ("policies", "dialect", "named"),
    [
        (
            {"subscriptionDispatchRate": {"east": a_rate(1, period=30)}},
            Dialect.PREFIXED,
            "subscription dispatch rate of a/b (1 message in 30 s)",
        ),
        (
            {"subscriptionDispatchRate": {"east": a_rate(size=5_000)}},
            Dialect.PREFIXED,
            "subscription dispatch rate of a/b (5,000 bytes in 1 s)",
        ),
        ({"subscriptionDispatchRate": {"east": a_rate(10_000, 1 << 30)}}, Dialect.PREFIXED, ""),
        ({"subscriptionDispatchRate": {"east": a_rate()}, "topicDispatchRate": {}}, Dialect.SHARED_KEY, ""),
        ({"publishMaxMessageRate": {"east": a_rate(2, kind="publish")}}, Dialect.PREFIXED, ""),
        ({"publishMaxMessageRate": {"east": a_rate(2, kind="publish")}}, Dialect.SHARED_KEY, "publish rate of a/b (2 messages in 1 s)"),
        ({"clusterDispatchRate": {"east": a_rate(2)}}, Dialect.SHARED_KEY, "The dispatch rate of a/b (2 messages in 1 s)"),
    ],
)
def test_a_rate_of_the_namespace_that_slows_its_change_log_down_is_named(policies: dict[str, Any], dialect: Dialect, named: str) -> None:
    told = throttling("a/b", policies, dialect)
    assert named in told and bool(named) is bool(told)
