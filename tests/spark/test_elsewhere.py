"""The harness and the audit run on a cluster and over Spark Connect, as they do on a local Spark."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.targets import sqlite
from topicpolicies import Client

from .cluster import ROOT, cluster, connect_server, environment

pytestmark = [pytest.mark.evidence, pytest.mark.timeout(400)]
_SECONDS = 300


def test_the_load_harness_runs_on_a_cluster_and_every_promise_holds(tmp_path: Path) -> None:
    with cluster(tmp_path) as master:
        command = [sys.executable, "-m", "bench.harness", "mixed", "--operations", "1500"]
        command += ["--master", master, "--workers", "2"]
        ran = subprocess.run(command, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, timeout=_SECONDS, text=True, check=True)
        executors = list((tmp_path / "work").glob("app-*/*"))
    assert "every promise holds" in ran.stdout and "\nJudged: 1," in ran.stdout
    assert executors, "the load ran on the cluster's worker"


def test_the_audit_of_a_sidecars_history_runs_over_spark_connect(tmp_path: Path) -> None:
    with connect_server(tmp_path) as remote, sqlite() as target:
        with Client(target.address, actor="retention-bot") as client:
            client.update("persistent://public/default/orders", max_producer_per_topic=5)
        with Client(target.address, actor="cleaner") as client:
            client.update("persistent://public/default/bills", max_producer_per_topic=7)
        command = [sys.executable, "-m", "tests.spark.remote", remote, target.address, str(tmp_path / "archive")]
        ran = subprocess.run(command, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, timeout=_SECONDS, check=True)
    assert json.loads(ran.stdout) == {
        "documents": {"persistent://public/default/orders": 5, "persistent://public/default/bills": 7},
        "who": ["cleaner", "retention-bot"],
    }
