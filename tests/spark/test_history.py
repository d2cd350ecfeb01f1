"""The data source over a sidecar's own history, which has every event with its actor, even after the log was compacted."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from bench.harness.targets import sqlite
from topicpolicies import Client
from topicpolicies_spark import NAME
from topicpolicies_spark.audit.attribution import who
from topicpolicies_spark.audit.state import state
from topicpolicies_spark.options import OptionError, read_options

TOPIC = "persistent://public/default/orders"


def test_a_history_without_named_namespaces_is_refused() -> None:
    with pytest.raises(OptionError, match="namespaces is needed"):
        read_options({"address": "127.0.0.1:6680"})
    assert read_options({"address": "127.0.0.1:6680", "namespaces": "public/default"}).includes("public/default")


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_sidecars_history_is_read_as_rows_that_the_audit_can_use(spark: SparkSession) -> None:
    with sqlite() as target:
        with Client(target.address, actor="retention-bot") as client:
            client.update(TOPIC, max_producer_per_topic=5)
            client.update(TOPIC, message_ttl_in_seconds=60)
        with Client(target.address, actor="cleaner") as client:
            client.update(f"{TOPIC}-2", max_producer_per_topic=1)
            client.delete(f"{TOPIC}-2")
        changes = spark.read.format(NAME).options(address=target.address, namespaces="public/default").load().cache()
        rows = [row for row in changes.orderBy("position").collect() if row.action != "GAP"]
        one = spark.read.format(NAME).options(address=target.address, namespaces="public/default", topics=TOPIC).load()
        assert one.filter("action != 'GAP'").count() == 2
    assert [(row.topic, row.actor, row.origin, row.action) for row in rows[:3]] == [
        (TOPIC, "retention-bot", "update", "UPDATE"),
        (TOPIC, "retention-bot", "update", "UPDATE"),
        (f"{TOPIC}-2", "cleaner", "update", "UPDATE"),
    ]
    assert (rows[3].topic, rows[3].actor, rows[3].action) == (f"{TOPIC}-2", "cleaner", "DELETE")
    assert rows[1].mask == ["message_ttl_in_seconds"]
    (document,) = state(changes).collect()
    assert (document.topic, document.policies.max_producer_per_topic, document.policies.message_ttl_in_seconds) == (TOPIC, 5, 60)
    assert {row.who for row in who(changes).collect()} == {"retention-bot", "cleaner"}
