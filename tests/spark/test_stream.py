"""A stream over a sidecar's history has each event once, however it is divided into batches and even if the query is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from bench.targets import Target, running, sqlite
from topicpolicies import Client, OutOfRange, Unavailable
from topicpolicies_spark.audit import archive as archives
from topicpolicies_spark.audit.compact import compact
from topicpolicies_spark.histories import opened
from topicpolicies_spark.options import read_options
from topicpolicies_spark.source import HistoryReader, HistoryStreamReader, offset_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.filterwarnings("ignore::ResourceWarning")]
ONE, TWO, THREE = "acme/one", "acme/two", "other/three"
KILLED = ("acme/killed", "acme/killed-too")
"""Namespaces of the test that kills a query, which runs first if this module's tests run in one process."""
_ROOT = Path(__file__).resolve().parents[2]
_PROGRAM = """
import sys
from bench.harness.session import session
from tests.spark.test_stream import stream_into
address, directory = sys.argv[1:]
with session("local[1]") as spark:
    from topicpolicies_spark import register
    register(spark)
    stream_into(spark, address, directory, 0.2).awaitTermination()
"""


@pytest.fixture(scope="module")
def target() -> Iterator[Target]:
    with sqlite() as target:
        yield target


@pytest.fixture
def client(target: Target) -> Iterator[Client]:
    with Client(target.address, actor="bot") as client:
        yield client


def topic(namespace: str, name: str = "t") -> str:
    return f"persistent://{namespace}/{name}"


def reader_of(target: Target, *namespaces: str, **options: str) -> HistoryStreamReader:
    return HistoryStreamReader(read_options({"address": target.address, "namespaces": ",".join(namespaces), **options}))


def read(reader: HistoryStreamReader, start: dict[str, Any], end: dict[str, Any]) -> dict[str, list[int]]:
    """Returns the values of a batch by namespace, in order."""
    found: dict[str, list[int]] = {}
    for part in reader.partitions(start, end):
        for batch in reader.read(part):
            for row in batch.to_pylist():
                found.setdefault(row["namespace"], []).append(row["policies"]["max_producer_per_topic"])
    return found


def batches(reader: HistoryStreamReader, start: dict[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, list[int]]]]:
    """Yields the batches of a query until there is no new event, each with the offset at its end."""
    while (end := reader.latestOffset(start, reader.getDefaultReadLimit())) != start:
        yield end, read(reader, start, end)
        start = end


def of(name: str, parts: Iterable[tuple[dict[str, Any], dict[str, list[int]]]]) -> list[list[int]]:
    return [values.get(name, []) for _, values in parts]


def test_batches_are_bounded_and_divided_among_namespaces_and_are_read_again_identically(target: Target, client: Client) -> None:
    for number in range(1, 11):
        client.update(topic(ONE), max_producer_per_topic=number)
    for number in range(1, 4):
        client.update(topic(TWO), max_producer_per_topic=number)
        client.update(topic(THREE), max_producer_per_topic=number)
    reader = reader_of(target, ONE, TWO, THREE, tenants="acme", maxRowsPerTrigger="4")
    start = reader.initialOffset()
    taken = list(batches(reader, start))
    assert of(ONE, taken) == [[1, 2], [3, 4], [5, 6, 7, 8], [9, 10]]
    assert of(TWO, taken) == [[1, 2], [3], [], []]
    assert not any(of(THREE, taken)), "the namespace is another tenant's"
    again = reader_of(target, ONE, TWO, THREE, tenants="acme")
    for (first, _), (last, values) in zip([(start, {}), *taken], taken, strict=False):
        client.update(topic(ONE), max_producer_per_topic=100 + len(values))
        assert read(again, first, last) == values
    end, last_values = next(batches(again, taken[-1][0]))
    assert set(last_values) == {ONE}
    client.update(topic(THREE), max_producer_per_topic=77)
    assert reader.latestOffset(end, ReadAllAvailable()) == end, "changes of other namespaces make no batch"


