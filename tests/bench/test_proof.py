"""The harness confirms the promises of the real service, and refutes those of a service with a bug."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from bench.harness.page import page
from bench.harness.run import Options, Report, run
from bench.harness.scenarios import SCENARIOS
from bench.harness.summary import as_json
from bench.harness.targets import Target, pulsar, sqlite
from tests.broker.pulsar_broker import Broker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240), pytest.mark.filterwarnings("ignore::ResourceWarning")]


def _run(spark: SparkSession, target: Target, directory: Path, name: str, **numbers: int | None) -> Report:
    scenario = SCENARIOS[name].scaled(numbers.get("operations"), numbers.get("topics"), numbers.get("watchers"))
    scenario = replace(scenario, impatient=10 * scenario.impatient)  # with few operations there must still be unknown outcomes
    return run(spark, target, Options(scenario=scenario, workers=2, directory=directory, limits=False))


def _broken(report: Report) -> dict[str, list[str]]:
    assert report.proof is not None
    return {verdict.promise: verdict.examples for verdict in report.proof.verdicts if verdict.broken}


@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize(
    ("name", "operations", "topics", "watchers"),
    [
        ("hot-key", 2_000, 1, 2),
        ("mixed", 2_000, 8, 6),
        ("cold-start", 600, 2_000, 2),
    ],
)
def test_the_embedded_log_keeps_every_promise(
    spark: SparkSession, tmp_path: Path, name: str, operations: int, topics: int, watchers: int
) -> None:
    with sqlite() as target:
        report = _run(spark, target, tmp_path, name, operations=operations, topics=topics, watchers=watchers)
    assert _broken(report) == {}
    proof = report.proof
    assert proof is not None and proof.holds
    assert proof.calls >= operations
    assert 0 < proof.keys <= topics
    assert proof.deliveries > proof.keys
    changed = [each for each in report.totals if each["kind"] == "update"]
    assert changed and all(each["p50_ms"] > 0 for each in changed)
    if name in ("hot-key", "mixed"):
        assert any(each["phase"] == "settle" for each in report.totals), "some outcomes were unknown, and were settled"
    if name == "cold-start":
        assert report.loading_seconds is not None and report.loading_seconds > 0
        assert proof.keys == topics
    assert report.fan_out is not None
    assert report.fan_out["watchers"] == watchers
    written = json.loads(as_json([report]))
    assert written["runs"][0]["proof"]["holds"]
    html = page([report])
    assert html.count("<svg") >= 3
    assert "http" not in html.replace("http-equiv", ""), "the page loads no other resources"


@pytest.mark.xdist_group("spark beside brokers")
def test_a_partitioned_pulsar_log_keeps_every_promise(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    with pulsar(broker.service_url, broker.admin_url, 3) as target:
        report = _run(spark, target, tmp_path, "mixed", operations=1_500, topics=8, watchers=4)
    assert _broken(report) == {}
    assert report.proof is not None and report.proof.holds
    assert report.proof.calls >= 1_500


@pytest.mark.xdist_group("spark")
def test_a_service_with_a_bug_is_refuted(spark: SparkSession, tmp_path: Path) -> None:
    with sqlite(("-m", "tests.bench.planted", "loses_an_update")) as target:
        report = _run(spark, target, tmp_path, "hot-key", operations=800, topics=1, watchers=2)
    assert "no_lost_update" in _broken(report)
    assert report.proof is not None and not report.proof.holds
    assert "no_lost_update" in as_json([report])
    assert "Not every promise holds" in page([report])
