"""How the audit's time and memory grow with the number of changes.

    python -m bench.audit_scale [--sizes 10000,100000,1000000]

Changes are generated, with a tenth as many topics as changes, and written as the Parquet files of an archive. Then each query of the audit
is run, in a new process for each size, so that the memory is that of one size. The memory is the maximum of the driver, including its JVM.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from topicpolicies_spark.audit.changes import made, who
from topicpolicies_spark.audit.churn import frequently_changed, reverted_fields
from topicpolicies_spark.audit.session import session
from topicpolicies_spark.audit.state import state
from topicpolicies_spark.rows import SPARK_SCHEMA

_ROOT = Path(__file__).parents[1]
_ACTORS = 20
_PAGE_KB = os.sysconf("SC_PAGE_SIZE") // 1024


def made_up(spark: SparkSession, count: int) -> DataFrame:
    """Generates this many changes: each topic has ten, by two of twenty actors in turn, of three fields."""
    topics = max(count // 10, 1)
    number = F.col("id")
    topic = number % topics
    policies = F.struct(
        *[
            {
                "max_producer_per_topic": F.when(topic % 50 == 0, number / topics % 2).otherwise(number).cast("int"),
                "message_ttl_in_seconds": (number % 1000).cast("int"),
                "retention_policies": F.struct(
                    (number % 100).cast("int").alias("retention_time_in_minutes"), F.lit(100).alias("retention_size_in_mb")
                ),
            }.get(field.name, F.lit(None).cast(field.dataType))
            .cast(field.dataType)
            .alias(field.name)
            for field in SPARK_SCHEMA["policies"].dataType.fields  # type: ignore[attr-defined]
        ]
    )
    columns = {
        "namespace": F.concat(F.lit("acme/ns-"), topic % 20),
        "topic": F.concat(F.lit("persistent://acme/ns-"), topic % 20, F.lit("/topic-"), topic),
        "scope": F.lit("LOCAL"),
        "position": F.lpad(number.cast("string"), 16, "0"),
        "version": F.lpad(number.cast("string"), 16, "0"),
        "time": F.timestamp_seconds(F.lit(1_700_000_000) + number / 10),
        "action": F.lit("UPDATE"),
        "kind": F.lit("UPDATE"),
        "outcome": F.lit("APPLIED"),
        "changed": F.array(
            F.lit("max_producer_per_topic"), F.lit("message_ttl_in_seconds"), F.lit("retention_policies.retention_time_in_minutes")
        ),
        "actor": F.concat(F.lit("bot-"), ((number / topics).cast("int") % 2 + topic % (_ACTORS - 1))),
        "policies": policies,
    }
    chosen = [columns.get(field.name, F.lit(None)).cast(field.dataType).alias(field.name) for field in SPARK_SCHEMA.fields]
    return spark.range(count).select(*chosen)


def measure(count: int) -> dict[str, float]:
    """Returns the seconds of each query, and the maximum memory in megabytes."""
    memory = _Memory()
    spark = session("local[2]", "", "2g")
    try:
        with tempfile.TemporaryDirectory() as directory:
            made_up(spark, count).write.parquet(f"{directory}/changes")
            changes = spark.read.schema(SPARK_SCHEMA).parquet(f"{directory}/changes")
            changes.count()  # the first job pays for the start
            found: dict[str, float] = {"changes": count}
            middle = "2023-11-14T22:13:20Z" if count < 10 else _middle(count)
            questions: dict[str, Callable[[], DataFrame]] = {
                "state": lambda: state(changes, middle),
                "who": lambda: who(changes),
                "churn": lambda: frequently_changed(made(changes), 10),
                "fights": lambda: reverted_fields(made(changes), 2),
            }
            for name, question in questions.items():
                began = time.perf_counter()
                question().write.format("noop").mode("overwrite").save()
                found[f"{name} s"] = round(time.perf_counter() - began, 2)
    finally:
        spark.stop()
        found_mb = memory.stop()
    return {**found, "MB": found_mb}


def _middle(count: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(1_700_000_000 + count / 20))


class _Memory:
    """Watches the resident memory of this process and its children."""

    def __init__(self) -> None:
        self._most = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._stopping.wait(0.2):
            self._most = max(self._most, sum(map(_resident_kb, _family(os.getpid()))))

    def stop(self) -> int:
        """Stops watching. Returns the maximum so far, in MB."""
        self._stopping.set()
        self._thread.join()
        return self._most // 1024


def _family(root: int) -> set[int]:
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue  # the process has ended
    family = {root}
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more
    return family


def _resident_kb(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_KB
    except OSError:
        return 0


def main() -> None:
    """Measures each size in its own process, and prints a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="10000,100000,1000000")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one)))
        return
    paths = os.pathsep.join(str(_ROOT / part) for part in (".", "server", "clients/python", "clients/spark"))
    lines = []
    for size in options.sizes.split(","):
        command = [sys.executable, "-m", "bench.audit_scale", "--one", size]
        ran = subprocess.run(command, env={**os.environ, "PYTHONPATH": paths}, stdout=subprocess.PIPE, text=True, check=True)
        lines.append(json.loads(ran.stdout.splitlines()[-1]))
    print("| " + " | ".join(lines[0]) + " |")
    print("|" + "---|" * len(lines[0]))
    for line in lines:
        print("| " + " | ".join(f"{value:,}" for value in line.values()) + " |")


if __name__ == "__main__":
    main()