def test_a_stream_may_be_limited_to_topics_and_times_and_may_begin_at_the_latest_event(target: Target, client: Client) -> None:
    namespace = "acme/narrow"
    for number in range(1, 7):
        client.update(topic(namespace, f"t{number % 2}"), max_producer_per_topic=number)
    taken = of(namespace, batches(reader_of(target, namespace, topics=topic(namespace, "t0"), maxRowsPerTrigger="3"), offset_of({})))
    assert taken == [[2], [4, 6]], "a batch counts what is read"
    for nothing in ({"startingTimestamp": "2999-01-01"}, {"endingTimestamp": "2000-01-01"}):
        assert not any(values for _, values in batches(reader_of(target, namespace, **nothing), offset_of({})))
    later = reader_of(target, namespace, startingOffsets="latest")
    start = later.initialOffset()
    client.update(topic(namespace), max_producer_per_topic=9)
    assert of(namespace, batches(later, start)) == [[9]]


def test_a_query_of_the_events_available_now_ends_with_them(target: Target, client: Client) -> None:
    namespace = "acme/now"
    for number in range(1, 6):
        client.update(topic(namespace), max_producer_per_topic=number)
    reader = reader_of(target, namespace, maxRowsPerTrigger="2")
    reader.prepareForTriggerAvailableNow()
    parts = batches(reader, offset_of({}))
    taken = [next(parts)]
    client.update(topic(namespace), max_producer_per_topic=6)
    taken += parts
    assert of(namespace, taken) == [[1, 2], [3, 4], [5]]
    assert of(namespace, batches(reader_of(target, namespace), taken[-1][0])) == [[6]]


def test_a_large_history_is_divided_and_many_small_ones_are_read_by_one_task(target: Target, client: Client) -> None:
    small = [f"small/n{number}" for number in range(20)]
    for number in range(1, 26):
        client.update(topic("small/large"), max_producer_per_topic=number)
    for namespace in small[:-1]:
        client.update(topic(namespace), max_producer_per_topic=1)
    names = ",".join(["small/large", *small])
    reader = HistoryReader(read_options({"address": target.address, "namespaces": names, "rowsPerTask": "10"}))
    parts = reader.partitions()
    taken = [[row for batch in reader.read(part) for row in batch.to_pylist()] for part in parts]
    assert len(taken) == 5 and max(map(len, taken)) == 10, "a namespace without events may be a part, too"
    assert max(len(part.value) for part in parts) > 4
    rows = list(chain.from_iterable(taken))
    large = [row["policies"]["max_producer_per_topic"] for row in rows if row["namespace"] == "small/large"]
    assert large == list(range(1, 26)) and len(rows) == 25 + 19
    positions = [row["position"] for row in rows if row["namespace"] == "small/large"]
    between = {"startingOffsets": f'{{"small/large": "{positions[4]}"}}', "endingOffsets": f'{{"small/large": "{positions[14]}"}}'}
    options = read_options({"address": target.address, "namespaces": "small/large", "rowsPerTask": "4", **between})
    part_of = HistoryReader(options)
    between_them = [row["position"] for part in part_of.partitions() for batch in part_of.read(part) for row in batch.to_pylist()]
    assert between_them == positions[5:15]


def test_the_history_of_another_log_is_refused(target: Target, client: Client) -> None:
    client.update(topic(ONE), max_producer_per_topic=1)
    offset = reader_of(target, ONE).latestOffset(offset_of({}), ReadMaxRows(10))
    with sqlite() as other, pytest.raises(OutOfRange) as refused:
        reader_of(other, ONE).latestOffset(offset, ReadMaxRows(10))
    assert refused.value.reason == "TOKEN_OUT_OF_RANGE"


def test_a_history_that_ends_before_the_end_of_a_batch_is_an_error(target: Target, client: Client) -> None:
    namespace = "acme/short"
    client.update(topic(namespace), max_producer_per_topic=1)
    with (
        opened(read_options({"address": target.address, "namespaces": namespace})) as history,
        pytest.raises(Unavailable, match="ends before"),
    ):
        list(history.copy(namespace, "", "~"))


