"""The report as one self-contained HTML page. A kind of call has the same colour everywhere in it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from topicpolicies_spark.page import Html, details, example, marked, page, paragraph, plot, section, table, verdict
from topicpolicies_spark.plots import PALETTE, Bar, Line, bars, lines

from .figures import CALLS, QUANTILES
from .run import Report
from .summary import ratios

_COLOURS = dict(zip((*CALLS, "log", "broadcast", "delivery"), PALETTE, strict=False))
"""The colours of the kinds of calls, and of what else is measured."""
_TAIL = (0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999)
_TICKS = {float(number): f"{each * 100:g} %" for number, each in enumerate(_TAIL)}


def as_page(reports: list[Report]) -> str:
    """Returns one page for all runs."""
    title = f"Load: {', '.join(dict.fromkeys(report.scenario.name for report in reports))}"
    return page(title, section("Beside the limits of the same run", plot(_comparison(reports))), *map(_run, reports))


def _comparison(reports: list[Report]) -> str:
    found = []
    for report in reports:
        changes = [each for each in report.totals if each["kind"] in ("update", "rest") and each["phase"] == "steady"]
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
        *_proof(report),
        _totals(report),
        table(("share", "is"), ratios(report).items()),
    ]
    if report.loading_seconds is not None:
        parts.append(paragraph(f"The first read was answered after {report.loading_seconds:.1f} s."))
    measured = [each for each in report.totals if each["phase"] in ("steady", "cold")]
    tails = [Line(f"{each['kind']}, {each['phase']}", _tail(each["quantiles_ms"]), _COLOURS[each["kind"]]) for each in measured]
    latencies = [*_over_time(report, "p50_ms"), *_over_time(report, "p99_ms", dashed=True)]
    parts += [
        plot(lines(f"Latencies of calls, {target}", tails, "of all calls are faster", "ms", log_y=True, x_ticks=_TICKS)),
        plot(lines(f"Calls a second over time, {target}", _over_time(report, "calls"), "seconds", "calls")),
        plot(lines(f"Latencies over time, {target}", latencies, "seconds", "ms", log_y=True)),
        *_fan_out(report),
    ]
    return section(f"{target}: {scenario.name}", *parts)


def _fan_out(report: Report) -> Iterable[Html]:
    fan = report.fan_out
    if fan is None:
        return
    yield paragraph(f"{fan['deliveries']:,} changes to {fan['watchers']:,} watchers, {fan['per_second']:,.0f} a second.")
    delays = [Line("delivery", _tail(fan["quantiles_ms"]), _COLOURS["delivery"])]
    title = f"From the request to the watcher, {report.target}"
    yield plot(lines(title, delays, "of all deliveries are faster", "ms", log_y=True, x_ticks=_TICKS))
    limits = [limit for limit in report.limits if limit.name == "broadcast"]
    values = [_bar("delivery", "delivery", fan["per_second"])]
    values += [_bar(f"limit, {limit.name}", limit.name, limit.per_second, limit.about) for limit in limits]
    yield plot(bars(f"Deliveries a second, {report.target}", values))


def _proof(report: Report) -> list[Html]:
    proof = report.proof
    if proof is None:
        return [paragraph("Nothing can be proven of this target: its answers name no versions.")]
    judged = f"{proof.calls:,} calls and {proof.deliveries:,} deliveries on {proof.keys:,} documents"
    head = f"Every promise holds ({judged})." if proof.holds else f"Not every promise holds ({judged})."
    verdicts = [
        (each.about, verdict(f"broken {each.broken:,} times" if each.broken else "holds", good=not each.broken)) for each in proof.verdicts
    ]
    examples = [example(text) for each in proof.verdicts for text in each.examples]
    listed = details("The promises", table(("promise", "result"), verdicts), *examples, shown=not proof.holds)
    return [paragraph(verdict(head, good=proof.holds)), listed]


def _totals(report: Report) -> Html:
    columns = ("calls", "phase", "number", "without success", "calls/s", "p50 ms", "p95 ms", "p99 ms")
    names = ("phase", "calls", "failed", "per_second", "p50_ms", "p95_ms", "p99_ms")
    rows: list[dict[str, object]] = [{**each, "per_second": round(each["per_second"])} for each in report.totals]
    return table(columns, [(marked(str(row["kind"]), _COLOURS[str(row["kind"])]), *(row[name] for name in names)) for row in rows])


def _tail(quantiles: list[float]) -> list[tuple[float, float]]:
    """Returns points for a curve over the usual quantiles, at equal distances."""
    return [(float(number), quantiles[QUANTILES.index(each)]) for number, each in enumerate(_TAIL)]


def _over_time(report: Report, figure: str, *, dashed: bool = False) -> list[Line]:
    curves: defaultdict[str, dict[float, float]] = defaultdict(dict)
    for each in report.seconds:
        at, value = float(each["second"]), float(each[figure])  # type: ignore[literal-required]
        known = curves[each["kind"]].get(at, 0.0)
        curves[each["kind"]][at] = known + value if figure == "calls" else max(known, value)
    suffix = "" if figure == "calls" else f", {figure.removesuffix('_ms')}"
    return [Line(kind + suffix, sorted(points.items()), _COLOURS[kind], dashed) for kind, points in curves.items()]
