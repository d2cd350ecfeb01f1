"""The command line: measures groups, and prints a table for people or a JSON document for programs.

The exit code is 1 if a figure misses its target or could not be measured, 2 if the machine is busy and nothing was measured (--busy
measures all the same, and says so).
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from bench import conditions, figures
from tests.broker.jars import BrokerUnavailableError
from tests.broker.pulsar_broker import OwnBroker
from topicpolicies_spark.plots import PALETTE, Bar, bars

from . import etcd
from .figure import QUICK, Figure, Measured, Scale, reach, result
from .groups import GROUPS, Group, supervised

REFUSED = 2
_WIDTH = 190
"""The width of a line: a row is one line then."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures and prints."""
    parser = argparse.ArgumentParser(
        prog="python3 dev.py bench figures", description=figures.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [group.name for group in GROUPS]
    parser.add_argument("--only", nargs="+", default=names, metavar="GROUP", choices=names, help=f"of: {', '.join(names)}")
    parser.add_argument("--quick", action="store_true", help="very small amounts, to try it out, on a busy machine too")
    parser.add_argument("--rounds", type=int, help=f"rounds (default: {Scale().rounds})")
    parser.add_argument("--topics", type=int, help=f"topics of large namespaces (default: {Scale().topics:,})")
    parser.add_argument("--busy", action="store_true", help="measure although the machine does other things, and say so")
    about = "seconds to wait until the machine does nothing else (default: %(default)g)"
    parser.add_argument("--patience", type=float, default=300.0, help=about)
    parser.add_argument("--output", choices=("table", "json"), default="table", help="for people (Markdown), or for programs")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw how much of each target was reached (SVG)")
    options = parser.parse_args(arguments)
    changed = {name: getattr(options, name) for name in ("rounds", "topics") if getattr(options, name)}
    scale = (QUICK if options.quick else Scale())._replace(**changed)
    if not (options.busy or options.quick or conditions.await_quiet(options.patience)):
        print("The machine is busy: nothing was measured. --busy measures all the same.", file=sys.stderr)
        return REFUSED
    said = [conditions.date(), conditions.machine(), f"etcd {etcd.version() or 'is not installed'}", conditions.load()]
    if options.quick:
        said.append("QUICK: too little was measured for figures that say anything")
    chosen = [group for group in GROUPS if group.name in options.only]
    found = measure(chosen, scale)
    amounts = scale._asdict()
    rows = [(each._replace(what=each.what.format(**amounts)), found[each.name]) for group in chosen for each in group.figures]
    if options.plot is not None:
        options.plot.write_text(plot(rows))
    if options.output == "json":
        print(json.dumps({"conditions": said, "figures": [_document(*row) for row in rows]}, indent=2))
    else:
        show("; ".join(said), rows)
    return 0 if all(result(*row) in ("reached", "") for row in rows) else 1


def measure(groups: Sequence[Group], scale: Scale) -> Mapping[str, Measured]:
    """Measures groups one after the other; those with a broker last, so that the broker takes nothing from the others."""
    found: dict[str, Measured] = {}

    def each(chosen: Sequence[Group], scale: Scale) -> None:
        for group in chosen:
            print(f"{group.name} ...", end=" ", file=sys.stderr, flush=True)
            began = time.monotonic()
            found.update(supervised(group, scale))
            print(f"{time.monotonic() - began:.0f} s", file=sys.stderr)

    each([group for group in groups if not group.broker], scale)
    beside = [group for group in groups if group.broker]
    if beside:
        try:
            with OwnBroker() as broker:
                each(beside, scale._replace(service_url=broker.service_url, admin_url=broker.admin_url))
        except BrokerUnavailableError as error:
            missing = Measured(missing=f"no broker can be run: {str(error).splitlines()[0]}")
            found.update({figure.name: missing for group in beside for figure in group.figures})
    return found


def show(said: str, rows: Sequence[tuple[Figure, Measured]]) -> None:
    """Prints the conditions, the table, and below it the notes of the figures."""
    table = Table(box=MARKDOWN)
    for column in ("figure", "beside", "ours", "limit", "ratio", "wanted", "reached"):
        table.add_column(column, justify="left" if column in ("figure", "beside", "reached") else "right")
    for figure, measured in rows:
        ratios = told(measured.ratios, "") if figure.of_limit else ""
        ours, limit = told(measured.ours, figure.unit), told(measured.limit, figure.unit)
        table.add_row(figure.what, figure.beside, ours, limit, ratios, wanted(figure), result(figure, measured))
    print(said)
    Console(width=_WIDTH).print(table)
    print()
    for figure, measured in rows:
        remark = "; ".join(filter(None, (measured.missing, measured.note)))
        if remark:
            print(f"- {figure.what}: {remark}")


def plot(rows: Sequence[tuple[Figure, Measured]]) -> str:
    """Draws how much of each target was reached."""
    drawn = []
    for figure, measured in rows:
        share = reach(figure, measured)
        parts = [] if share is None else [(share, PALETTE[2] if share >= 1 else PALETTE[1])]
        if figure.bound is not None:
            values = told(measured.ratios if figure.of_limit else measured.ours, "" if figure.of_limit else figure.unit)
            drawn.append(Bar(figure.what, parts, f"{values or 'not measured'} ({wanted(figure)})"))
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


def wanted(figure: Figure) -> str:
    """Returns the target of a figure, as text."""
    if figure.bound is None:
        return ""
    sign = "<=" if figure.at_least is None else ">="
    return f"{sign} {figure.bound:g}" if figure.of_limit else f"{sign} {figure.bound:,g} {figure.unit}"


def _document(figure: Figure, measured: Measured) -> dict[str, object]:
    results = {"result": result(figure, measured), "reach": reach(figure, measured), "ratios": measured.ratios}
    return {**figure._asdict(), **measured._asdict(), **results}


if __name__ == "__main__":
    sys.exit(main())