def test_a_stream_continues_after_its_log_was_replaced_and_reports_the_gap_once(tmp_path: Path) -> None:
    namespace = "acme/replaced"
    with server(tmp_path) as address, Client(address) as client:
        for number in range(1, 4):
            client.update(topic(namespace), max_producer_per_topic=number)
        options = {"address": address, "namespaces": namespace, "maxRowsPerTrigger": "2"}
        taken = list(batches(HistoryStreamReader(read_options(options)), offset_of({})))
        assert of(namespace, taken) == [[1, 2], [3]]
    for path in tmp_path.glob("policies.db*"):
        path.unlink()
    with server(tmp_path) as address, Client(address) as client:
        for number in range(4, 7):
            client.update(topic(namespace), max_producer_per_topic=number)
        options = {"address": address, "namespaces": namespace}
        for offset, expected in ((taken[0][0], [3, 4, 5, 6]), (taken[1][0], [4, 5, 6]), (offset_of({}), [1, 2, 3, 4, 5, 6])):
            reader = HistoryStreamReader(read_options(options))
            end = reader.latestOffset(offset, ReadAllAvailable())
            found = [row for part in reader.partitions(offset, end) for batch in reader.read(part) for row in batch.to_pylist()]
            assert [row["policies"]["max_producer_per_topic"] for row in found if row["policies"] is not None] == expected
            (gap,) = [row for row in found if row["action"] == "GAP"]
            assert found.index(gap) == len(found) - 4, "it stands before the first event of the log that follows"
            assert gap["problem"].endswith(": log replaced")
            assert reader.latestOffset(end, ReadAllAvailable()) == end, "the gap is reported once"


@contextmanager
def server(directory: Path) -> Iterator[str]:
    """Runs a sidecar with its files in a directory; yields its address."""
    module = ("-m", "topicpolicies_server", "serve", "--listen", "ADDRESS", "--log-level", "warning")
    with running(*module, "--data", str(directory / "policies.db"), "--history", str(directory / "history.db")) as program:
        yield program.address


def stream_into(spark: SparkSession, address: str, directory: str, every_seconds: float | None) -> Any:
    """Starts a query that takes the history of two namespaces into an archive."""
    options = {
        "address": address,
        "namespaces": ",".join(KILLED),
        "topics": ",".join(topic(namespace, "k") for namespace in KILLED),
        "maxRowsPerTrigger": "60",
    }
    return archives.ingest(spark, directory, options, every_seconds=every_seconds)


def test_a_stream_that_is_killed_and_restarted_writes_every_event_once(
    spark: SparkSession, target: Target, client: Client, tmp_path: Path
) -> None:
    committed_at = tmp_path / "checkpoint" / "commits"
    planned_at = tmp_path / "checkpoint" / "offsets"
    paths = [str(_ROOT / part) for part in ("", "clients/python", "clients/spark", "server")]
    with (tmp_path / "log").open("wb") as log:
        killed = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, target.address, str(tmp_path)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)}, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
        rounds = number = 0
        try:
            while True:
                assert killed.poll() is None, (tmp_path / "log").read_text()
                if rounds <= _count(committed_at):  # there is something for each batch, however slow this is
                    rounds, number = rounds + 1, _write(client, number)
                time.sleep(0.05)
                if 2 <= _count(committed_at) < _count(planned_at):
                    os.killpg(killed.pid, signal.SIGSTOP)
                    if _count(committed_at) < _count(planned_at):
                        break
                    os.killpg(killed.pid, signal.SIGCONT)
        finally:
            os.killpg(killed.pid, signal.SIGKILL)
            killed.wait()
    assert _count(committed_at) < _count(planned_at), "it was killed during a batch"
    number = _write(client, _write(client, number))  # more than one batch may have
    query = stream_into(spark, target.address, str(tmp_path), None)
    assert query.awaitTermination(300) and query.exception() is None
    assert max(int(each["numInputRows"]) for each in query.recentProgress) <= 60
    assert compact(spark, str(tmp_path)) == 0, "today is not over"
    taken = archives.changes(spark, str(tmp_path))
    assert pq.ParquetDataset(tmp_path / "changes").read(["position"]).num_rows == taken.count(), "any program reads the same rows"
    for namespace in KILLED:
        rows = (
            taken.filter(taken.namespace == namespace).orderBy("position").selectExpr("policies.max_producer_per_topic as value", "actor")
        )
        assert [(row.value, row.actor) for row in rows.collect()] == [(value, "bot") for value in range(1, number + 1)]


def _write(client: Client, number: int) -> int:
    """Makes 20 changes in each namespace, with the numbers that follow; returns the last one."""
    for value in range(number + 1, number + 21):
        for namespace in KILLED:
            client.update(topic(namespace, "k"), max_producer_per_topic=value)
    return number + 20


def _count(directory: Path) -> int:
    return len([each for each in directory.glob("*") if not each.name.startswith(".")]) if directory.exists() else 0
