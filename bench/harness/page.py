"""The report as one self-contained HTML page. A kind of call has the same colour everywhere in it."""

from __future__ import annotations

from collections import defaultdict

from topicpolicies_spark.page import Html, alarm, listed, marked, page, paragraph, section, table
from topicpolicies_spark.plots import PALETTE, Line, lines

from .figures import CALLS, Quantiles
from .proof import Proof
from .run import Report
from .summary import COLUMNS, sentences, totals

_COLOURS = dict(zip((*CALLS, "delivery"), PALETTE, strict=False))
"""The colours of the kinds of calls, and of deliveries."""
_TAIL = (0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999)


def as_page(reports: list[Report]) -> str:
    """Returns one page for all runs."""
    title = f"Load: {', '.join(dict.fromkeys(report.scenario.name for report in reports))}"
    return page(title, *map(_run, reports))


def _run(report: Report) -> Html:
    target = report.target
    said = [paragraph(alarm(text) if alarming else text) for text, alarming in sentences(report)]
    rows = [(phase, marked(str(kind), _COLOURS[str(kind)]), *numbers) for phase, kind, *numbers in totals(report)]
    tails = [Line(each.kind, _tail(each.quantiles_ms), _COLOURS[each.kind]) for each in report.totals if each.phase == "steady"]
    delays = [Line("delivery", _tail(report.fan_out.quantiles_ms), _COLOURS["delivery"])] if report.fan_out is not None else []
    return section(
        f"{target}: {report.scenario.name} ({report.scenario.about})",
        *said,
        table(COLUMNS, rows),
        lines(f"Latencies of calls, {target}", tails, "share of calls that are faster", "ms", "logit", "log"),
        lines(f"Calls a second over time, {target}", _over_time(report), "seconds", "calls"),
        lines(f"Latencies over time, {target}", [*_over_time(report, 0.5), *_over_time(report, 0.99)], "seconds", "ms", y_scale="log"),
        lines(f"From the request to the watcher, {target}", delays, "share of deliveries that are faster", "ms", "logit", "log"),
        _promises(report.proof),
    )


def _promises(proof: Proof) -> Html:
    rows = [
        (each.about, listed([alarm(f"broken {each.broken:,} times"), *each.examples]) if each.broken else "holds")
        for each in proof.verdicts
    ]
    return table(("promise", "result"), rows)


def _tail(quantiles: Quantiles) -> list[tuple[float, float]]:
    return [(share, quantiles[share]) for share in _TAIL]


def _over_time(report: Report, share: float | None = None) -> list[Line]:
    """Returns a curve for each kind of calls: of their number, or of a quantile of their latencies (of several phases the greatest)."""
    curves: defaultdict[str, dict[float, float]] = defaultdict(dict)
    for each in report.seconds:
        curve = curves[each.kind]
        known = curve.get(each.second, 0.0)
        curve[each.second] = known + each.calls if share is None else max(known, each.quantiles_ms[share])
    suffix = "" if share is None else f", p{share * 100:.0f}"
    return [Line(kind + suffix, sorted(points.items()), _COLOURS[kind], dashed=share == 0.99) for kind, points in curves.items()]
