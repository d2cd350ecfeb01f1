"""One run from its beginning to its end: limits, load, figures, proof."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from . import figures
from .circumstances import Circumstances, circumstances
from .limits import Limit, broadcast_limit, log_limit
from .plan import Plan
from .progress import ProgressReceiver
from .proof import Proof, prove
from .records import SPARK_SCHEMA, batches
from .scenarios import Scenario
from .targets import Target, running

if TYPE_CHECKING:
    from pyspark import BarrierTaskContext

ECHO_CALLS = 6_000
BROADCAST_DELIVERIES = 40_000
Show = Callable[[str, int, int], None]
"""Called with the name of a stage, the number of operations that are done, and their total."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The settings of a run."""

    scenario: Scenario
    workers: int
    directory: Path
    """Records are written to ``directory/records``. Executors on other machines must be able to reach it."""
    seed: int = 1
    skew: float = 0.0
    """How many seconds the clocks of the workers' machines may be apart."""
    limits: bool = True
    driver_host: str = "127.0.0.1"
    """The driver's address, to which workers report their progress."""
    prefix: str = "load"
    """What the topics' names begin with; each run against a running sidecar needs another one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The results of a run."""

    target: str
    scenario: Scenario
    workers: int
    totals: list[figures.Total]
    seconds: list[figures.Second]
    fan_out: figures.FanOut | None
    limits: list[Limit]
    proof: Proof | None
    """None: the target's answers carry nothing that can be proven."""
    loading_seconds: float | None
    """Seconds from the first read of a namespace that was not loaded to its answer; None if the start was not cold."""
    took_seconds: float
    circumstances: Circumstances


def run(spark: SparkSession, target: Target, options: Options, show: Show = lambda *_: None) -> Report:
    """Makes a run against a target.

    The records of an earlier run in the same directory are replaced.

    Raises:
        pyspark.errors.PySparkException: a worker failed.
    """
    began = time.monotonic()
    shutil.rmtree(options.directory / "records", ignore_errors=True)
    receiver_show = _Shown(show)
    with contextlib.closing(ProgressReceiver(options.driver_host, receiver_show.tell)) as receiver:
        limits: list[Limit] = []
        echo_total: list[figures.Total] = []
        if options.limits:
            with running("-m", "bench.echo", "PORT") as echo:
                plan = _echo(options, echo.address, receiver.address)
                records = _drive(spark, plan, options, receiver, receiver_show, "the empty echo")
                echo_total = figures.totals(records.filter("phase = 'steady'"))
            limits = [
                Limit("echo", each["per_second"], f"empty calls, {options.scenario.clients} in flight a worker") for each in echo_total
            ]
            if target.kind == "sidecar":
                limits.append(log_limit(target))
                watchers = max(options.scenario.watchers, 1)
                limits.append(broadcast_limit(watchers, max(10, BROADCAST_DELIVERIES // watchers)))
            elif target.service_url:
                limits.append(log_limit(target))
        load: DataFrame | None = None
        for plan, name in _stages(target, options, receiver.address):
            made = _drive(spark, plan, options, receiver, receiver_show, name)
            load = made if load is None else load.unionByName(made)
    assert load is not None, "there is at least one stage"
    load = load.cache()
    proof = (
        prove(load, shards=2 * options.workers, parts=1 if options.scenario.topics > 1 else options.workers, skew=options.skew)
        if target.kind == "sidecar"
        else None
    )
    return Report(
        target=target.name,
        scenario=options.scenario,
        workers=options.workers,
        totals=[*echo_total, *figures.totals(load)],
        seconds=figures.seconds(load),
        fan_out=figures.fan_out(load),
        limits=limits,
        proof=proof,
        loading_seconds=_loading(load) if options.scenario.cold else None,
        took_seconds=time.monotonic() - began,
        circumstances=circumstances(options.seed, spark.version),
    )


def _stages(target: Target, options: Options, progress: tuple[str, int]) -> Iterator[tuple[Plan, str]]:
    """Yields the stages of the load; between the two stages of a cold start the service is restarted."""
    plan = Plan(
        target=target.kind,
        address=target.address,
        namespace=target.namespace,
        prefix=options.prefix,
        scenario=options.scenario,
        workers=options.workers,
        seed=options.seed,
        progress=progress,
    )
    if options.scenario.cold:
        if target.program is None:
            raise ValueError("A cold start needs a service that may be started anew; this one is somebody else's.")
        yield replace(plan, phase="fill", fill=True), "filling"
        target.program.stop()
        target.program.start()
        yield replace(plan, phase="cold"), options.scenario.name
    else:
        yield plan, options.scenario.name


def _echo(options: Options, address: str, progress: tuple[str, int]) -> Plan:
    calls = min(ECHO_CALLS, max(1_000, options.scenario.operations))
    scenario = replace(options.scenario, operations=calls)
    return Plan(
        target="echo",
        address=address,
        namespace="",
        prefix="",
        scenario=scenario,
        workers=options.workers,
        audited=False,
        progress=progress,
    )


def _drive(spark: SparkSession, plan: Plan, options: Options, receiver: ProgressReceiver, shown: _Shown, name: str) -> DataFrame:
    """Has all workers do a stage, and writes what they record; from there it is read, for a load must not run twice."""
    receiver.reset()
    shown.stage(name, plan.scenario.topics if plan.fill else plan.scenario.operations)
    path = str(options.directory / "records" / f"{plan.target}-{plan.phase or 'load'}")
    parts = spark.range(0, plan.workers, 1, plan.workers)
    parts.mapInArrow(partial(_task, plan=plan), SPARK_SCHEMA, barrier=True).write.mode("overwrite").parquet(path)
    shown.finish()
    return spark.read.schema(SPARK_SCHEMA).parquet(path)


def _task(_: Iterator[pa.RecordBatch], plan: Plan) -> Iterator[pa.RecordBatch]:
    """Runs one worker's task; only its process imports and uses gRPC."""
    from pyspark import BarrierTaskContext  # noqa: PLC0415

    from .worker import work  # noqa: PLC0415

    context: BarrierTaskContext = BarrierTaskContext.get()
    yield from batches(work(plan, context.partitionId(), context.barrier))


def _loading(records: DataFrame) -> float | None:
    row = records.filter("phase = 'cold' and kind = 'read' and code = 'OK'").selectExpr("min(`end`) - min(start)").first()
    return None if row is None else row[0]


class _Shown:
    """Passes on the progress of the present stage."""

    def __init__(self, show: Show) -> None:
        self._show = show
        self._name, self._total = "", 0

    def stage(self, name: str, total: int) -> None:
        self._name, self._total = name, total
        self._show(name, 0, total)

    def finish(self) -> None:
        """Shows that the stage has ended: the last datagrams of the workers may be missing."""
        self._show(self._name, self._total, self._total)

    def tell(self, done: int) -> None:
        self._show(self._name, done, self._total)
