"""The report on the terminal and as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict

from rich.console import Console
from rich.table import Table

from .run import Report

_MOST_EXAMPLE = 300
"""The most characters of an example of a breach on the terminal; the report for programs has all."""


def ratios(report: Report) -> dict[str, float]:
    """Returns the results as shares of the limits of the same run."""
    limits = {limit.name: limit.per_second for limit in report.limits}
    changes = [each for each in report.totals if each["kind"] in ("update", "rest") and each["phase"] in ("steady", "fill")]
    found = {}
    if changes and limits.get("echo"):
        found["updates of the echo"] = changes[-1]["per_second"] / limits["echo"]
    if changes and limits.get("log"):
        found["updates of the log alone"] = changes[-1]["per_second"] / limits["log"]
    if report.fan_out is not None and limits.get("broadcast"):
        found["deliveries of the broadcast"] = report.fan_out["per_second"] / limits["broadcast"]
    return found


def as_json(reports: list[Report]) -> str:
    """Returns the reports as JSON, for programs."""
    return json.dumps({"runs": [{**asdict(report), **_named(report), "ratios": ratios(report)} for report in reports]}, indent=2)


def _named(report: Report) -> dict[str, object]:
    proof = report.proof
    return {
        "circumstances": report.circumstances._asdict(),
        "limits": [limit._asdict() for limit in report.limits],
        "proof": None
        if proof is None
        else {**proof._asdict(), "holds": proof.holds, "verdicts": [each._asdict() for each in proof.verdicts]},
    }


def show(reports: list[Report], console: Console) -> None:
    """Prints the reports as tables."""
    for report in reports:
        console.print(_calls(report))
        console.print(str(report.circumstances), markup=False, highlight=False)
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
    if proof is None:
        console.print("Nothing can be proven of this target: its answers name no versions.")
        return
    console.print(
        f"Judged: {proof.calls:,} calls and {proof.deliveries:,} deliveries on {proof.keys:,} documents, {len(proof.verdicts)} promises"
    )
    for verdict in proof.verdicts:
        if verdict.broken:
            console.print(f"[red]broken {verdict.broken:,} times[/]: {verdict.promise}: {verdict.about}")
            for example in verdict.examples:
                console.print(f"    {example[:_MOST_EXAMPLE]}", markup=False, highlight=False)
    if proof.holds:
        console.print("[green]every promise holds[/]")
    elif not proof.calls or not proof.keys:
        console.print("[red]nothing was judged[/]")
