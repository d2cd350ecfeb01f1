"""The command line: measures groups of figures, and prints a table.

The exit code is 1 if a figure misses its target or could not be measured, 2 if the machine is busy and nothing was measured (--busy
measures all the same, and says so).
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import uvloop
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from bench import conditions, figures
from tests.broker.jars import BrokerUnavailableError
from tests.broker.pulsar_broker import OwnBroker
from topicpolicies_spark.plots import PALETTE, Bar, bars

from . import crowd, etcd, following, history, memory, plugin, starting, updates, watching
from .figure import QUICK, Figure, Scale

REFUSED = 2
_PATIENCE_SECONDS = 300.0
_WIDTH = 190
"""The width of a line: a row is one line then."""
_SAID = 300
"""How many characters of an error are reported."""
_GROUPS: dict[str, Callable[[Scale], Sequence[Figure]]] = {
    "updates": updates.measure,
    "start": starting.measure,
    "memory": memory.measure,
    "deliveries": watching.measure_deliveries,
    "snapshot": watching.measure_snapshot,
    "crowd": crowd.measure,
    "history": history.measure,
    "plugin": plugin.measure,
}
_ON_PULSAR: dict[str, Callable[[Scale], Sequence[Figure]]] = {
    "updates-pulsar": updates.measure_pulsar,
    "start-pulsar": starting.measure_pulsar,
    "following": following.measure,
}
"""The groups that need a broker; they come last, so that it takes nothing from the others."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures and prints."""
    parser = argparse.ArgumentParser(
        prog="python3 dev.py bench figures", description=figures.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [*_GROUPS, *_ON_PULSAR]
    parser.add_argument("--only", nargs="+", default=names, metavar="GROUP", choices=names, help=f"of: {', '.join(names)}")
    parser.add_argument("--quick", action="store_true", help="very small amounts, to try it out, on a busy machine too")
    parser.add_argument("--rounds", type=int, help=f"rounds (default: {Scale().rounds})")
    parser.add_argument("--topics", type=int, help=f"topics of large namespaces (default: {Scale().topics:,})")
    parser.add_argument("--busy", action="store_true", help="measure although the machine does other things, and say so")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw how much of each target was reached (SVG)")
    options = parser.parse_args(arguments)
    changed = {name: getattr(options, name) for name in ("rounds", "topics") if getattr(options, name)}
    scale = (QUICK if options.quick else Scale())._replace(**changed)
    if not (options.busy or options.quick or conditions.await_quiet(_PATIENCE_SECONDS)):
        print("The machine is busy: nothing was measured. --busy measures all the same.", file=sys.stderr)
        return REFUSED
    said = [conditions.date(), conditions.machine(), f"etcd {etcd.version() or 'is not installed'}", conditions.load()]
    if options.quick:
        said.append("QUICK: too little was measured for figures that say anything")
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    found = measure(options.only, scale)
    if options.plot is not None:
        options.plot.write_text(plot(found))
    show("; ".join(said), found)
    return 0 if all(each.result in ("reached", "") for each in found) else 1


def measure(names: Sequence[str], scale: Scale) -> list[Figure]:
    """Measures groups one after the other. One that fails has a row that says why."""
    found = [figure for name, group in _GROUPS.items() if name in names for figure in _measured(name, group, scale)]
    on_pulsar = {name: group for name, group in _ON_PULSAR.items() if name in names}
    if on_pulsar:
        try:
            with OwnBroker() as broker:
                scale = scale._replace(service_url=broker.service_url, admin_url=broker.admin_url)
                found += [figure for name, group in on_pulsar.items() for figure in _measured(name, group, scale)]
        except BrokerUnavailableError as error:
            found += [Figure(name, "", "", note=f"no broker can be run: {str(error).splitlines()[0]}") for name in on_pulsar]
    return found


def _measured(name: str, group: Callable[[Scale], Sequence[Figure]], scale: Scale) -> Sequence[Figure]:
    print(f"{name} ...", end=" ", file=sys.stderr, flush=True)
    began = time.monotonic()
    try:
        return group(scale)
    except Exception as error:  # noqa: BLE001 - the other groups are measured all the same
        return [Figure(name, "", "", note=" ".join(f"{type(error).__name__}: {error}".split())[:_SAID])]
    finally:
        print(f"{time.monotonic() - began:.0f} s", file=sys.stderr)


def show(said: str, found: Sequence[Figure]) -> None:
    """Prints the conditions, the table, and below it the notes of the figures."""
    table = Table(box=MARKDOWN)
    for column in ("figure", "beside", "ours", "limit", "ratio", "wanted", "reached"):
        table.add_column(column, justify="left" if column in ("figure", "beside", "reached") else "right")
    for each in found:
        values = (told(each.ours, each.unit), told(each.limit, each.unit), told(each.ratios, ""))
        table.add_row(each.what, each.beside, *values, each.wanted, each.result)
    print(said)
    Console(width=_WIDTH).print(table)
    print()
    for each in found:
        if each.note:
            print(f"- {each.what}: {each.note}")


def plot(found: Sequence[Figure]) -> str:
    """Draws how much of each target was reached."""
    drawn = []
    for each in found:
        if each.wanted:
            parts = [] if each.reach is None else [(each.reach, PALETTE[2] if each.reach >= 1 else PALETTE[1])]
            values = told(each.ratios, "") if each.of_limit else told(each.ours, each.unit)
            drawn.append(Bar(each.what, parts, f"{values or 'not measured'} ({each.wanted})"))
    return bars("How much of what is wanted was reached", drawn, target="what is wanted")


def told(values: Sequence[float], unit: str) -> str:
    """Returns the median, and how far the farthest round is from it, as text."""
    if not values:
        return ""
    median = statistics.median(values)
    text = f"{number(median)} {unit}".strip()
    if len(values) < 2 or not median:
        return text
    return f"{text} \N{PLUS-MINUS SIGN}{max(abs(value - median) for value in values) / abs(median):.0%}"


def number(value: float) -> str:
    """Returns a number with three significant digits, at least."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}" if abs(value) >= 1 else f"{value:.3f}"


if __name__ == "__main__":
    sys.exit(main())
