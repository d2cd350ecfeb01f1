"""``python -m bench.harness``: the command line of the load harness."""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path

from rich.console import Console

from bench.conditions import load, machine
from bench.targets import Target, pulsar, sqlite

from .page import as_page
from .run import Circumstances, Report, run
from .scenarios import SCENARIOS, Plan
from .session import session, slots_of
from .summary import as_json, show

_ROOT = Path(__file__).parents[2]
Targets = dict[str, Callable[[], contextlib.AbstractContextManager[Target]]]


def main(arguments: list[str] | None = None) -> int:
    """Runs one scenario against one or several targets. Returns 1 if a promise was broken, and 130 if Ctrl-C ended it."""
    parser = _parser()
    options = parser.parse_args(arguments)
    targets: Targets = {
        "sqlite": sqlite,
        "pulsar": partial(pulsar, options.pulsar, options.admin_url),
        "running": lambda: contextlib.nullcontext(Target("running", options.address, options.namespace)),
    }
    names = options.target.split(",")
    slots = slots_of(options.master)
    if slots and (options.workers or 0) > slots:
        parser.error(
            f"all workers must run at once, and {options.master} runs {slots}: --workers {slots}, or --master local[{options.workers}]"
        )
    if unknown := [name for name in names if name not in targets]:
        parser.error(f"no such target: {', '.join(unknown)}; there are {', '.join(targets)}")
    if bool(options.pulsar) != bool(options.admin_url):
        parser.error("a running broker needs both --pulsar URL and --admin-url URL")
    if "running" in names and not (options.address and options.namespace):
        parser.error("a running sidecar needs --address HOST:PORT and --namespace TENANT/NAMESPACE")
    try:
        reports = _run(options, {name: targets[name] for name in names})
    except KeyboardInterrupt:
        print("Interrupted: nothing was judged.", file=sys.stderr)
        return 130
    if options.html is not None:
        options.html.write_text(as_page(reports), encoding="utf-8")
    if options.output == "json":
        print(as_json(reports))
    else:
        show(reports, Console())
    return 0 if all(report.proof.holds for report in reports) else 1


def _run(options: argparse.Namespace, targets: Targets) -> list[Report]:
    numbers = {name: getattr(options, name) for name in ("operations", "topics", "watchers") if getattr(options, name) is not None}
    reports, circumstances = [], _circumstances(options.seed)
    with contextlib.ExitStack() as stack:
        directory = options.records or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        spark = stack.enter_context(session(options.master))
        for name, started in targets.items():
            with started() as target:
                plan = Plan(
                    scenario=replace(SCENARIOS[options.scenario], **numbers),
                    workers=options.workers or spark.sparkContext.defaultParallelism,
                    address=target.address,
                    namespace=target.namespace,
                    seed=options.seed,
                    rate=options.rate,
                )
                skew = options.clock_skew_ms / 1000
                reports.append(run(spark, target, plan, directory / name, circumstances, skew=skew))
    return reports


def _circumstances(seed: int) -> Circumstances:
    """Returns what a reader must know to make the run again, by name."""
    command = ["git", "describe", "--always", "--dirty=+"]
    commit = subprocess.run(command, cwd=_ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False).stdout.strip()
    return {
        "date": datetime.now(UTC).isoformat(sep=" ", timespec="seconds"),
        "seed": seed,
        "version": version("topicpolicies-server"),
        "commit": commit or "not known",
        "machine": f"{machine()}, Spark {version('pyspark')}, {load()}",
    }


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
    parser.add_argument("--target", default="sqlite", help="sqlite, pulsar, running, or several with commas (default: %(default)s)")
    parser.add_argument("--operations", type=_at_least(1), help="how many, all workers together")
    about_rate = "begin N operations a second, all workers together; latencies count from then"
    parser.add_argument("--rate", type=_at_least(1), default=0, metavar="N", help=about_rate)
    parser.add_argument("--topics", type=_at_least(1), help="how many topics")
    parser.add_argument("--watchers", type=_at_least(0), help="how many watchers, beside the auditor")
    parser.add_argument("--seed", type=int, default=1, help="of everything random (default: %(default)s)")
    cluster = parser.add_argument_group("Spark")
    cluster.add_argument("--master", default="local[2]", help="local[N], or a cluster's master (default: %(default)s)")
    cluster.add_argument("--workers", type=_at_least(1), help="how many workers; all must run at once (default: the cluster's cores)")
    cluster.add_argument("--records", type=Path, help="keep the records here (Parquet); executors must reach it")
    cluster.add_argument("--clock-skew-ms", type=float, default=0, help="how far the clocks of the executors' machines may be apart")
    services = parser.add_argument_group("services")
    services.add_argument("--pulsar", default="", metavar="URL", help="a running broker; without it one is started (JDK 17, Maven)")
    services.add_argument("--admin-url", default="", metavar="URL", help="its admin API")
    services.add_argument("--address", default="", metavar="HOST:PORT", help="a running sidecar, for the target `running`")
    services.add_argument("--namespace", default="", help="the namespace to use there")
    output = parser.add_argument_group("output")
    output.add_argument("--output", choices=("table", "json"), default="table", help="for people, or for programs")
    output.add_argument("--html", type=Path, metavar="FILE", help="write one self-contained page with plots")
    return parser


if __name__ == "__main__":
    sys.exit(main())
