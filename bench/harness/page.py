"""The report as one self-contained HTML page. A kind of call has the same colour everywhere in it."""

from __future__ import annotations

from collections import defaultdict

from topicpolicies_spark.page import Html, alarm, listed, marked, page, paragraph, section, table
from topicpolicies_spark.plots import PALETTE, Bar, Line, bars, lines

from .figures import CALLS, QUANTILES
from .proof import Proof
from .run import Report
from .summary import ratios

_COLOURS = dict(zip((*CALLS, "broadcast", "delivery"), PALETTE, strict=False))
"""The colours of the kinds of calls, and of what else is measured."""
_TAIL = (0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999)


def as_page(reports: list[Report]) -> str:
    """Returns one page for all runs."""
    title = f"Load: {', '.join(dict.fromkeys(report.scenario.name for report in reports))}"
    return page(title, section("Beside the limits of the same run", _comparison(reports)), *map(_run, reports))


def _comparison(reports: list[Report]) -> Html:
    found = []
    for report in reports:
        changes = [each for each in report.totals if each["kind"] == "update" and each["phase"] == "steady"]
        found += [_bar(f"{report.target}: {each['kind']}", each["kind"], each["per_second"]) for each in changes]
        found += [
            _bar(f"{report.target}: limit, {limit.name}", limit.name, limit.per_second, limit.about)
            for limit in report.limits
            if limit.name != "broadcast"
        ]
    return bars("Calls a second", found)


def _bar(name: str, kind: str, per_second: float, about: str = "") -> Bar:
    return Bar(name, [(per_second, _COLOURS[kind])], f"{per_second:,.0f}{about and f' ({about})'}")


def _run(report: Report) -> Html:
    scenario, target = report.scenario, report.target
    parts = [
        paragraph(
            f"{scenario.about[:1].upper()}{scenario.about[1:]}; {scenario.topics:,} topics, {report.workers} workers"
            f" with {scenario.clients} requests in flight each. Took {report.took_seconds:.0f} s."
        ),
        paragraph(str(report.circumstances)),
        _verdict(report.proof),
        _totals(report),
        table(("share", "is"), list(ratios(report).items())),
    ]
    if report.rate is not None:
        asked, achieved, held = report.rate["asked"], report.rate["achieved"], report.rate["held"]
        text = f"{asked:,.0f} operations a second were asked for, {achieved:,.0f} sent. Latencies count from when a call should have begun."
        parts.append(paragraph(text if held else alarm(text)))
    if report.loading_seconds is not None:
        parts.append(paragraph(f"The first read was answered after {report.loading_seconds:.1f} s."))
    measured = [each for each in report.totals if each["phase"] in ("steady", "cold")]
    tails = [Line(f"{each['kind']}, {each['phase']}", _tail(each["quantiles_ms"]), _COLOURS[each["kind"]]) for each in measured]
    latencies = [*_over_time(report, "p50_ms"), *_over_time(report, "p99_ms", dashed=True)]
    parts += [
        lines(f"Latencies of calls, {target}", tails, "share of calls that are faster", "ms", "logit", "log"),
        lines(f"Calls a second over time, {target}", _over_time(report, "calls"), "seconds", "calls"),
        lines(f"Latencies over time, {target}", latencies, "seconds", "ms", y_scale="log"),
        *_fan_out(report),
        _promises(report.proof),
    ]
    return section(f"{target}: {scenario.name}", *parts)


def _fan_out(report: Report) -> list[Html]:
    fan = report.fan_out
    if fan is None:
        return []
    delays = [Line("delivery", _tail(fan["quantiles_ms"]), _COLOURS["delivery"])]
    values = [_bar("delivery", "delivery", fan["per_second"])]
    values += [_bar("limit, broadcast", "broadcast", each.per_second, each.about) for each in report.limits if each.name == "broadcast"]
    return [
        paragraph(f"{fan['deliveries']:,} changes to {fan['watchers']:,} watchers, {fan['per_second']:,.0f} a second."),
        lines(f"From the request to the watcher, {report.target}", delays, "share of deliveries that are faster", "ms", "logit", "log"),
        bars(f"Deliveries a second, {report.target}", values),
    ]


def _verdict(proof: Proof) -> Html:
    judged = f"({proof.calls:,} calls and {proof.deliveries:,} deliveries on {proof.keys:,} documents)"
    if not proof.calls or not proof.keys:
        return paragraph(alarm("Nothing was judged."))
    return paragraph(f"Every promise holds {judged}." if proof.holds else alarm(f"Not every promise holds {judged}."))


def _promises(proof: Proof) -> Html:
    rows = [
        (each.about, listed([alarm(f"broken {each.broken:,} times"), *each.examples]) if each.broken else "holds")
        for each in proof.verdicts
    ]
    return table(("promise", "result"), rows)


def _totals(report: Report) -> Html:
    columns = ("calls", "phase", "number", "without success", "calls/s", "p50 ms", "p95 ms", "p99 ms")
    names = ("phase", "calls", "failed", "per_second", "p50_ms", "p95_ms", "p99_ms")
    rows: list[dict[str, object]] = [{**each, "per_second": round(each["per_second"])} for each in report.totals]
    return table(columns, [(marked(str(row["kind"]), _COLOURS[str(row["kind"])]), *(row[name] for name in names)) for row in rows])


def _tail(quantiles: list[float]) -> list[tuple[float, float]]:
    return [(each, quantiles[QUANTILES.index(each)]) for each in _TAIL]


def _over_time(report: Report, figure: str, *, dashed: bool = False) -> list[Line]:
    curves: defaultdict[str, dict[float, float]] = defaultdict(dict)
    for each in report.seconds:
        at, value = float(each["second"]), float(each[figure])  # type: ignore[literal-required]
        known = curves[each["kind"]].get(at, 0.0)
        curves[each["kind"]][at] = known + value if figure == "calls" else max(known, value)
    suffix = "" if figure == "calls" else f", {figure.removesuffix('_ms')}"
    return [Line(kind + suffix, sorted(points.items()), _COLOURS[kind], dashed) for kind, points in curves.items()]
