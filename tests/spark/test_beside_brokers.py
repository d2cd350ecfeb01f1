"""An archive of brokers' logs names the right person: it is compared with the server's own history, and with what the callers did.

A sidecar and the admin API change the same topics at once, documents are deleted and come back, and the log is compacted.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from bench.targets import pulsar
from tests.broker.admin import Admin, AdminError
from tests.broker.pulsar_broker import Broker
from topicpolicies import Client, TopicPoliciesError
from topicpolicies.v1.history_pb2 import HistoryKind, HistoryOutcome
from topicpolicies.v1.service_pb2 import CHANGE_OUTCOME_APPLIED
from topicpolicies_spark.audit import app as commands
from topicpolicies_spark.audit import archive as archives
from topicpolicies_spark.audit.questions import made, state

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400), pytest.mark.filterwarnings("ignore::ResourceWarning")]
TOPICS = 6
ROUNDS = 40
MOMENTS = 2


def _administrate(broker: Broker, namespace: str, setting: str) -> None:
    """Changes one setting through the admin API. Two at once make the broker write documents that are behind each other."""
    chance = random.Random(setting)
    with broker.admin() as admin:
        for number in range(1, ROUNDS):
            topic = f"persistent/{namespace}/t{chance.randrange(TOPICS)}"
            with contextlib.suppress(AdminError):
                if chance.random() < 0.2:
                    admin.call("DELETE", f"{topic}/{setting}")
                else:
                    admin.call("POST", f"{topic}/{setting}", number)


class Caller:
    """Changes one field only, deletes documents now and then, and keeps what it was answered."""

    def __init__(self, actor: str, field: str) -> None:
        self.actor, self.field = actor, field
        self.answers: set[tuple[str, str, str]] = set()
        """The topics and versions of what it changed, and who did so."""

    def run(self, address: str, namespace: str) -> None:
        """Makes the changes."""
        chance = random.Random(self.actor)
        with Client(address, actor=self.actor) as client:
            for number in range(1, ROUNDS):
                topic = f"persistent://{namespace}/t{chance.randrange(TOPICS)}"
                with contextlib.suppress(TopicPoliciesError):
                    if chance.random() < 0.1:
                        result, actor = client.delete(topic, actor="cleaner", include_previous=True), "cleaner"
                        if not result.previous.policies.ListFields():  # nor does the deletion of an empty document change anything
                            continue
                    else:
                        result, actor = client.update(topic, {self.field: number}), self.actor
                    if result.outcome == CHANGE_OUTCOME_APPLIED:
                        self.answers.add((topic, result.version, actor))


def test_who_and_state_are_those_of_the_server_and_of_the_callers_whatever_brokers_write_and_compact(
    spark: SparkSession, broker: Broker, admin: Admin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    namespace = admin.create_namespace("audited")
    for number in range(TOPICS):
        admin.create_topic(f"{namespace}/t{number}")
    history = ("--history", str(tmp_path / "history.db"))
    callers = [Caller("ann", "max_consumer_per_topic"), Caller("bob", "message_ttl_in_seconds")]
    moments: list[datetime] = []
    with pulsar(broker.service_url, broker.admin_url, options=history) as target:
        with ThreadPoolExecutor(4) as threads:
            running = [threads.submit(each.run, target.address, namespace) for each in callers]
            running += [
                threads.submit(_administrate, broker, namespace, setting) for setting in ("maxProducers", "maxSubscriptionsPerTopic")
            ]
            while not all(each.done() for each in running):
                time.sleep(0.5)
                moments.append(datetime.now(UTC))
            for each in running:
                each.result()
        admin.compact_change_events(namespace)
        admin.call("PUT", f"persistent/{namespace}/__change_events/unload")
        archive = str(tmp_path / "archive")
        archives.ingest(spark, archive, {"address": target.address, "namespaces": namespace}, every_seconds=None).awaitTermination()
        changes = archives.changes(spark, archive).cache()
        found = made(changes).select("topic", "scope", "version", "who", "actor", "changed", "fields", "ambiguous").collect()
        with Client(target.address) as client:
            entries = list(client.history(namespace=namespace, page_size=1_000))
            documents = {each.topic: each.version for each in client.list(namespace)}
            for moment in moments[:MOMENTS]:
                then = {row.topic: row.version for row in state(changes, moment.isoformat()).collect()}
                of_server = {topic: _version_as_of(client, topic, moment) for topic in _topics(namespace)}
                assert then == {topic: version for topic, version in of_server.items() if version}
    server = {
        (entry.document.topic, entry.document.version): (entry.origin.actor or None, list(entry.changed.paths))
        for entry in entries
        if entry.outcome == HistoryOutcome.HISTORY_OUTCOME_APPLIED and entry.changed.paths
    }
    kinds = Counter(HistoryKind.Name(entry.kind).removeprefix("HISTORY_KIND_") for entry in entries)
    assert len(server) > ROUNDS * 2 and min(kinds["BROKER"], kinds["TOMBSTONE"]) > 0, kinds
    assert changes.filter("action != 'GAP'").count() == len(entries)
    assert {(row.topic, row.version): (row.actor, row.changed) for row in found} == server
    told = {(row.topic, row.version, row.who) for row in found if row.actor}
    assert told == callers[0].answers | callers[1].answers, "each change of a caller is there once, with its name"
    allowed = {
        "ann": {"max_consumer_per_topic"},
        "bob": {"message_ttl_in_seconds"},
        None: {"max_producer_per_topic", "max_subscriptions_per_topic"},
    }
    charged = [row for row in found if row.actor in allowed and not row.ambiguous]
    wrong = [row for row in charged if not set(row.fields) <= allowed[row.actor]]
    assert wrong == [], "nobody is charged with more than its own fields"
    assert {row.actor for row in found if row.ambiguous} <= {None}, "what is not certain, no person is charged with"
    assert {row.topic: row.version for row in state(changes).collect()} == documents
    changes.unpersist()

    monkeypatch.setattr(commands, "_spark", lambda: contextlib.nullcontext(spark))
    later = tmp_path / "later"
    options = ("--pulsar", broker.service_url, "--admin-url", broker.admin_url, "--namespaces", namespace)
    ran = CliRunner().invoke(commands.app, ["ingest", str(later), *options])
    own = archives.changes(spark, str(later))
    assert {row.topic: row.version for row in state(own).collect()} == documents, ran.output
    later_rows = made(own).select("topic", "version", "actor", "changed", "fields", "ambiguous").collect()
    assert all(set(row.fields) <= allowed[row.actor] for row in later_rows if row.actor in allowed and not row.ambiguous)
    if ran.exit_code:
        assert ran.exit_code == 8 and "compacted" in ran.output, "what was compacted before the first run is told"
    else:  # the brokers still had everything
        assert {(row.topic, row.version): (row.actor, row.changed) for row in later_rows} == server


def _topics(namespace: str) -> list[str]:
    return [f"persistent://{namespace}/t{number}" for number in range(TOPICS)]


def _version_as_of(client: Client, topic: str, moment: datetime) -> str:
    document = client.as_of(topic, moment)
    return document.version if document.HasField("policies") else ""
