"""One run from its beginning to its end: load, figures, proof."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark import BarrierTaskContext
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console

from bench.targets import Target

from . import figures
from .proof import Proof, prove
from .records import SPARK_SCHEMA, batches
from .scenarios import Plan, Scenario

Circumstances = dict[str, str | int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The results of a run."""

    target: str
    scenario: Scenario
    workers: int
    totals: list[figures.Total]
    seconds: list[figures.Second]
    rate: figures.Rate | None
    """None: the calls had no given rate."""
    fan_out: figures.FanOut | None
    proof: Proof
    took_seconds: float
    circumstances: Circumstances
    """What a reader must know to make the run again, by name."""


def run(spark: SparkSession, target: Target, plan: Plan, directory: Path, circumstances: Circumstances, *, skew: float) -> Report:
    """Makes a run against a target, and shows its progress on the terminal.

    Args:
        spark: the session whose executors are the workers.
        target: the service.
        plan: the load.
        directory: for the records; executors on other machines must be able to reach it. Those of an earlier run are replaced.
        circumstances: what the report says of them.
        skew: how many seconds the clocks of the workers' machines may be apart.

    Raises:
        pyspark.errors.PySparkException: a worker failed.
    """
    began, scenario = time.monotonic(), plan.scenario
    shutil.rmtree(directory, ignore_errors=True)
    with Console(stderr=True).status(f"{target.name}: {scenario.name}") as status:
        load = _drive(spark, directory, plan).cache()
        status.update(f"{target.name}: judging")
        proof = prove(load, shards=2 * plan.workers, parts=1 if scenario.topics > 1 else plan.workers, skew=skew)
        status.update(f"{target.name}: figures")
        return Report(
            target=target.name,
            scenario=scenario,
            workers=plan.workers,
            totals=figures.totals(load),
            seconds=figures.seconds(load),
            rate=figures.rate(load, plan.rate),
            fan_out=figures.fan_out(load),
            proof=proof,
            took_seconds=time.monotonic() - began,
            circumstances=circumstances,
        )


def _drive(spark: SparkSession, directory: Path, plan: Plan) -> DataFrame:
    """Has all workers do their shares, and writes what they record; from there it is read, for a load must not run twice."""
    path = str(directory.absolute())
    parts = spark.range(0, plan.workers, 1, plan.workers)
    parts.mapInArrow(partial(_task, plan=plan), SPARK_SCHEMA, barrier=True).write.mode("overwrite").parquet(path)
    return spark.read.schema(SPARK_SCHEMA).parquet(path)


def _task(_: Iterator[pa.RecordBatch], plan: Plan) -> Iterator[pa.RecordBatch]:
    """Runs one worker's task; only its process imports and uses gRPC."""
    from .worker import work  # noqa: PLC0415

    context: BarrierTaskContext = BarrierTaskContext.get()
    yield from batches(asyncio.run(work(plan, context.partitionId(), partial(asyncio.to_thread, context.barrier))))
