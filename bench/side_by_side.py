"""Updates by how many are in flight, beside an empty echo and the admin API; the stages of an update; the first pages of the history.

    python3 dev.py bench                    everything; needs JDK 17 and Maven for the broker
    python3 dev.py bench --logs sqlite      the embedded log only
    python3 dev.py bench --output json      for programs

In each round every load runs for a while, one after the other. A figure is the median over the rounds, and a ratio is the median of the
ratios of the rounds, so that a machine whose speed drifts favours neither. ``bench.figures`` compares figures with their targets.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import statistics
import sys
from collections import defaultdict
from typing import NamedTuple

import grpc
import httpx
import uvloop
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from bench import history
from bench.brokers import topics_that_stay
from bench.load import Calls, Sample, closed_loop, echo_calls, rest_calls, update_calls
from bench.stages import Stage, measure
from bench.targets import Program, Target, new_namespace, pulsar, running, sqlite
from tests.broker.pulsar_broker import OwnBroker

IN_FLIGHT = (1, 8, 64)
KEYS = (1, 64)
_STAGE_UPDATES = 20_000


class Load(NamedTuple):
    """One row: the service that it calls, over how many topics, and with how many calls in flight."""

    whom: str
    keys: int
    in_flight: int


class Report(NamedTuple):
    """All figures of a run."""

    rows: dict[Load, list[Sample]]
    stages: list[Stage]
    history: list[history.PageTime]


async def run(logs: list[str], rounds: int, seconds: float, stages: bool) -> Report:
    """Measures, and shows the progress on the terminal."""
    async with contextlib.AsyncExitStack() as stack:
        calls: dict[Load, Calls] = {}

        async def connected(program: Program) -> grpc.aio.Channel:
            return await stack.enter_async_context(grpc.aio.insecure_channel(program.address))

        echo = echo_calls(await connected(stack.enter_context(running("-m", "bench.echo", "PORT"))))
        calls |= {Load("echo", 0, many): echo for many in IN_FLIGHT}
        if "sqlite" in logs:
            calls |= _updates("sqlite", await connected(_program(stack.enter_context(sqlite()))), "public/default")
        if "pulsar" in logs:
            broker = await asyncio.to_thread(stack.enter_context, OwnBroker())
            target = stack.enter_context(pulsar(broker.service_url, broker.admin_url, options=()))
            beside = new_namespace(broker.admin_url)
            for namespace, topics in ((target.namespace, max(KEYS)), (beside, 1)):
                topics_that_stay(broker.admin_url, namespace, topics)
            calls |= _updates("pulsar", await connected(_program(target)), target.namespace)
            rest = await stack.enter_async_context(httpx.AsyncClient(base_url=broker.admin_url, timeout=30, trust_env=False))
            calls |= {Load("admin REST", 1, many): rest_calls(rest, beside) for many in IN_FLIGHT[:2]}
        rows: dict[Load, list[Sample]] = defaultdict(list)
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total}"), TimeElapsedColumn())
        with Progress(*columns, console=Console(stderr=True)) as progress:
            task = progress.add_task("warming up", total=rounds * len(calls))
            for call in calls.values():
                await closed_loop(call, 8, min(1.0, seconds))
            for _ in range(rounds):
                for load, call in calls.items():
                    progress.update(task, description=f"{load.whom}, {load.in_flight} in flight")
                    rows[load].append(await closed_loop(call, load.in_flight, seconds))
                    progress.advance(task)
    return Report(dict(rows), measure(_STAGE_UPDATES) if stages else [], await history.pages() if stages else [])


def _updates(log: str, channel: grpc.aio.Channel, namespace: str) -> dict[Load, Calls]:
    return {Load(log, keys, many): update_calls(channel, namespace, keys) for keys in KEYS for many in IN_FLIGHT}


def _program(target: Target) -> Program:
    assert isinstance(target.program, Program), "started for this run"
    return target.program


def show(report: Report, console: Console) -> None:
    """Prints tables."""
    table = Table(title="Calls, median over the rounds")
    for column in ("whom", "topics", "in flight", "calls/s", "of the echo", "p50 ms", "p99 ms"):
        table.add_column(column, justify="left" if column == "whom" else "right")
    for load, samples in report.rows.items():
        limit = report.rows[Load("echo", 0, load.in_flight)]
        share = statistics.median(ours.per_second / echo.per_second for ours, echo in zip(samples, limit, strict=True))
        figures = [statistics.median(getattr(each, name) for each in samples) for name in ("per_second", "p50_ms", "p99_ms")]
        keys = str(load.keys) if load.keys else ""
        table.add_row(load.whom, keys, str(load.in_flight), f"{figures[0]:,.0f}", f"{share:.2f}", f"{figures[1]:.2f}", f"{figures[2]:.2f}")
    console.print(table)
    if report.stages:
        table = Table(title="One update's stages on their own, in one thread")
        table.add_column("stage")
        table.add_column("us", justify="right")
        for stage in report.stages:
            table.add_row(stage.name, f"{stage.microseconds:.1f}")
        console.print(table)
    if report.history:
        history.show_pages(report.history, console)


def as_json(report: Report) -> str:
    """Returns one JSON document, for programs."""
    rows = [{**load._asdict(), "samples": [sample._asdict() for sample in samples]} for load, samples in report.rows.items()]
    told = {"rows": rows, "stages": [stage._asdict() for stage in report.stages]}
    return json.dumps(told | {"history": [each._asdict() for each in report.history]}, indent=2)


def main() -> int:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", default="sqlite,pulsar", help="which change logs, separated by commas (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each load in a round (default: %(default)s)")
    parser.add_argument("--no-stages", action="store_true", help="leave the stages' own costs and the history's pages out")
    parser.add_argument("--output", choices=("table", "json"), default="table")
    options = parser.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        report = runner.run(run(options.logs.split(","), options.rounds, options.seconds, not options.no_stages))
    if options.output == "json":
        print(as_json(report))
    else:
        show(report, Console())
    return 0


if __name__ == "__main__":
    sys.exit(main())
