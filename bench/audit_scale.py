"""How long the audit takes, by the number of changes.

    python -m bench.audit_scale [--sizes 500,100000,10000000] [--directory DIR]

For each size a history of thirty days is made: ten namespaces share the changes, and three hundred others have one each. Then the history
is copied into an archive, by a sidecar that serves it and from its file, and each command of the audit runs: in a process of its own
(cold, with the start of Spark), again in a session that has already run it (warm), and as plain Python over the same files.
"""

from __future__ import annotations

import argparse
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.dataset as pa_dataset
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console
from rich.table import Table

from bench.targets import running
from topicpolicies.v1.policies_pb2 import TopicPolicies
from topicpolicies_server.cli.exits import ExitCode
from topicpolicies_server.history import file
from topicpolicies_server.history.entries import AS_AFTER, BEFORE_KNOWN, Entry, Stream
from topicpolicies_spark.audit import archive as archives
from topicpolicies_spark.audit.questions import drift, frequently_changed, made, reverted_fields, state, who
from topicpolicies_spark.audit.report import report
from topicpolicies_spark.audit.session import session

_ROOT = Path(__file__).parents[1]
_LARGE, _SMALL = 10, 300
"""How many namespaces share the changes, and how many have one each."""
_ACTORS = 20
_DAYS = 30
_MASK = '["max_producer_per_topic","message_ttl_in_seconds"]'
_CHANGED = '["max_producer_per_topic"]'
_TOPIC = "persistent://acme/ns-7/topic-7"
_COLUMNS = ("cold", "warm", "plain Python")
_LONG_SECONDS = 30
_INCOMPLETE = 8
"""The exit code of an ingest that has gaps: the sidecar's log is another one than that of the history that was made."""


def fill(path: Path, changes: int) -> None:
    """Writes a history. A topic has about a hundred changes; of one topic in fifty, two actors change the value back and forth."""
    connection = file.prepare(path)
    connection.executescript("PRAGMA synchronous = OFF; PRAGMA cache_size = -1000000; PRAGMA wal_autocheckpoint = 10000")
    indexes = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'index' AND tbl_name = 'entries'").fetchall()
    for name, _ in indexes:  # it is faster to build them at the end
        connection.execute(f"DROP INDEX {name}")
    names = _names()
    streams = {name: Stream(name, "bench", 0) for name in names}
    ids = {name: file.ids_of(connection, stream) for name, stream in streams.items()}
    last: dict[str, tuple[str, int]] = {}
    waiting: list[Entry] = []
    for number, (name, row) in enumerate(_changes(names, changes), 1):
        row |= {"id": number, "stream": ids[name][0], "namespace": ids[name][1]}
        last[name] = row["position"], row["at"]
        waiting.append(Entry(**row))
        if len(waiting) == file.ROWS:
            file.insert(connection, "entries", waiting)
            waiting.clear()
    if waiting:
        file.insert(connection, "entries", waiting)
    now = time.time_ns() // 1_000_000
    for name, (position, at) in last.items():
        file.note_stream(connection, streams[name], position, at)
        file.note_followed(connection, name, now)
    for _, sql in indexes:
        connection.execute(sql)
    connection.commit()
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


def _names() -> list[str]:
    return [f"acme/ns-{number}" for number in range(_LARGE)] + [f"small/ns-{number}" for number in range(_SMALL)]


