"""The report as one self-contained HTML page."""

from __future__ import annotations

from collections import defaultdict
from html import escape

from topicpolicies_spark.plots import Bar, Line, bars, lines

from .figures import QUANTILES
from .run import Report
from .summary import ratios

_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 1rem;color:#222;background:#fff}
h1{font-size:1.6rem}h2{margin-top:2.5rem;border-bottom:1px solid #ccc}h3{margin-bottom:.3rem}
table{border-collapse:collapse}th,td{padding:.2rem .8rem;text-align:right;border-bottom:1px solid #e4e4e4}
th:first-child,td:first-child{text-align:left}svg{width:100%;height:auto;font-size:12px}.grid{stroke:#e2e2e2}
.legend span{margin-right:1.2rem}.legend i{display:inline-block;width:.8rem;height:.8rem;margin-right:.3rem}
.good{color:#1d7a3e}.bad{color:#b3261e}pre{white-space:pre-wrap;background:#f6f6f6;padding:.6rem;font-size:12px}
"""
_TAIL = (0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999)


def page(reports: list[Report]) -> str:
    """Returns one page for all runs."""
    body = "".join(map(_run, reports))
    comparison = _comparison(reports)
    title = f"Load: {', '.join(dict.fromkeys(report.scenario.name for report in reports))}"
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title><style>{_STYLE}</style></head>'
        f"<body><h1>{escape(title)}</h1>{comparison}{body}</body></html>\n"
    )


def _comparison(reports: list[Report]) -> str:
    found = []
    for report in reports:
        changes = [each for each in report.totals if each["kind"] in ("update", "rest") and each["phase"] == "steady"]
        limits = [limit for limit in report.limits if limit.name != "broadcast"]
        found += [Bar(f"{report.target}: updates", each["per_second"], f"{each['per_second']:,.0f}/s") for each in changes]
        found += [Bar(f"{report.target}: {each.name}", each.per_second, f"{each.per_second:,.0f}/s, {each.about}") for each in limits]
    return f"<h2>Beside the limits of the same run</h2>{bars(found, 'calls per second beside their limits')}" if found else ""


def _run(report: Report) -> str:
    scenario = report.scenario
    about = (
        f"{scenario.about[:1].upper()}{scenario.about[1:]}; {scenario.topics:,} topics, {report.workers} workers with {scenario.clients}"
        f" requests in flight each. Took {report.took_seconds:.0f} s."
    )
    parts = [
        f"<h2>{escape(report.target)}: {escape(scenario.name)}</h2>",
        f"<p>{escape(about)}</p><p>{escape(str(report.circumstances))}</p>",
        _proof(report),
        _table(report),
        "<h3>Latency distribution</h3>",
        _latencies(report),
        "<h3>Throughput over time</h3>",
        lines(_over_time(report, "calls"), "seconds", "calls per second"),
        "<h3>Latency over time</h3>",
        lines(_over_time(report, "p50_ms") + _over_time(report, "p99_ms", dashed=True), "seconds", "ms", log_y=True),
    ]
    if report.fan_out is not None:
        fan = report.fan_out
        curve = Line("from the request to the watcher", _tail(fan["quantiles_ms"]))
        parts += [
            "<h3>Fan-out delay</h3>",
            f"<p>{fan['deliveries']:,} changes to {fan['watchers']:,} watchers, {fan['per_second']:,.0f} a second.</p>",
            lines([curve], "of all deliveries", "ms", log_y=True, x_labels=_quantile),
        ]
        broadcast = [limit for limit in report.limits if limit.name == "broadcast"]
        values = [Bar("deliveries", fan["per_second"], f"{fan['per_second']:,.0f}/s")]
        values += [Bar("limit, broadcast", limit.per_second, f"{limit.per_second:,.0f}/s") for limit in broadcast]
        parts.append(bars(values, "deliveries per second beside the limit"))
    return "".join(parts)


def _proof(report: Report) -> str:
    proof = report.proof
    if proof is None:
        return "<p>Nothing can be proven of this target: its answers name no versions.</p>"
    judged = f"{proof.calls:,} calls and {proof.deliveries:,} deliveries on {proof.keys:,} documents"
    head = (
        f'<p class="good">Every promise holds ({judged}).</p>' if proof.holds else f'<p class="bad">Not every promise holds ({judged}).</p>'
    )
    listed = "".join(
        f"<tr><td>{escape(each.about)}</td>"
        + (f'<td class="bad">broken {each.broken:,} times</td></tr>' if each.broken else '<td class="good">holds</td></tr>')
        for each in proof.verdicts
    )
    examples = "".join(f"<pre>{escape(example)}</pre>" for each in proof.verdicts for example in each.examples)
    return f"{head}<details{'' if proof.holds else ' open'}><summary>The promises</summary><table>{listed}</table>{examples}</details>"


def _table(report: Report) -> str:
    header = "".join(
        f"<th>{name}</th>" for name in ("calls", "phase", "number", "without success", "calls/s", "p50 ms", "p95 ms", "p99 ms")
    )
    rows = "".join(
        f"<tr><td>{escape(each['kind'])}</td><td>{escape(each['phase'])}</td><td>{each['calls']:,}</td><td>{each['failed']:,}</td>"
        f"<td>{each['per_second']:,.0f}</td><td>{each['p50_ms']:.2f}</td><td>{each['p95_ms']:.2f}</td><td>{each['p99_ms']:.2f}</td></tr>"
        for each in report.totals
    )
    shares = "".join(f"<li>{escape(name)}: {value:.2f}</li>" for name, value in ratios(report).items())
    cold = f"<p>The first read was answered after {report.loading_seconds:.1f} s.</p>" if report.loading_seconds is not None else ""
    return f"<table><tr>{header}</tr>{rows}</table><ul>{shares}</ul>{cold}"


def _latencies(report: Report) -> str:
    curves = [
        Line(f"{each['kind']}, {each['phase']}", _tail(each["quantiles_ms"]), dashed=each["kind"] == "echo")
        for each in report.totals
        if each["phase"] in ("steady", "cold")
    ]
    return lines(curves, "of all calls", "ms", log_y=True, x_labels=_quantile)


def _tail(quantiles: list[float]) -> list[tuple[float, float]]:
    """Returns points for a curve over the usual quantiles, at equal distances."""
    return [(float(number), quantiles[QUANTILES.index(each)]) for number, each in enumerate(_TAIL)]


def _quantile(number: float) -> str:
    return f"{_TAIL[int(number)] * 100:g} %"


def _over_time(report: Report, figure: str, *, dashed: bool = False) -> list[Line]:
    curves: defaultdict[str, dict[float, float]] = defaultdict(dict)
    for each in report.seconds:
        at, value = float(each["second"]), float(each[figure])  # type: ignore[literal-required]
        known = curves[each["kind"]].get(at, 0.0)
        curves[each["kind"]][at] = known + value if figure == "calls" else max(known, value)
    suffix = "" if figure == "calls" else f", {figure.removesuffix('_ms')}"
    return [Line(kind + suffix, sorted(points.items()), dashed) for kind, points in curves.items()]
