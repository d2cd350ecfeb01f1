"""What a report says, as sentences and rows: for the terminal, for the page, and as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict

from rich.console import Console
from rich.table import Table

from .run import Report

COLUMNS = ("phase", "calls", "number", "without success", "calls/s", "p50 ms", "p95 ms", "p99 ms")


def totals(report: Report) -> list[tuple[object, ...]]:
    """Returns the rows below ``COLUMNS``."""
    return [
        (
            each.phase,
            each.kind,
            each.calls,
            each.failed,
            round(each.per_second),
            *(each.quantiles_ms[share] for share in (0.5, 0.95, 0.99)),
        )
        for each in report.totals
    ]


def sentences(report: Report) -> Iterator[tuple[str, bool]]:
    """Yields what was measured and what was proven, and whether each sentence is an alarm."""
    scenario, rate, fan, proof = report.scenario, report.rate, report.fan_out, report.proof
    in_flight = f"{report.workers} workers with {scenario.clients} requests in flight each"
    yield f"Load: {scenario.topics:,} topics, {in_flight}; took {report.took_seconds:.0f} s", False
    yield ", ".join(f"{name} {value}" for name, value in report.circumstances.items()), False
    if rate is not None:
        sent = f"{rate.asked:,.0f}/s asked, {rate.achieved:,.0f}/s sent: {'held' if rate.held else 'not held'}"
        yield f"Rate: {sent}; latencies count from when a call should have begun", not rate.held
    if fan is not None:
        delays = f"p50 {fan.quantiles_ms[0.5]:.1f} ms, p99 {fan.quantiles_ms[0.99]:.1f} ms"
        deliveries = f"{fan.deliveries:,} changes to {fan.watchers:,} watchers, {fan.per_second:,.0f}/s"
        yield f"Watches: {deliveries}; from the request to the watcher {delays}", False
    judged = f"{proof.calls:,} calls and {proof.deliveries:,} deliveries on {proof.keys:,} documents"
    yield f"Judged: {judged}, {len(proof.verdicts)} promises", False
    if not proof.calls or not proof.keys:
        yield "nothing was judged", True
    else:
        yield "every promise holds" if proof.holds else "not every promise holds", not proof.holds


def as_json(reports: list[Report]) -> str:
    """Returns the reports as JSON, for programs."""
    runs = [asdict(report) for report in reports]
    for each, report in zip(runs, reports, strict=True):
        each["proof"]["holds"] = report.proof.holds
    return json.dumps({"runs": runs}, indent=2)


def show(reports: list[Report], console: Console) -> None:
    """Prints the reports: tables and sentences, and an example of each breach."""
    for report in reports:
        table = Table(title=f"{report.target}: {report.scenario.name} ({report.scenario.about})")
        for number, column in enumerate(COLUMNS):
            table.add_column(column, justify="left" if number < 2 else "right")
        for row in totals(report):
            table.add_row(*(each if isinstance(each, str) else f"{each:.2f}" if isinstance(each, float) else f"{each:,}" for each in row))
        console.print(table)
        for text, alarming in sentences(report):
            console.print(text, style="red" if alarming else "", markup=False, highlight=False)
        for verdict in report.proof.verdicts:
            if verdict.broken:
                console.print(f"[red]broken {verdict.broken:,} times[/]: {verdict.promise}: {verdict.about}")
                for line in verdict.examples[0].splitlines():
                    console.print(f"    {line}", markup=False, highlight=False, no_wrap=True, overflow="ellipsis")
        if any(verdict.broken for verdict in report.proof.verdicts):
            console.print("--output json and --html FILE have further examples, with everything that was recorded.")
