"""An archive of a real broker whose logs are written, compacted and cut while the ingest is killed: each event is in it once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.broker.admin import Admin, AdminError
from tests.broker.pulsar_broker import Broker
from tests.logs.change_events import ChangeEvents
from topicpolicies_spark.audit import archive as archives
from topicpolicies_spark.audit.state import state

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
_ROOT = Path(__file__).resolve().parents[2]
KILLS = 1
TOPICS = [f"t{number}" for number in range(4)]


class Writer(threading.Thread):
    """Changes topics of two namespaces through the admin API; the log of one of them is compacted and cut all the time."""

    def __init__(self, broker: Broker, calm: str, wild: str) -> None:
        super().__init__(name="writer", daemon=True)
        self._admin = broker.admin()
        self._calm, self._wild = calm, wild
        self._stopping = threading.Event()
        self._requested, self._noted = threading.Event(), threading.Event()
        self.written = 0
        self.cuts = 0
        self.moments: list[tuple[str, dict[str, int]]] = []

    def run(self) -> None:
        while not self._stopping.is_set():
            self.written += 1
            for namespace in (self._calm, self._wild):
                self._admin.call("POST", f"persistent/{namespace}/{TOPICS[self.written % len(TOPICS)]}/maxProducers", self.written)
            if self.written % 25 == 0:
                self._cut()
            if self._requested.is_set():
                self._remember()
            time.sleep(0.1)

    def remember(self) -> None:
        """Notes the time and the policies that the admin API shows, while no change is in progress."""
        self._noted.clear()
        self._requested.set()
        assert self._noted.wait(60)

    def stop(self) -> None:
        self._stopping.set()
        self.join(60)
        self._admin.close()

    def _cut(self) -> None:
        self._admin.compact_change_events(self._wild, timeout_s=60)
        try:
            self._admin.call("PUT", f"persistent/{self._wild}/__change_events/unload")
        except AdminError:
            return  # the topic is being loaded; the next cut comes soon
        self.cuts += 1

    def _remember(self) -> None:
        self._requested.clear()
        time.sleep(0.05)
        now = datetime.now(UTC).isoformat()
        self.moments.append((now, {topic: self._admin.call("GET", f"persistent/{self._calm}/{topic}/maxProducers") for topic in TOPICS}))
        time.sleep(0.05)
        self._noted.set()


def _ingesting(broker: Broker, namespaces: str, archive: Path, log: Path) -> subprocess.Popen[bytes]:
    """Starts ``topicpolicies-audit ingest`` as a user runs it continuously, in a process group of its own."""
    paths = [str(_ROOT / part) for part in ("clients/python", "clients/spark", "server")]
    command = [sys.executable, "-m", "topicpolicies_spark.audit.app", "--master", "local[1]", "ingest", str(archive), "--every", "0.2"]
    command += ["--pulsar", broker.service_url, "--admin-url", broker.admin_url, "--namespaces", namespaces, "--most-rows", "60"]
    with log.open("ab") as output:
        return subprocess.Popen(
            command, env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)}, stdout=output, stderr=output, start_new_session=True
        )


def _said(log: Path) -> str:
    """Returns the output of an ingest, without the frames of Java."""
    return "\n".join(line for line in log.read_text().splitlines() if not line.lstrip().startswith("at "))[-8000:]


def _batches(archive: Path) -> int:
    return len([path for path in (archive / "changes" / "_spark_metadata").glob("*") if not path.name.startswith(".")])


def _values(changes: DataFrame, namespace: str) -> dict[str, int]:
    rows = changes.filter(changes.namespace == namespace).selectExpr("topic", "policies.max_producer_per_topic as value").collect()
    return {row.topic.rpartition("/")[2]: row.value for row in rows}


def test_an_ingest_that_is_killed_and_restarted_archives_every_event_once(
    spark: SparkSession, broker: Broker, admin: Admin, tmp_path: Path
) -> None:
    calm, wild = admin.create_namespace("calm"), admin.create_namespace("wild")
    kept = {"inactiveTopicDeleteMode": "delete_when_no_subscriptions", "maxInactiveDurationSeconds": 3600, "deleteWhileInactive": False}
    for namespace in (calm, wild):
        admin.call("POST", f"namespaces/{namespace}/inactiveTopicPolicies", kept)  # only this test uses the topics
        for topic in TOPICS:
            admin.create_topic(f"{namespace}/{topic}")
    writer = Writer(broker, calm, wild)
    archive, log = tmp_path / "archive", tmp_path / "ingest.log"
    names = f"{calm},{wild}"
    writer.start()
    killed = 0
    try:
        for _ in range(KILLS):
            before = _batches(archive)
            process = _ingesting(broker, names, archive, log)
            try:
                deadline = time.monotonic() + 240
                while _batches(archive) < before + 2:
                    assert process.poll() is None, _said(log)
                    assert time.monotonic() < deadline, _said(log)
                    time.sleep(0.05)
                writer.remember()
            finally:
                os.killpg(process.pid, signal.SIGKILL)
                killed += process.wait() == -signal.SIGKILL
    finally:
        writer.stop()
    options = {"serviceUrl": broker.service_url, "adminUrl": broker.admin_url, "namespaces": names, "maxRowsPerTrigger": "20000"}
    query = archives.ingest(spark, str(archive), options, every_seconds=None)
    assert query.awaitTermination(240), "the query ends when all events are taken"
    assert query.exception() is None
    assert killed == KILLS and writer.cuts > 1 and writer.written > 50

    changes = archives.changes(spark, str(archive)).cache()
    assert changes.count() == changes.select("namespace", "partition", "position").distinct().count(), "no event is there twice"
    taken = changes.filter(changes.namespace == calm).selectExpr("policies.max_producer_per_topic as value").collect()
    assert sorted(row.value for row in taken) == list(range(1, writer.written + 1)), "no event of the log that was never cut is lost"
    newest = _values(state(changes), wild)
    assert newest == {topic: admin.call("GET", f"persistent/{wild}/{topic}/maxProducers") for topic in TOPICS}
    with ChangeEvents(broker.service_url, wild) as log_now:
        assert len(log_now.read()) <= changes.filter(changes.namespace == wild).count(), "events that were cut away are in the archive only"
    assert len(writer.moments) == KILLS
    for time_then, answers in writer.moments:
        assert _values(state(changes, time_then), calm) == answers
