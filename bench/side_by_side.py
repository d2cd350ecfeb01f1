"""Updates beside their limits, in one run.

    python3 dev.py bench                    everything; needs JDK 17 and Maven for the broker
    python3 dev.py bench --logs sqlite      the embedded log only
    python3 dev.py bench --output json      for programs

In each round every load runs for a while, one after the other, the empty echo again before each group: a figure is the median over the
rounds, and a ratio is the median of the rounds' own ratios, so that a machine whose speed drifts does not favour anybody.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import grpc
import httpx
import uvloop
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from bench import history
from bench.load import Calls, Sample, closed_loop, echo_calls, rest_calls, update_calls
from bench.stages import Stage, measure
from bench.verdicts import tell
from tests.broker.pulsar_broker import Broker
from tests.ports import free_port

IN_FLIGHT = (1, 8, 64)
KEYS = (1, 64)
_ROOT = Path(__file__).parents[1]
_STAGE_UPDATES = 20_000
_CONNECT_SECONDS = 60


class Load(NamedTuple):
    """One row: whom it calls, over how many topics, with how many calls in flight."""

    whom: str
    keys: int
    in_flight: int


class Target(NamedTuple):
    """What is to be reached, as a ratio of two rows."""

    name: str
    row: Load
    figure: str
    against: Load
    at_least: float | None = None
    at_most: float | None = None


TARGETS = (
    Target("SQLite, hot key, 64 in flight, against the echo", Load("sqlite", 1, 64), "per_second", Load("echo", 0, 64), at_least=0.5),
    Target("SQLite, 64 keys, 64 in flight, against the echo", Load("sqlite", 64, 64), "per_second", Load("echo", 0, 64), at_least=0.5),
    Target("Pulsar, hot key, 8 in flight, against admin REST", Load("pulsar", 1, 8), "per_second", Load("admin REST", 1, 8), at_least=15),
    Target("Pulsar, 1 in flight, p50 against admin REST", Load("pulsar", 1, 1), "p50_ms", Load("admin REST", 1, 1), at_most=1 / 3),
)


class Verdict(NamedTuple):
    """A target, and what was measured."""

    target: Target
    ratio: float
    reached: bool


class Report(NamedTuple):
    """Everything that a run measured."""

    rows: dict[Load, list[Sample]]
    verdicts: list[Verdict]
    stages: list[Stage]
    history: list[history.PageTime]


async def run(logs: list[str], rounds: int, seconds: float, stages: bool) -> Report:
    """Measures, with progress on the terminal."""
    async with contextlib.AsyncExitStack() as stack:
        calls: dict[Load, Calls] = {}
        echo = echo_calls(await stack.enter_async_context(_process("-m", "bench.echo")))
        calls |= {Load("echo", 0, many): echo for many in IN_FLIGHT}
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if "sqlite" in logs:
            channel = await stack.enter_async_context(_server("--data", str(directory / "policies.db")))
            calls |= _updates("sqlite", channel, "public/default")
        if "pulsar" in logs:
            broker = stack.enter_context(contextlib.closing(await asyncio.to_thread(_started)))
            with broker.admin() as admin:
                kept = {
                    "deleteWhileInactive": False,
                    "maxInactiveDurationSeconds": 3_600,
                    "inactiveTopicDeleteMode": "delete_when_no_subscriptions",
                }
                for namespace, keys in (("public/bench", max(KEYS)), ("public/bench-rest", 1)):
                    admin.call("PUT", f"namespaces/{namespace}", {"replication_clusters": ["standalone"]})
                    admin.call("POST", f"namespaces/{namespace}/inactiveTopicPolicies", kept)  # nobody uses the topics, and they must stay
                    for number in range(keys):
                        admin.create_topic(f"{namespace}/bench-{number}")
            channel = await stack.enter_async_context(_server("--pulsar", broker.service_url, "--admin-url", broker.admin_url))
            calls |= _updates("pulsar", channel, "public/bench")
            rest = await stack.enter_async_context(httpx.AsyncClient(base_url=broker.admin_url, timeout=30, trust_env=False))
            calls |= {Load("admin REST", 1, many): rest_calls(rest, "public/bench-rest") for many in IN_FLIGHT[:2]}
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
    verdicts = [_verdict(target, rows) for target in TARGETS if target.row in rows and target.against in rows]
    return Report(dict(rows), verdicts, measure(_STAGE_UPDATES) if stages else [], await history.pages() if stages else [])


def _updates(log: str, channel: grpc.aio.Channel, namespace: str) -> dict[Load, Calls]:
    return {Load(log, keys, many): update_calls(channel, namespace, keys) for keys in KEYS for many in IN_FLIGHT}


def _verdict(target: Target, rows: dict[Load, list[Sample]]) -> Verdict:
    pairs = zip(rows[target.row], rows[target.against], strict=True)
    ratio = statistics.median(getattr(ours, target.figure) / getattr(limit, target.figure) for ours, limit in pairs)
    reached = (target.at_least is None or ratio >= target.at_least) and (target.at_most is None or ratio <= target.at_most)
    return Verdict(target, ratio, reached)


def _started() -> Broker:
    broker = Broker()
    broker.start()
    return broker


@contextlib.asynccontextmanager
async def _process(*arguments: str) -> AsyncIterator[grpc.aio.Channel]:
    """A child process that is told a free port last, and a channel to it."""
    port = free_port()
    paths = [str(_ROOT), str(_ROOT / "server"), str(_ROOT / "clients/python")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, *(part.replace("PORT", str(port)) for part in arguments)]
    if "PORT" not in "".join(arguments):
        command.append(str(port))
    process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)  # noqa: ASYNC220
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            await asyncio.wait_for(channel.channel_ready(), _CONNECT_SECONDS)
            yield channel
    finally:
        process.terminate()
        process.wait(timeout=30)


def _server(*log: str) -> contextlib.AbstractAsyncContextManager[grpc.aio.Channel]:
    return _process("-m", "topicpolicies_server", "serve", "--listen", "127.0.0.1:PORT", "--log-level", "warning", *log)


def show(report: Report, console: Console) -> None:
    """Tables for people."""
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
    for verdict in report.verdicts:
        bound = f">= {verdict.target.at_least}" if verdict.target.at_least is not None else f"<= {verdict.target.at_most:.2f}"
        tell(console, verdict.target.name, verdict.ratio, bound, reached=verdict.reached)


def as_json(report: Report) -> str:
    """One document for programs."""
    rows = [{**load._asdict(), "samples": [sample._asdict() for sample in samples]} for load, samples in report.rows.items()]
    verdicts = [{"target": each.target.name, "ratio": each.ratio, "reached": each.reached} for each in report.verdicts]
    told = {"rows": rows, "verdicts": verdicts, "stages": [stage._asdict() for stage in report.stages]}
    return json.dumps(told | {"history": [each._asdict() for each in report.history]}, indent=2)


def main() -> int:
    """Measures and prints; 1 if a target was not reached."""
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
    return 0 if all(verdict.reached for verdict in report.verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
