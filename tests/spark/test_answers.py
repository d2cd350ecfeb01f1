"""The audit's answers about random changes are those of the server, and of a plain computation from what the callers were told."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from google.protobuf.message import Message
from pyspark.sql import Row, SparkSession

from bench.targets import running
from topicpolicies import Client, TopicPoliciesError
from topicpolicies.v1 import service_pb2
from topicpolicies.v1.history_pb2 import HistoryOutcome
from topicpolicies.v1.policies_pb2 import SCOPE_GLOBAL, SCOPE_LOCAL, Scope, TopicPolicies
from topicpolicies_spark import NAME
from topicpolicies_spark.audit import archive as archives
from topicpolicies_spark.audit.questions import drift, made, state, who
from topicpolicies_spark.documents import value_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240), pytest.mark.filterwarnings("ignore::ResourceWarning")]
NAMESPACES = ("acme/orders", "acme/bills")
CHANGES = 400
MOMENTS = 4
VALUES: dict[str, list[Any]] = {
    "max_producer_per_topic": [0, 1, 2, None],
    "message_ttl_in_seconds": [0, 5, None],
    "deduplication_enabled": [True, False, None],
    "compaction_threshold": [1, 2, None],
    "subscription_policies.`a`.dispatch_rate.dispatch_throttling_rate_in_msg": [1, 2, None],
    "subscription_policies.`b`": [None],
    "dispatch_rate.dispatch_throttling_rate_in_msg": [1, 2],
    "dispatch_rate": [None],
}
Key = tuple[str, Scope.ValueType]


class Made(NamedTuple):
    """A change that a caller was told of."""

    key: Key
    version: str
    who: str
    reason: str
    fields: tuple[str, ...]


class Workload:
    """Random changes, and what must be known of them."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self.documents: dict[Key, TopicPolicies] = {}
        self.versions: dict[Key, str] = {}
        self.made: list[Made] = []
        self.moments: list[tuple[datetime, dict[Key, str]]] = []

    def run(self, client: Client, count: int) -> None:
        """Makes changes one after the other, and notes a few moments between them."""
        for number in range(1, count + 1):
            self._change(client, str(number))
            if number % (count // MOMENTS) == 0:
                time.sleep(0.005)
                self.moments.append((datetime.now(UTC), dict(self.versions)))
                time.sleep(0.005)

    def _change(self, client: Client, number: str) -> None:
        chance = self._chance
        topic = f"persistent://{chance.choice(NAMESPACES)}/t{chance.randrange(12)}"
        key = topic, chance.choice((SCOPE_LOCAL, SCOPE_LOCAL, SCOPE_GLOBAL))
        actor, reason = chance.choice(("ann", "bob", "")), chance.choice(("", f"reason {number}"))
        version = chance.choice((None, None, None, self.versions.get(key), "nothing"))
        try:
            if chance.random() < 0.15:
                result = client.delete(topic, scope=key[1], actor=actor, reason=reason, version=version)
            else:
                values = {path: chance.choice(VALUES[path]) for path in chance.sample(sorted(VALUES), chance.choice((1, 1, 2)))}
                if len({path.partition(".")[0] for path in values}) < len(values):
                    values = dict([values.popitem()])
                result = client.update(topic, values, scope=key[1], actor=actor, reason=reason, version=version)
        except TopicPoliciesError:  # a precondition, or a rule
            return
        if result.outcome != service_pb2.CHANGE_OUTCOME_APPLIED:
            return
        before, after = self.documents.pop(key, TopicPolicies()), result.document.policies
        self.versions.pop(key, None)
        if result.document.HasField("policies"):
            self.documents[key], self.versions[key] = after, result.version
        fields = tuple(sorted(each.name for each in TopicPolicies.DESCRIPTOR.fields if _of(before, each.name) != _of(after, each.name)))
        if fields:
            self.made.append(Made(key, result.version, actor or "(not said)", reason, fields))


def _of(document: TopicPolicies, name: str) -> Any:
    value = getattr(document, name)
    if isinstance(value, Message):
        return value.SerializeToString(deterministic=True) if document.HasField(name) else None  # type: ignore[arg-type]
    field = TopicPolicies.DESCRIPTOR.fields_by_name[name]
    if field.is_repeated:
        return sorted((key, each.SerializeToString()) for key, each in value.items()) if hasattr(value, "items") else list(value)
    return value if document.HasField(name) else None  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("answers")


@pytest.fixture(scope="module")
def address(directory: Path) -> Iterator[str]:
    options = ("--data", str(directory / "policies.db"), "--history", str(directory / "history.db"))
    with running("-m", "topicpolicies_server", "serve", "--listen", "ADDRESS", "--log-level", "warning", *options) as program:
        yield program.address


@pytest.fixture(scope="module")
def workload(address: str) -> Workload:
    load = Workload(7)
    with Client(address) as client:
        load.run(client, CHANGES)
    return load


@pytest.fixture(scope="module")
def archive(spark: SparkSession, address: str, workload: Workload, directory: Path) -> str:
    """An archive of the sidecar's history, copied in several batches and tasks."""
    options = {"address": address, "namespaces": ",".join(NAMESPACES), "maxRowsPerTrigger": "150", "rowsPerTask": "50"}
    where = str(directory / "archive")
    archives.ingest(spark, where, options, every_seconds=None).awaitTermination()
    return where


def _key(row: Row) -> Key:
    return row.topic, Scope.Value(f"SCOPE_{row.scope}")


def test_who_names_each_change_with_what_it_changed_and_nobody_else(
    spark: SparkSession, archive: str, address: str, workload: Workload
) -> None:
    changes = archives.changes(spark, archive)
    found = made(changes).select("topic", "scope", "version", "who", "reason", "fields", "changed", "actor").collect()
    told = sorted(Made(_key(row), row.version, row.who, row.reason or "", tuple(sorted(row.fields))) for row in found)
    assert len(told) > CHANGES / 3
    assert told == sorted(workload.made)
    with Client(address) as client:
        entries = [entry for namespace in NAMESPACES for entry in client.history(namespace=namespace, page_size=1_000)]
    server = {
        (entry.document.topic, entry.document.scope, entry.document.version): (entry.origin.actor, list(entry.changed.paths))
        for entry in entries
        if entry.outcome == HistoryOutcome.HISTORY_OUTCOME_APPLIED and entry.changed.paths
    }
    assert {(*_key(row), row.version): (row.actor or "", row.changed) for row in found} == server
    assert changes.count() == len(entries), "there is a row for every event"


def test_the_state_of_any_moment_is_that_of_the_callers_and_of_the_server(
    spark: SparkSession, archive: str, address: str, workload: Workload
) -> None:
    changes = archives.changes(spark, archive).cache()
    with Client(address) as client:
        for moment, versions in workload.moments:
            found = state(changes, moment.isoformat()).collect()
            assert {_key(row): row.version for row in found} == versions
            for row in found[:5]:
                document = client.as_of(row.topic, moment, scope=_key(row)[1])
                assert document.version == row.version
                assert document.policies.max_producer_per_topic == (row.policies.max_producer_per_topic or 0)
    (then, first), (_, last) = workload.moments[0], workload.moments[-1]
    differs = {_key(row): row.how for row in drift(state(changes, then.isoformat()), state(changes)).collect()}
    assert differs.keys() <= first.keys() | last.keys()
    assert {key for key, how in differs.items() if how == "appeared"} == last.keys() - first.keys()
    assert {key for key, how in differs.items() if how == "vanished"} == first.keys() - last.keys()
    changes.unpersist()


def test_a_period_has_the_changes_of_the_period(spark: SparkSession, archive: str, workload: Workload) -> None:
    (begin, _), (end, _) = workload.moments[0], workload.moments[2]
    within = archives.changes(spark, archive, begin.isoformat(), end.isoformat())
    after, before = archives.changes(spark, archive, end.isoformat()), archives.changes(spark, archive, "", begin.isoformat())
    counts = [who(part).count() for part in (before, within, after)]
    assert sum(counts) == len(workload.made) and min(counts) > 0


def test_the_file_of_a_history_has_the_same_rows_as_the_sidecar_that_writes_it(
    spark: SparkSession, archive: str, address: str, directory: Path
) -> None:
    from_file = spark.read.format(NAME).options(historyFile=str(directory / "history.db"), rowsPerTask="150").load()
    from_sidecar = spark.read.format(NAME).options(address=address, namespaces=",".join(NAMESPACES), rowsPerTask="150").load()
    columns = [name for name in from_file.columns if name not in ("policies", "previous")]
    expected = sorted(archives.changes(spark, archive).select(*columns).collect(), key=str)
    assert sorted(from_file.select(*columns).collect(), key=str) == expected
    assert sorted(from_sidecar.select(*columns).collect(), key=str) == expected


def test_the_documents_of_rows_are_those_of_the_server(spark: SparkSession, archive: str, workload: Workload) -> None:
    found = {_key(row): row.policies for row in state(archives.changes(spark, archive)).collect()}
    assert found.keys() == workload.documents.keys()
    for key, document in workload.documents.items():
        for name, value in value_of(document).items():
            shown = found[key][name]
            assert shown == value or name in ("subscription_policies", "dispatch_rate"), (key, name)
