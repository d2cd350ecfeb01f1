"""Every figure that the project promises, each beside its limit, measured side by side in one run.

    python3 dev.py bench figures                    all of them; needs JDK 17 and Maven, etcd, and a machine that does nothing else
    python3 dev.py bench figures --large            first answers of 1,000,000 topics too
    python3 dev.py bench figures --only unary       one group, or several
    python3 dev.py bench figures --quick            very small amounts, which only try out the measurement
    python3 dev.py bench figures --output json      for programs

In each round a figure and its limit are measured one after the other, and take turns at being first. A figure is the median over the
rounds, a ratio the median of the ratios of the rounds. The exit code is 1 if a figure misses its target or could not be measured, 2 if the
machine is busy and nothing was measured (--busy measures all the same, and says so).
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from tests.broker.jars import BrokerUnavailableError
from tests.broker.pulsar_broker import OwnBroker

from .catalog import GROUPS, Group, chosen
from .conditions import QUIET, await_quiet, here
from .figure import Measured, all_reached, results
from .scale import LARGE, QUICK, Say, Scale
from .supervising import supervised
from .table import WIDTH, as_json, show

REFUSED = 2
_PATIENCE_SECONDS = 300.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures and prints."""
    parser = argparse.ArgumentParser(
        prog="python3 dev.py bench figures", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="GROUP", choices=[group.name for group in GROUPS], help="only these groups"
    )
    parser.add_argument("--large", action="store_true", help=f"namespaces of {LARGE:,} topics too")
    parser.add_argument("--quick", action="store_true", help="so little that nothing but the way is tried, on a busy machine too")
    parser.add_argument("--rounds", type=int, help="rounds (default: 5, 3 of what takes long)")
    parser.add_argument("--busy", action="store_true", help="measure although the machine does other things, and say so")
    parser.add_argument(
        "--patience",
        type=float,
        default=_PATIENCE_SECONDS,
        help="seconds to wait until the machine does nothing else (default: %(default)g)",
    )
    parser.add_argument("--service-url", default="", help="of a broker that runs already; with --admin-url")
    parser.add_argument("--admin-url", default="")
    parser.add_argument("--output", choices=("table", "json"), default="table")
    options = parser.parse_args(arguments)
    scale = QUICK if options.quick else Scale()
    if options.rounds:
        scale = scale._replace(rounds=options.rounds, few_rounds=options.rounds)
    if not options.quick:
        scale = scale._replace(large_topics=LARGE)
    with _progress() as say:
        if not (options.busy or options.quick) and not await_quiet(options.patience, say):
            print(
                f"The machine is busy (load average above {QUIET:g}): nothing was measured. --busy measures all the same.", file=sys.stderr
            )
            return REFUSED
        conditions = here()
        groups = chosen(options.only, large=options.large)
        found = measure(groups, scale._replace(service_url=options.service_url, admin_url=options.admin_url), say)
    made = results([figure for group in groups for figure in group.figures], found)
    if options.output == "json":
        print(as_json(made, conditions, quick=options.quick))
    else:
        show(made, conditions, Console(width=None if sys.stdout.isatty() else WIDTH), quick=options.quick)
    return 0 if all_reached(made) else 1


def measure(groups: Sequence[Group], scale: Scale, say: Say) -> dict[str, Measured]:
    """Measures groups one after the other; those with a broker last, so that the broker takes nothing from the others."""
    found: dict[str, Measured] = {}
    alone = [group for group in groups if not group.broker]
    beside = [group for group in groups if group.broker]
    for group in alone:
        found |= supervised(group, scale, _of(group, say))
    if not beside:
        return found
    try:
        with _broker(scale, say) as there:
            for group in beside:
                found |= supervised(group, there, _of(group, say))
    except BrokerUnavailableError as error:
        missing = Measured(missing=f"no broker can be run: {str(error).splitlines()[0]}")
        found |= {figure.name: missing for group in beside for figure in group.figures if figure.name not in found}
    return found


def _of(group: Group, say: Say) -> Say:
    return lambda now: say(f"{group.name}: {now}")


@contextlib.contextmanager
def _broker(scale: Scale, say: Say) -> Iterator[Scale]:
    """Yields the scale with the broker that is measured against: the one that was named, or a new one."""
    if scale.service_url:
        yield scale
        return
    say("starting a broker")
    with OwnBroker() as broker:
        yield scale._replace(service_url=broker.service_url, admin_url=broker.admin_url, broker=broker.pid or 0)


@contextlib.contextmanager
def _progress() -> Iterator[Say]:
    """Shows on a terminal what is being measured."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    with Progress(TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), console=console, transient=True) as progress:
        task = progress.add_task("beginning", total=None)
        yield lambda now: progress.update(task, description=now)
