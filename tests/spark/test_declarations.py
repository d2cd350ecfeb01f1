"""A file of declared documents is compared as it was meant, or refused with the line that is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from topicpolicies_spark.audit.declarations import DeclarationError, declared
from topicpolicies_spark.audit.questions import drift, state

from .changes import NAMESPACE, change, frame

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
TOPIC = f"persistent://{NAMESPACE}/t"
GOOD = {"topic": TOPIC, "policies": {"max_producer_per_topic": 1}}
Read = Callable[..., DataFrame]


@pytest.fixture
def read(spark: SparkSession, tmp_path: Path) -> Read:
    """A function that declares some objects."""

    def read(*lines: Any) -> DataFrame:
        file = tmp_path / "declared.jsonl"
        file.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines), encoding="utf-8")
        return declared(spark, str(file))

    return read


@pytest.mark.parametrize(
    ("wrong", "names"),
    [
        ({"topic": TOPIC, "policies": {"max_producers_per_topic": 1}}, "max_producers_per_topic"),
        ({"topic": TOPIC, "policies": {"retention_policies": {"minutes": 1}}}, "minutes"),
        ({"topic": TOPIC, "polices": {"max_producer_per_topic": 1}}, "polices"),
        ({"topc": TOPIC, "policies": {}}, "topc"),
        ({"policies": {}}, "no topic"),
        ({"topic": TOPIC}, "no policies"),
        ({**GOOD, "scope": "local"}, "LOCAL, GLOBAL"),
        ({"topic": TOPIC, "policies": {"max_producer_per_topic": 99_999_999_999}}, "max_producer_per_topic|max_producer|out of range"),
        ([GOOD], "not an object"),
        ('{"topic": ', "Expecting value"),
        ({"topic": f"{NAMESPACE}/t", "policies": {}}, "once more"),
    ],
)
def test_a_line_that_is_wrong_is_an_error_that_names_it(read: Read, wrong: Any, names: str) -> None:
    with pytest.raises(DeclarationError, match=rf"Line 3 .*({names})"):
        read(GOOD, "", wrong)


def test_a_declaration_means_the_topic_by_any_of_its_names(read: Read, spark: SparkSession) -> None:
    live = state(frame(spark, [change(1, "t", {"max_producer_per_topic": 1}), change(2, "ü ", {"max_producer_per_topic": 1})]))
    same = read("\ufeff" + json.dumps({**GOOD, "topic": f"{NAMESPACE}/t"}), {**GOOD, "topic": f"{NAMESPACE}/ü "})
    assert drift(same, live, declared=True).collect() == []
    partition = read({"topic": f"{TOPIC}-partition-3", "policies": {"max_producer_per_topic": 2}})
    assert [(row.topic, row.how) for row in drift(partition, live, declared=True).collect()] == [(TOPIC, "differs")]


def test_an_exported_state_is_a_declaration_without_drift(read: Read, spark: SparkSession) -> None:
    policies = {
        "max_producer_per_topic": 1,
        "retention_policies": {"retention_size_in_mb": 2**40},
        "subscription_policies": [("s", {"dispatch_rate": {"dispatch_throttling_rate_in_msg": 5}})],
        "offload_policies": {"s3_managed_ledger_offload_credential_secret": "********"},
        "shadow_topics": ["a", "b"],
    }
    live = state(frame(spark, [change(1, "t", policies)]))
    exported = [json.loads(line) for (line,) in live.select(F.to_json(F.struct("*"))).collect()]
    assert drift(read(*exported), live, declared=True).collect() == []
    exported[0]["policies"]["offload_policies"]["s3_managed_ledger_offload_credential_secret"] = "a secret that the archive does not have"
    assert drift(read(*exported), live, declared=True).collect() == []
    exported[0]["policies"]["shadow_topics"] = ["b", "a"]
    assert [row.fields for row in drift(read(*exported), live, declared=True).collect()] == [["shadow_topics"]]
    assert read().count() == 0
