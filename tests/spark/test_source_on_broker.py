"""topic_policy_changes on a real broker: every event once, from any writer, in plain, partitioned, compacted and cut logs."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pulsar
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.streaming.datasource import ReadAllAvailable

from tests.broker.admin import CHANGE_EVENTS, Admin
from tests.broker.pulsar_broker import Broker
from tests.logs.change_events import ChangeEvents
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies_server.core.names import PolicyKey, Scope
from topicpolicies_server.core.policies.documents import split
from topicpolicies_server.core.policies.events import Action, Event, Stamp, StampKind
from topicpolicies_server.logs.avro import Codec
from topicpolicies_spark import NAME
from topicpolicies_spark.offsets import DataLossError, offset_of
from topicpolicies_spark.options import read_options
from topicpolicies_spark.source import StreamReader

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(240),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


def _options(broker: Broker, namespace: str) -> dict[str, str]:
    return {"serviceUrl": broker.service_url, "adminUrl": broker.admin_url, "namespaces": namespace}


def _batch(spark: SparkSession, broker: Broker, namespace: str, **more: str) -> DataFrame:
    return spark.read.format(NAME).options(**_options(broker, namespace), **more).load()


def _set(admin: Admin, namespace: str, topic: str, value: int) -> None:
    admin.call("POST", f"persistent/{namespace}/{topic}/maxProducers", value)


def test_events_of_brokers_and_of_sidecars_are_read_as_rows(spark: SparkSession, broker: Broker, admin: Admin, namespace: str) -> None:
    admin.create_topic(f"{namespace}/orders")
    _set(admin, namespace, "orders", 5)
    admin.call("POST", f"persistent/{namespace}/orders/retention", {"retentionTimeInMinutes": 7, "retentionSizeInMB": 9})
    key = PolicyKey(f"persistent://{namespace}/billing", Scope.LOCAL)
    policies = TopicPolicies(max_producer_per_topic=3, replication_clusters=["standalone"])
    policies.subscription_policies["a.b"].dispatch_rate.dispatch_throttling_rate_in_msg = 11
    policies.offload_policies.s3_managed_ledger_offload_credential_secret = "hidden"
    stamp = Stamp("e1", StampKind.UPDATE, request_id="r1", actor="retention-bot", mask=("max_producer_per_topic",))
    with ChangeEvents(broker.service_url, namespace) as log:
        log.write(Event(key, Action.UPDATE, split(policies), stamp))
        log.write(Event(key, Action.DELETE, None, Stamp("e2", StampKind.TOMBSTONE)))
        log.write(Event(PolicyKey(key.topic, Scope.GLOBAL), Action.UPDATE, split(TopicPolicies(max_producer_per_topic=1))))
    found = {row.position: row for row in _batch(spark, broker, namespace).collect()}
    rows = [found[position] for position in sorted(found)]
    assert [(row.topic.rpartition("/")[2], row.scope, row.action, row.origin) for row in rows[-5:]] == [
        ("orders", "LOCAL", "UPDATE", "broker"),
        ("orders", "LOCAL", "UPDATE", "broker"),
        ("billing", "LOCAL", "UPDATE", "update"),
        ("billing", "LOCAL", "TOMBSTONE", "tombstone"),
        ("billing", "GLOBAL", "UPDATE", "broker"),
    ]
    retention, ours, gone = rows[-4], rows[-3], rows[-2]
    assert retention.policies.max_producer_per_topic == 5
    assert retention.policies.retention_policies.asDict() == {"retention_time_in_minutes": 7, "retention_size_in_mb": 9}
    assert (ours.actor, ours.request_id, ours.event_id, ours.mask) == ("retention-bot", "r1", "e1", ["max_producer_per_topic"])
    assert ours.policies.subscription_policies["a.b"].dispatch_rate.dispatch_throttling_rate_in_msg == 11
    assert ours.policies.replication_clusters == ["standalone"]
    assert ours.policies.offload_policies.s3_managed_ledger_offload_credential_secret == "********"
    assert gone.policies is None
    assert not any(row.problem for row in rows)
    assert all(abs(row.published.replace(tzinfo=UTC) - datetime.now(UTC)) < timedelta(minutes=10) for row in rows)


def test_every_message_in_an_entry_of_a_batching_producer_is_a_row(
    spark: SparkSession, broker: Broker, admin: Admin, namespace: str, tmp_path: Path
) -> None:
    topics = [f"persistent://{namespace}/t{number}" for number in range(4)]
    codec = Codec()
    with ChangeEvents(broker.service_url, namespace) as log:
        log.write(Event(PolicyKey(topics[0], Scope.LOCAL), Action.UPDATE, split(TopicPolicies(max_producer_per_topic=1))))
        client = pulsar.Client(broker.service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
        producer = client.create_producer(
            f"persistent://{namespace}/{CHANGE_EVENTS}", batching_enabled=True, batching_max_publish_delay_ms=10_000
        )
        for value in (2, 3):
            for topic in topics:
                event = codec.encode(
                    Event(PolicyKey(topic, Scope.LOCAL), Action.UPDATE, split(TopicPolicies(max_producer_per_topic=value)))
                )
                producer.send_async(event.payload, None, partition_key=event.key, properties=event.properties)
            producer.flush()
        client.close()
        log.write(Event(PolicyKey(topics[0], Scope.LOCAL), Action.UPDATE, split(TopicPolicies(max_producer_per_topic=4))))
    expected = sorted([(topics[0], 1), *((topic, value) for value in (2, 3) for topic in topics), (topics[0], 4)])
    rows = _batch(spark, broker, namespace).selectExpr("topic", "policies.max_producer_per_topic value", "position", "ledger", "entry")
    found = rows.collect()
    assert sorted((row.topic, row.value) for row in found) == expected
    assert len({row.position for row in found}) == len(expected)
    assert len({(row.ledger, row.entry) for row in found}) == 4, "the producer put four messages into one entry"
    stream = spark.readStream.format(NAME).options(**_options(broker, namespace), maxRowsPerTrigger="1").load()
    query = stream.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    running = query.option("path", str(tmp_path / "changes")).trigger(availableNow=True).start()
    running.awaitTermination(120)
    assert running.exception() is None
    taken = spark.read.parquet(str(tmp_path / "changes")).selectExpr("topic", "policies.max_producer_per_topic value").collect()
    assert sorted((row.topic, row.value) for row in taken) == expected


def test_filters_and_options_limit_the_rows_that_are_read(spark: SparkSession, broker: Broker, admin: Admin, namespace: str) -> None:
    other = admin.create_namespace()
    for each in (namespace, other):
        for topic in ("a", "b"):
            admin.create_topic(f"{each}/{topic}")
            _set(admin, each, topic, 5)
    names = f"{namespace},{other}"
    both = _batch(spark, broker, names)
    assert both.select("namespace").distinct().count() == 2
    last = both.agg(F.max("published")).first()
    assert last is not None
    pushing = {"pushFilters": "true"}
    narrowed = _batch(spark, broker, names, **pushing).filter(
        (F.col("namespace") == namespace) & (F.col("topic") == f"persistent://{namespace}/b")
    )
    assert [row.topic for row in narrowed.select("topic").collect()] == [f"persistent://{namespace}/b"]
    physical = narrowed._jdf.queryExecution().executedPlan().toString()
    assert namespace not in physical, "the source filters by name, not Spark"
    assert _batch(spark, broker, names, **pushing).filter(F.col("published") > last[0]).count() == 0
    assert _batch(spark, broker, names, **pushing).filter(F.col("published") >= last[0]).count() == 1
    assert _batch(spark, broker, names, **pushing).filter(F.col("namespace").isin(other, "public/none")).count() == 2
    assert both.filter(F.col("namespace") == other).count() == 2
    assert both.count() == 4, "without pushed filters a DataFrame may be used again"
    future = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    assert _batch(spark, broker, namespace, since=future).count() == 0
    assert _batch(spark, broker, namespace, until=future, topics=f"persistent://{namespace}/a").count() == 1


@pytest.mark.parametrize("partitions", [pytest.param(0, marks=pytest.mark.evidence), 3])
def test_a_stream_reads_every_event_once_in_batches_of_bounded_size(
    spark: SparkSession, broker: Broker, admin: Admin, tmp_path: Path, partitions: int
) -> None:
    namespace = admin.create_namespace()
    if partitions:
        admin.partition_change_events(namespace, partitions)
    topics = [f"t{number}" for number in range(6)]
    for topic in topics:
        admin.create_topic(f"{namespace}/{topic}")
    for value in range(1, 6):
        for topic in topics:
            _set(admin, namespace, topic, value)
    sizes: list[int] = []

    def take() -> None:
        stream = spark.readStream.format(NAME).options(**_options(broker, namespace), maxRowsPerTrigger="9").load()
        query = (
            stream.writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .option("path", str(tmp_path / "changes"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(120)
        assert query.exception() is None
        sizes.extend(int(each["numInputRows"]) for each in query.recentProgress)

    take()
    assert sum(sizes) >= 30
    assert 0 < max(sizes) <= 9
    _set(admin, namespace, "t0", 77)
    take()
    taken = spark.read.parquet(str(tmp_path / "changes"))
    assert taken.count() == taken.select("partition", "position").distinct().count()
    values = {(row.topic, row.value) for row in taken.selectExpr("topic", "policies.max_producer_per_topic as value").collect()}
    expected = {(f"persistent://{namespace}/{topic}", value) for topic in topics for value in range(1, 6)}
    assert values >= {*expected, (f"persistent://{namespace}/t0", 77)}
    assert taken.select("partition").distinct().count() in range(1, max(1, partitions) + 1)
    offsets = sorted((tmp_path / "checkpoint" / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    assert json.loads(offsets[-1].read_text().splitlines()[-1])["format"] == 1


def test_events_that_compaction_left_are_read_once_and_newer_ones_are_not_missed(
    spark: SparkSession, broker: Broker, admin: Admin, namespace: str
) -> None:
    for topic in ("a", "b"):
        admin.create_topic(f"{namespace}/{topic}")
    for value in range(1, 6):
        _set(admin, namespace, "a", value)
    _set(admin, namespace, "b", 50)
    admin.compact_change_events(namespace)
    admin.call("PUT", f"persistent/{namespace}/__change_events/unload")  # begins a new ledger, so that the compacted one may be deleted
    _set(admin, namespace, "a", 6)
    admin.call("PUT", f"persistent/{namespace}/__change_events/unload")
    everything = _batch(spark, broker, namespace)
    seen = [
        (row.topic.rpartition("/")[2], row.value)
        for row in everything.selectExpr("topic", "policies.max_producer_per_topic value").collect()
    ]
    assert len(seen) == len(set(seen))
    assert {("a", 6), ("b", 50)} <= set(seen)
    compacted = _batch(spark, broker, namespace, mode="compacted")
    newest = [
        (row.topic.rpartition("/")[2], row.value)
        for row in compacted.selectExpr("topic", "policies.max_producer_per_topic value").collect()
    ]
    assert {("a", 6), ("b", 50)} <= set(newest)
    assert not {("a", 1), ("a", 2), ("a", 3)} & set(newest)


def test_a_truncated_log_fails_a_stream_that_had_not_read_it_to_its_end(broker: Broker, namespace: str, admin: Admin) -> None:
    def write(*values: int) -> None:
        key = PolicyKey(f"persistent://{namespace}/t", Scope.LOCAL)
        with ChangeEvents(broker.service_url, namespace) as log:
            for value in values:
                log.write(Event(key, Action.UPDATE, split(TopicPolicies(max_producer_per_topic=value))))

    def batch(stream: StreamReader, start: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
        end = stream.latestOffset(start, ReadAllAvailable())
        found = [row for part in stream.partitions(start, end) for each in stream.read(part) for row in each.to_pylist()]
        return end, [row["policies"]["max_producer_per_topic"] for row in found]

    def truncate() -> None:
        admin.call("DELETE", f"persistent/{namespace}/{CHANGE_EVENTS}/truncate")
        admin.call("PUT", f"persistent/{namespace}/{CHANGE_EVENTS}/unload")  # begins a new ledger, and deletes the old one

    stream = StreamReader(read_options(_options(broker, namespace)))
    write(1, 2)
    end, values = batch(stream, offset_of({}))
    assert values == [1, 2]
    truncate()
    assert batch(stream, end) == (end, []), "it was read to its end"
    write(3)
    end, values = batch(stream, end)
    assert values == [3]
    write(4)
    truncate()
    with pytest.raises(DataLossError, match=namespace):
        batch(stream, end)
    write(5)
    with pytest.raises(DataLossError, match=namespace):
        batch(stream, end)
    careless = StreamReader(read_options({**_options(broker, namespace), "failOnDataLoss": "false"}))
    assert batch(careless, end)[1] == [5]