def _changes(names: list[str], changes: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the columns of each entry, with its namespace."""
    step = _DAYS * 86_400_000 / changes
    begin = time.time_ns() // 1_000_000 - _DAYS * 86_400_000
    topics = max(changes // 100, _LARGE)
    constant = {
        "scope": 1, "kind": 1, "outcome": 1, "reason": "", "mask": _MASK, "action": 3, "clusters_json": '[""]',
    }  # fmt: skip
    for number in range(changes + _SMALL):
        which, turn = number % topics, number // topics
        name, position = names[which % _LARGE if number < changes else number - changes + _LARGE], f"{number + 1:012d}"
        turn = turn if number < changes else 0
        at = begin + int(min(number, changes) * step)
        yield (
            name,
            constant
            | {
                "position": position,
                "version": position,
                "topic": f"persistent://{name}/topic-{which}",
                "at": at,
                "published_at": at,
                "actor": f"bot-{(which + turn % 2) % _ACTORS}",
                "request_id": f"{number:032x}",
                "previous": f"{number + 1 - topics:012d}" if turn else "0",
                "flags": AS_AFTER | BEFORE_KNOWN,
                "kept_before": _document(which, turn - 1) if turn else None,
                "after": _document(which, turn),
                "changed_json": _CHANGED if turn else _MASK,
            },
        )


def _document(topic: int, turn: int) -> bytes:
    value = turn % 2 if topic % 50 == 0 else turn
    return TopicPolicies(max_producer_per_topic=value, message_ttl_in_seconds=60).SerializeToString()


def measure(size: int, directory: Path) -> Iterator[tuple[str, dict[str, float]]]:
    """Yields what was run, and its seconds: cold, warm and in plain Python."""
    history, archive = directory / f"{size}.db", directory / f"{size}-archive"
    if not history.exists():
        fill(history, size)
    if not archive.exists():
        yield "ingest --history-file", {"cold": _cold("ingest", str(archive), "--history-file", str(history))}
        yield "compact", {"cold": _cold("compact", str(archive))}
    now = time.time()
    middle, yesterday = (datetime.fromtimestamp(now - days * 86_400, UTC).isoformat() for days in (_DAYS / 2, 1))
    commands: dict[str, Sequence[str]] = {
        "who --since yesterday": ("who", "--since", yesterday),
        "who --topic": ("who", "--topic", _TOPIC),
        "state": ("state",),
        "state --as-of": ("state", "--as-of", middle),
        "drift": ("drift", "--from", middle),
        "churn": ("churn",),
        "report": ("report", "--html", str(directory / "report.html")),
    }
    for name, took in _warm(str(archive), middle, yesterday):
        yield name, {"warm": took}
    for name, (command, *rest) in commands.items():
        yield name, {"cold": _cold(command, str(archive), *rest, exits=ExitCode.DIFFERENT if command == "drift" else 0)}
    for name, took in _plain(archive, middle, yesterday):
        yield name, {"plain Python": took}
    with tempfile.TemporaryDirectory(dir=directory) as folder:
        copy = shutil.copy(history, folder)
        options = ("serve", "--listen", "ADDRESS", "--log-level", "warning", "--data", f"{folder}/policies.db", "--history", copy)
        with running("-m", "topicpolicies_server", *options) as program:
            names = ",".join(_names())
            took = _cold("ingest", f"{folder}/archive", "--address", program.address, "--namespaces", names, exits=_INCOMPLETE)
    yield "ingest --address", {"cold": took}


def _cold(*arguments: str, exits: int = 0) -> float:
    """Runs a command of the audit, and returns the seconds that it took."""
    began = time.perf_counter()
    ran = subprocess.run(
        [sys.executable, "-m", "topicpolicies_spark.audit.app", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if ran.returncode != exits:
        raise RuntimeError(f"{arguments} exited with {ran.returncode}: {ran.stderr[-2000:]}")
    return time.perf_counter() - began


def _warm(archive: str, middle: str, yesterday: str) -> Iterator[tuple[str, float]]:
    """Yields the seconds of each query in a session that has run it before, unless it takes long anyway."""

    def first(found: DataFrame) -> None:
        found.limit(101).collect()

    def changes(since: str = "") -> DataFrame:
        return archives.changes(spark, archive, since)

    def churn() -> None:
        first(frequently_changed(made(changes()), 10))
        first(reverted_fields(made(changes()), 2))

    spark: SparkSession = session("local[2]", "", "1g")
    queries: dict[str, Callable[[], object]] = {
        "who --since yesterday": lambda: first(who(changes(yesterday))),
        "who --topic": lambda: first(who(changes(), topic=_TOPIC)),
        "state": lambda: first(state(changes()).orderBy("topic", "scope")),
        "state --as-of": lambda: first(state(changes(), middle).orderBy("topic", "scope")),
        "drift": lambda: first(drift(state(changes(), middle), state(changes()))),
        "churn": churn,
        "report": lambda: report(changes(), ""),
    }
    try:
        for name, query in queries.items():
            took = _timed(query)
            yield name, took if took > _LONG_SECONDS else _timed(query)
    finally:
        spark.stop()


def _timed(query: Callable[[], object]) -> float:
    began = time.perf_counter()
    query()
    return time.perf_counter() - began


def _plain(archive: Path, *times: str) -> Iterator[tuple[str, float]]:
    """Yields the seconds of the same questions in plain Python, one row after the other, from the same files."""
    middle, yesterday = (int(datetime.fromisoformat(text).timestamp() * 1_000_000_000) for text in times)
    files = pa_dataset.dataset(archive / archives.CHANGES, partitioning="hive")

    def rows(*columns: str) -> Iterator[tuple[Any, ...]]:
        for batch in files.to_batches(columns=list(columns)):
            plain = [column.cast("int64") if name == "time" else column for name, column in zip(columns, batch.columns, strict=True)]
            yield from zip(*(column.to_pylist() for column in plain), strict=True)

    def whose(wanted: Callable[[int, str], bool]) -> None:
        names = ("time", "topic", "scope", "action", "actor", "reason", "version")
        sorted((row for row in rows(*names) if wanted(row[0], row[1])), reverse=True)

    def versions(until: float) -> dict[tuple[str, str], tuple[str, str]]:
        found: dict[tuple[str, str], tuple[str, str]] = {}
        for topic, scope, position, at, action, version in rows("topic", "scope", "position", "time", "action", "version"):
            if at <= until and action in {"UPDATE", "DELETE"} and position > found.get((topic, scope), ("", ""))[0]:
                found[topic, scope] = position, version
        return found

    questions: dict[str, Callable[[], object]] = {
        "who --since yesterday": lambda: whose(lambda at, _: at >= yesterday),
        "who --topic": lambda: whose(lambda _, topic: topic == _TOPIC),
        "state": lambda: versions(math.inf),
        "state --as-of": lambda: versions(middle),
        "drift": lambda: versions(middle).items() ^ versions(math.inf).items(),
        "churn": lambda: Counter(rows("topic", "scope")).most_common(100),
    }
    for name, question in questions.items():
        yield name, _timed(question)


def main() -> None:
    """Measures, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="500,100000,10000000", help="numbers of changes (default: %(default)s)")
    parser.add_argument("--directory", type=Path, help="where histories and archives are made, and kept for the next time")
    options = parser.parse_args()
    paths = os.pathsep.join(str(_ROOT / part) for part in (".", "server", "clients/python", "clients/spark"))
    os.environ["PYTHONPATH"] = paths
    table = Table(title="Seconds of the audit, by the number of changes")
    for column in ("changes", "what", *_COLUMNS):
        table.add_column(column, justify="left" if column == "what" else "right")
    with tempfile.TemporaryDirectory() as temporary:
        directory = options.directory or Path(temporary)
        for size in map(int, options.sizes.split(",")):
            found: dict[str, dict[str, float]] = {}
            for name, seconds in measure(size, directory):
                print(f"{size:,} changes: {name}: {seconds}", file=sys.stderr)
                found.setdefault(name, {}).update(seconds)
            for name, seconds in found.items():
                table.add_row(f"{size:,}", name, *(f"{seconds[each]:,.1f}" if each in seconds else "" for each in _COLUMNS))
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
