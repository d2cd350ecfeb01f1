"""The report on the terminal and as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict

from rich.console import Console
from rich.table import Table

from .run import Report


def ratios(report: Report) -> dict[str, float]:
    """Returns the results as shares of the limits of the same run."""
    limits = {limit.name: limit.per_second for limit in report.limits}
    changes = [each for each in report.totals if each["kind"] == "update" and each["phase"] in ("steady", "fill")]
    found = {}
    if changes and limits.get("echo"):
        found["updates of the echo"] = changes[-1]["per_second"] / limits["echo"]
    if report.fan_out is not None and limits.get("broadcast"):
        found["deliveries of the broadcast"] = report.fan_out["per_second"] / limits["broadcast"]
    return found


def as_json(reports: list[Report]) -> str:
    """Returns the reports as JSON, for programs."""
    runs = [asdict(report) | {"ratios": ratios(report)} for report in reports]
    for each, report in zip(runs, reports, strict=True):
        each["proof"]["holds"] = report.proof.holds
    return json.dumps({"runs": runs}, indent=2)


def show(reports: list[Report], console: Console) -> None:
    """Prints the reports as tables."""
    for report in reports:
        console.print(_calls(report))
        console.print(str(report.circumstances), markup=False, highlight=False)
        if report.rate is not None:
            asked, achieved = report.rate["asked"], report.rate["achieved"]
            held = "[green]held[/]" if report.rate["held"] else "[red]not held[/]"
            console.print(f"Rate: {asked:,.0f}/s asked, {achieved:,.0f}/s sent: {held}; latencies count from when a call should have begun")
        for limit in report.limits:
            console.print(f"Limit: {limit.name}: {limit.per_second:,.0f}/s ({limit.about})")
        for name, ratio in ratios(report).items():
            console.print(f"Ratio: {name}: {ratio:.2f}")
        if report.fan_out is not None:
            fan = report.fan_out
            console.print(
                f"Watches: {fan['deliveries']:,} changes to {fan['watchers']:,} watchers, {fan['per_second']:,.0f}/s;"
                f" from the request to the watcher p50 {fan['p50_ms']:.1f} ms, p99 {fan['p99_ms']:.1f} ms"
            )
        if report.loading_seconds is not None:
            console.print(f"Cold start: the first of {report.scenario.topics:,} topics was answered after {report.loading_seconds:.1f} s")
        _show_proof(report, console)


def _calls(report: Report) -> Table:
    table = Table(title=f"{report.target}: {report.scenario.name} ({report.scenario.about})")
    for column in ("phase", "calls", "number", "without success", "calls/s", "p50 ms", "p95 ms", "p99 ms"):
        table.add_column(column, justify="left" if column in ("phase", "calls") else "right")
    for each in report.totals:
        table.add_row(
            "limit" if each["kind"] == "echo" else each["phase"],
            each["kind"],
            f"{each['calls']:,}",
            f"{each['failed']:,}",
            f"{each['per_second']:,.0f}",
            f"{each['p50_ms']:.2f}",
            f"{each['p95_ms']:.2f}",
            f"{each['p99_ms']:.2f}",
        )
    return table


def _show_proof(report: Report, console: Console) -> None:
    proof = report.proof
    console.print(
        f"Judged: {proof.calls:,} calls and {proof.deliveries:,} deliveries on {proof.keys:,} documents, {len(proof.verdicts)} promises"
    )
    for verdict in proof.verdicts:
        if verdict.broken:
            console.print(f"[red]broken {verdict.broken:,} times[/]: {verdict.promise}: {verdict.about}")
            for line in verdict.examples[0].splitlines():
                console.print(f"    {line}", markup=False, highlight=False, no_wrap=True, overflow="ellipsis")
    if proof.holds:
        console.print("[green]every promise holds[/]")
    elif not proof.calls or not proof.keys:
        console.print("[red]nothing was judged[/]")
    else:
        console.print("Further examples, with everything that was recorded, are in --json FILE and --html FILE.")
