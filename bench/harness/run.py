"""One run from its beginning to its end: load, figures, proof, report."""

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
from rich.table import Table

from . import figures
from .proof import Proof, prove
from .records import SPARK_SCHEMA, batches
from .scenarios import Plan

_COLUMNS = ("phase", "calls", "number", "without success", "calls/s", *(f"p{share * 100:.0f} ms" for share in figures.QUANTILES))


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The results of a run."""

    plan: Plan
    totals: list[figures.Total]
    fan_out: figures.FanOut | None
    proof: Proof
    took_seconds: float


def run(spark: SparkSession, plan: Plan, directory: Path, *, skew: float) -> Report:
    """Makes a run, and shows its progress on the terminal.

    Args:
        spark: the session whose executors are the workers.
        plan: the load.
        directory: for the records; executors on other machines must be able to reach it. Those of an earlier run are replaced.
        skew: how many seconds the clocks of the workers' machines may be apart.

    Raises:
        pyspark.errors.PySparkException: a worker failed.
    """
    began, scenario = time.monotonic(), plan.scenario
    shutil.rmtree(directory, ignore_errors=True)
    with Console(stderr=True).status(scenario.name) as status:
        load = _drive(spark, directory, plan).cache()
        status.update("judging")
        proof = prove(load, shards=2 * plan.workers, parts=1 if scenario.topics > 1 else plan.workers, skew=skew)
        status.update("figures")
        totals, fan_out = figures.totals(load), figures.fan_out(load)
    return Report(plan=plan, totals=totals, fan_out=fan_out, proof=proof, took_seconds=time.monotonic() - began)


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


def show(report: Report, title: str, console: Console) -> None:
    """Prints a report: a table, what was judged, and an example of each breach."""
    scenario, fan, proof = report.plan.scenario, report.fan_out, report.proof
    table = Table(title=f"{title}: {scenario.name} ({scenario.about})")
    for number, column in enumerate(_COLUMNS):
        table.add_column(column, justify="left" if number < 2 else "right")
    for each in report.totals:
        quantiles = [f"{value:.2f}" for value in each.quantiles_ms]
        table.add_row(each.phase, each.kind, f"{each.calls:,}", f"{each.failed:,}", f"{each.per_second:,.0f}", *quantiles)
    say = partial(console.print, markup=False, highlight=False)
    console.print(table)
    in_flight = f"{report.plan.workers} workers with {scenario.clients} requests in flight each"
    say(f"Load: {scenario.topics:,} topics, {in_flight}; took {report.took_seconds:.0f} s")
    if fan is not None:
        half, _, most = fan.quantiles_ms
        deliveries = f"{fan.deliveries:,} changes to {fan.watchers:,} watchers, {fan.per_second:,.0f}/s"
        say(f"Watches: {deliveries}; from the request to the watcher p50 {half:.1f} ms, p99 {most:.1f} ms")
    judged = f"{proof.calls:,} calls and {proof.deliveries:,} deliveries on {proof.keys:,} documents"
    say(f"Judged: {judged}, {len(proof.verdicts)} promises")
    for verdict in proof.verdicts:
        if verdict.broken:
            say(f"broken {verdict.broken:,} times: {verdict.promise}: {verdict.about}", style="red")
            for line in verdict.example.splitlines():
                say(f"    {line}")
    if not proof.calls or not proof.keys:
        say("nothing was judged", style="red")
    else:
        say("every promise holds" if proof.holds else "not every promise holds", style="" if proof.holds else "red")
