"""The admin REST of a broker with the plug-in beside that of a stock broker, in one run.

    python3 dev.py bench plugin                    needs JDK 17 and Maven
    python3 dev.py bench plugin --output json      for programs

Both brokers run throughout, and the sidecar on the embedded log. In each round every load runs on one broker and then on the other. A
figure is the median over the rounds, and a ratio is the median of the ratios of the rounds, so that a machine whose speed drifts favours
neither.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import statistics
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import httpx
from rich.console import Console
from rich.table import Table

from bench.load import Calls, Sample, closed_loop
from bench.verdicts import print_verdict
from tests.broker.admin import Admin
from tests.broker.pulsar_broker import OwnBroker
from tests.promises.plugin.pair import KEEP_TOPICS, Pair

_NAMESPACE = "public/bench"
_REACH = 3.0
_WARM_UP_CALLS = 300


class Load(NamedTuple):
    """A load that runs on each broker."""

    verb: str
    """``set`` or ``read``."""
    topics: int
    in_flight: int


LOADS = (Load("set", 1, 1), Load("set", 1, 8), Load("set", 64, 8), Load("read", 1, 8))
HOT = Load("set", 1, 8)
"""The load that must be faster with the plug-in by the factor ``_REACH``."""


class Row(NamedTuple):
    """One load, measured on both brokers."""

    load: Load
    plugin: list[Sample]
    stock: list[Sample]

    @property
    def ratio(self) -> float:
        """The calls per second with the plug-in, divided by those of the stock broker."""
        return statistics.median(ours.per_second / theirs.per_second for ours, theirs in zip(self.plugin, self.stock, strict=True))


def calls_of(client: httpx.AsyncClient, load: Load) -> Calls:
    """Returns the load's calls, over its topics in turn; each sets another value."""
    numbers = iter(range(1, sys.maxsize))

    async def call() -> None:
        number = next(numbers)
        path = f"/admin/v2/persistent/{_NAMESPACE}/bench-{number % load.topics}/maxProducers"
        answer = await (client.get(path) if load.verb == "read" else client.post(path, json=number % 1_000_000))
        answer.raise_for_status()

    return Calls(call)


async def run(rounds: int, seconds: float) -> list[Row]:
    """Starts both brokers and measures."""
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        pair = await asyncio.to_thread(Pair, directory)
        stack.callback(pair.close)
        stock = OwnBroker(settings=KEEP_TOPICS)
        stack.callback(stock.close)
        await asyncio.to_thread(pair.start_sidecar)
        for broker in (pair.broker, stock):
            await asyncio.to_thread(broker.start)
            with broker.admin() as admin:
                _prepare(admin)
        async with (
            httpx.AsyncClient(base_url=pair.broker.admin_url, timeout=30, trust_env=False) as ours,
            httpx.AsyncClient(base_url=stock.admin_url, timeout=30, trust_env=False) as theirs,
        ):
            for client in (ours, theirs):  # so that both brokers have compiled their code by the time of the measurement
                warming = calls_of(client, HOT).call
                for _ in range(_WARM_UP_CALLS):
                    await warming()
            samples: dict[tuple[Load, str], list[Sample]] = defaultdict(list)
            for _ in range(rounds):
                for load in LOADS:
                    samples[load, "plugin"].append(await closed_loop(calls_of(ours, load), load.in_flight, seconds))
                    samples[load, "stock"].append(await closed_loop(calls_of(theirs, load), load.in_flight, seconds))
        return [Row(load, samples[load, "plugin"], samples[load, "stock"]) for load in LOADS]


def _prepare(admin: Admin) -> None:
    admin.call("PUT", f"namespaces/{_NAMESPACE}", {"replication_clusters": ["standalone"]})
    for number in range(max(load.topics for load in LOADS)):
        admin.create_topic(f"{_NAMESPACE}/bench-{number}")
    admin.call("POST", f"persistent/{_NAMESPACE}/bench-0/maxProducers", 1)


def show(rows: list[Row], console: Console) -> None:
    """Prints a table."""
    table = Table(title="Admin REST, median over the rounds")
    for column in (
        "verb",
        "topics",
        "in flight",
        "plug-in /s",
        "stock /s",
        "ratio",
        "plug-in p50 ms",
        "stock p50 ms",
        "p99 ms",
        "stock p99 ms",
    ):
        table.add_column(column, justify="left" if column == "verb" else "right")
    for row in rows:
        figures = [
            statistics.median(getattr(sample, name) for sample in samples)
            for name in ("per_second", "p50_ms", "p99_ms")
            for samples in (row.plugin, row.stock)
        ]
        rates, medians, tails = figures[0:2], figures[2:4], figures[4:6]
        texts = [f"{each:,.0f}" for each in rates] + [f"{row.ratio:.2f}"] + [f"{each:.1f}" for each in (*medians, *tails)]
        table.add_row(row.load.verb, str(row.load.topics), str(row.load.in_flight), *texts)
    console.print(table)


def main() -> int:
    """Measures and prints. Returns 1 if sets of the hot topic miss their target."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="rounds (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each load in a round (default: %(default)s)")
    parser.add_argument("--output", choices=("table", "json"), default="table")
    options = parser.parse_args()
    rows = asyncio.run(run(options.rounds, options.seconds))
    ratio = next(row.ratio for row in rows if row.load == HOT)
    if options.output == "json":
        print(json.dumps([{**row.load._asdict(), "ratio": row.ratio, "plugin": row.plugin, "stock": row.stock} for row in rows]))
    else:
        console = Console()
        show(rows, console)
        target = f"sets of one topic with {HOT.in_flight} clients, against a stock broker"
        print_verdict(console, target, ratio, f">= {_REACH:.0f}", reached=ratio >= _REACH)
    return 0 if ratio >= _REACH else 1


if __name__ == "__main__":
    sys.exit(main())
