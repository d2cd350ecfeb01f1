"""``python -m bench.harness``: the command line of the load harness."""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

from rich.console import Console

from bench.conditions import date, load, machine
from bench.targets import Target, pulsar, sqlite

from .run import Report, run, show
from .scenarios import SCENARIOS, Plan
from .session import session, slots_of


def main(arguments: list[str] | None = None) -> int:
    """Runs one scenario against a target. Returns 1 if a promise was broken, and 130 if Ctrl-C ended it."""
    parser = _parser()
    options = parser.parse_args(arguments)
    slots = slots_of(options.master)
    if slots and (options.workers or 0) > slots:
        parser.error(
            f"all workers must run at once, and {options.master} runs {slots}: --workers {slots}, or --master local[{options.workers}]"
        )
    if options.target == "running" and not (options.address and options.namespace):
        parser.error("a running sidecar needs --address HOST:PORT and --namespace TENANT/NAMESPACE")
    circumstances = f"{date()}, seed {options.seed}, {machine()}, Spark {version('pyspark')}, {load()}"
    try:
        report = _run(options)
    except KeyboardInterrupt:
        print("Interrupted: nothing was judged.", file=sys.stderr)
        return 130
    print(circumstances, end="\n\n")
    show(report, options.target, Console())
    return 0 if report.proof.holds else 1


def _run(options: argparse.Namespace) -> Report:
    numbers = {name: getattr(options, name) for name in ("operations", "topics", "watchers") if getattr(options, name) is not None}
    with contextlib.ExitStack() as stack:
        directory = options.records or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        spark = stack.enter_context(session(options.master))
        if options.target == "running":
            target = Target(options.address, options.namespace)
        else:
            target = stack.enter_context(sqlite() if options.target == "sqlite" else pulsar())
        plan = Plan(
            scenario=replace(SCENARIOS[options.scenario], **numbers),
            workers=options.workers or spark.sparkContext.defaultParallelism,
            address=target.address,
            namespace=target.namespace,
            seed=options.seed,
        )
        return run(spark, plan, directory / "records", skew=options.clock_skew_ms / 1000)


def _at_least(least: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if not text.isascii() or not text.isdigit() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text} is not a number from {least} on")
        return int(text)

    return number


def _parser() -> argparse.ArgumentParser:
    about = "\n".join(f"  {each.name:12} {each.about}; {each.operations:,} operations" for each in SCENARIOS.values())
    parser = argparse.ArgumentParser(
        prog="python -m bench.harness",
        description=(
            "Drives a sidecar from Spark's executors, records every call, and proves or refutes its promises.\n\n"
            f"Scenarios:\n{about}"
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("scenario", choices=SCENARIOS)
    about = "the embedded log or a broker (JDK 17, Maven), started for the run, or a running sidecar (default: %(default)s)"
    parser.add_argument("--target", choices=("sqlite", "pulsar", "running"), default="sqlite", help=about)
    parser.add_argument("--address", default="", metavar="HOST:PORT", help="the running sidecar")
    parser.add_argument("--namespace", default="", help="the namespace to use there")
    parser.add_argument("--operations", type=_at_least(1), help="how many, all workers together")
    parser.add_argument("--topics", type=_at_least(1), help="how many topics")
    parser.add_argument("--watchers", type=_at_least(0), help="how many watchers, beside the auditor")
    parser.add_argument("--seed", type=int, default=1, help="of everything random (default: %(default)s)")
    cluster = parser.add_argument_group("Spark")
    cluster.add_argument("--master", default="local[2]", help="local[N], or a cluster's master (default: %(default)s)")
    cluster.add_argument("--workers", type=_at_least(1), help="how many workers; all must run at once (default: the cluster's cores)")
    cluster.add_argument("--records", type=Path, help="keep the records here (Parquet); executors must reach it")
    cluster.add_argument("--clock-skew-ms", type=float, default=0, help="how far the clocks of the executors' machines may be apart")
    return parser


if __name__ == "__main__":
    sys.exit(main())
