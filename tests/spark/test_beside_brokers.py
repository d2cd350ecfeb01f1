"""An archive of brokers' logs names the right person: it is compared with the server's own history, and with what the callers did.

A sidecar and the admin API change the same topics at once, documents are deleted and come back, and the log is compacted.
"""

from __future__ import annotations

import contextlib
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from bench.harness.targets import pulsar
from tests.broker.admin import Admin, AdminError
from tests.broker.pulsar_broker import Broker
from topicpolicies import Client, TopicPoliciesError
from topicpolicies.v1.history_pb2 import HistoryKind, HistoryOutcome
from topicpolicies_spark.audit import app as commands
from topicpolicies_spark.audit import archive as archives
from topicpolicies_spark.audit.changes import made
from topicpolicies_spark.audit.state import state

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300), pytest.mark.filterwarnings("ignore::ResourceWarning")]
TOPICS = 6
ROUNDS = 60


def _administrate(broker: Broker, namespace: str) -> None:
    chance = random.Random(1)
    with broker.admin() as admin, contextlib.suppress(AdminError):
        for number in range(1, ROUNDS):
            topic = f"persistent/{namespace}/t{chance.randrange(TOPICS)}"
            if chance.random() < 0.2:
                admin.call("DELETE", f"{topic}/maxProducers")
            else:
                admin.call("POST", f"{topic}/maxProducers", number)


def _call(address: str, namespace: str, actor: str, field: str) -> None:
    """Changes one field only, and deletes documents now and then."""
    chance = random.Random(actor)
    with Client(address, actor=actor) as client:
        for number in range(1, ROUNDS):
            topic = f"persistent://{namespace}/t{chance.randrange(TOPICS)}"
            with contextlib.suppress(TopicPoliciesError):
                if chance.random() < 0.1:
                    client.delete(topic, actor="cleaner")
                else:
                    client.update(topic, {field: number})


def test_who_and_state_are_those_of_the_server_whatever_brokers_write_and_compact(
    spark: SparkSession, broker: Broker, admin: Admin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    namespace = admin.create_namespace("audited")
    for number in range(TOPICS):
        admin.create_topic(f"{namespace}/t{number}")
    history = ("--history", str(tmp_path / "history.db"))
    with pulsar(broker.service_url, broker.admin_url, options=history) as target:
        with ThreadPoolExecutor(3) as threads:
            running = [
                threads.submit(_administrate, broker, namespace),
                threads.submit(_call, target.address, namespace, "ann", "max_consumer_per_topic"),
                threads.submit(_call, target.address, namespace, "bob", "message_ttl_in_seconds"),
            ]
            for each in running:
                each.result()
        admin.compact_change_events(namespace)
        admin.call("PUT", f"persistent/{namespace}/__change_events/unload")
        archive = str(tmp_path / "archive")
        archives.copied(archives.ingest(spark, archive, {"address": target.address, "namespaces": namespace}, every_seconds=None))
        changes = archives.changes(spark, archive).cache()
        found = made(changes).select("topic", "scope", "version", "who", "actor", "changed", "fields").collect()
        with Client(target.address) as client:
            entries = list(client.history(namespace=namespace, page_size=1_000))
            documents = {each.topic: each.version for each in client.list(namespace)}
    server = {
        (entry.document.topic, entry.document.version): (entry.origin.actor or None, list(entry.changed.paths))
        for entry in entries
        if entry.outcome == HistoryOutcome.HISTORY_OUTCOME_APPLIED and entry.changed.paths
    }
    assert len(server) > ROUNDS and any(entry.kind == HistoryKind.HISTORY_KIND_BROKER for entry in entries)
    assert {(row.topic, row.version): (row.actor, row.changed) for row in found} == server
    allowed = {"ann": {"max_consumer_per_topic"}, "bob": {"message_ttl_in_seconds"}}
    assert [row for row in found if row.who in allowed and not set(row.fields) <= allowed[row.who]] == [], "nobody is charged with more"
    assert {row.topic: row.version for row in state(changes).collect()} == documents
    changes.unpersist()

    monkeypatch.setattr(commands, "_spark", lambda: contextlib.nullcontext(spark))
    later = tmp_path / "later"
    options = ("--pulsar", broker.service_url, "--admin-url", broker.admin_url, "--namespaces", namespace)
    ran = CliRunner().invoke(commands.app, ["ingest", str(later), *options])
    own = archives.changes(spark, str(later))
    assert {row.topic: row.version for row in state(own).collect()} == documents
    charged = made(own).select("topic", "version", "who", "actor", "changed", "fields").collect()
    assert all(set(row.fields) <= allowed[row.who] for row in charged if row.who in allowed)
    if ran.exit_code:
        assert ran.exit_code == 8 and "compacted" in ran.output, "what was compacted before the first run is told"
    else:  # the brokers still had everything
        assert {(row.topic, row.version): (row.actor, row.changed) for row in charged} == server
