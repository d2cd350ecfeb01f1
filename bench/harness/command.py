"""The command line of the load harness."""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from secrets import token_hex

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from .page import as_page
from .run import Options, Report, run
from .scenarios import SCENARIOS, Scenario
from .session import session, slots_of
from .summary import as_json, show
from .targets import Target, admin_rest, pulsar, sqlite

TARGETS = ("sqlite", "pulsar", "admin-rest", "running")


def main(arguments: list[str] | None = None) -> int:
    """Runs one scenario against one or several targets. Returns 1 if a promise was broken, and 130 if Ctrl-C ended it."""
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        return _run(parser, options)
    except KeyboardInterrupt:
        print("Interrupted: nothing was judged.", file=sys.stderr)
        return 130


def _run(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    slots = slots_of(options.master)
    if slots and (options.workers or 0) > slots:
        parser.error(
            f"all workers must run at once, and {options.master} runs {slots}: --workers {slots}, or --master local[{options.workers}]"
        )
    names = options.target.split(",")
    if unknown := [name for name in names if name not in TARGETS]:
        parser.error(f"no such target: {', '.join(unknown)}; there are {', '.join(TARGETS)}")
    if "running" in names and not (options.address and options.namespace):
        parser.error("a running sidecar needs --address HOST:PORT and --namespace TENANT/NAMESPACE")
    scenario = SCENARIOS[options.scenario].scaled(options.operations, options.topics, options.watchers)
    reports = []
    console = Console(stderr=True)
    with contextlib.ExitStack() as stack:
        directory = options.records or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        spark = stack.enter_context(session(options.master, options.driver_memory))
        workers = options.workers or spark.sparkContext.defaultParallelism
        for name in names:
            with _target(name, options, scenario) as target, _progress(console) as progress:
                task = progress.add_task(f"{name}: starting", total=None)

                def tell(
                    stage: str, done: int, total: int, *, name: str = name, progress: Progress = progress, task: object = task
                ) -> None:
                    progress.update(task, description=f"{name}: {stage}", completed=done, total=total)  # type: ignore[arg-type]

                reports.append(
                    run(
                        spark,
                        target,
                        Options(
                            scenario=scenario,
                            workers=workers,
                            directory=directory / name,
                            seed=options.seed,
                            skew=options.clock_skew_ms / 1000,
                            limits=not options.no_limits,
                            driver_host=options.driver_host,
                            prefix=options.prefix,
                        ),
                        tell,
                    )
                )
    _tell(reports, options)
    return 0 if all(report.proof is None or report.proof.holds for report in reports) else 1


def _tell(reports: list[Report], options: argparse.Namespace) -> None:
    if options.html is not None:
        options.html.write_text(as_page(reports), encoding="utf-8")
    if options.json is not None:
        options.json.write_text(as_json(reports), encoding="utf-8")
    if options.output == "json":
        print(as_json(reports))
    else:
        show(reports, Console())
        if options.html is not None:
            print(f"The page with plots: {options.html}", file=sys.stderr)


@contextlib.contextmanager
def _target(name: str, options: argparse.Namespace, scenario: Scenario) -> Iterator[Target]:
    with contextlib.ExitStack() as stack:
        if name == "sqlite":
            target = stack.enter_context(sqlite())
        elif name == "pulsar":
            target = stack.enter_context(pulsar(options.pulsar, options.admin_url))
        elif name == "admin-rest":
            target = stack.enter_context(admin_rest(options.pulsar, options.admin_url, options.prefix, scenario.topics))
        else:
            target = Target("sidecar", "running", options.address, options.namespace)
        yield target


def _progress(console: Console) -> Progress:
    return Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=console)


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
            "Drives a service from Spark's executors, records every call, and proves or refutes its promises.\n\n"
            f"Scenarios:\n{about}"
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("scenario", choices=SCENARIOS)
    parser.add_argument("--target", default="sqlite", help=f"one of {', '.join(TARGETS)}, or several with commas (default: %(default)s)")
    parser.add_argument("--operations", type=_at_least(1), help="how many, all workers together")
    parser.add_argument("--topics", type=_at_least(1), help="how many topics")
    parser.add_argument("--watchers", type=_at_least(0), help="how many watchers, beside the auditor")
    parser.add_argument("--seed", type=int, default=1, help="of everything random (default: %(default)s)")
    parser.add_argument("--no-limits", action="store_true", help="leave out what the machine could do at best")
    cluster = parser.add_argument_group("Spark")
    cluster.add_argument("--master", default="local[2]", help="local[N], or a cluster's master (default: %(default)s)")
    cluster.add_argument("--driver-memory", default="1g", help="(default: %(default)s)")
    cluster.add_argument("--workers", type=_at_least(1), help="how many workers; all must run at once (default: the cluster's cores)")
    cluster.add_argument(
        "--driver-host", default="127.0.0.1", help="where executors reach this machine, for the display (default: %(default)s)"
    )
    cluster.add_argument("--records", type=Path, help="keep the records here (Parquet); executors must reach it")
    cluster.add_argument("--clock-skew-ms", type=float, default=0, help="how far the clocks of the executors' machines may be apart")
    services = parser.add_argument_group("services")
    services.add_argument("--pulsar", default="", metavar="URL", help="a running broker; without it one is started (JDK 17, Maven)")
    services.add_argument("--admin-url", default="", metavar="URL", help="its admin API")
    services.add_argument("--address", default="", metavar="HOST:PORT", help="a running sidecar, for the target `running`")
    services.add_argument("--namespace", default="", help="the namespace to use there")
    services.add_argument("--prefix", default=f"load-{token_hex(3)}", help="what topics' names begin with (default: a new one each time)")
    output = parser.add_argument_group("output")
    output.add_argument("--output", choices=("table", "json"), default="table")
    output.add_argument("--json", type=Path, metavar="FILE", help="write the report for programs")
    output.add_argument("--html", type=Path, metavar="FILE", help="write one self-contained page with plots")
    return parser
