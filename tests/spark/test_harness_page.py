"""The page of the load harness: what a run measured, each kind of call in one colour."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from bench.harness.figures import QUANTILES, FanOut, Rate, Second, Total
from bench.harness.page import as_page
from bench.harness.proof import Proof, Verdict
from bench.harness.run import Report
from bench.harness.scenarios import SCENARIOS

TAIL = {share: 0.1 * (number + 1) for number, share in enumerate(QUANTILES)}


def _total(kind: str, calls: int) -> Total:
    return Total(kind=kind, phase="steady", calls=calls, failed=3, per_second=calls / 2, quantiles_ms=TAIL)


REPORT = Report(
    target="sqlite",
    scenario=SCENARIOS["mixed"],
    workers=2,
    totals=[_total("update", 2_222), _total("read", 1_111)],
    seconds=[
        Second(second=second, phase="steady", kind=kind, calls=500 + second, quantiles_ms=TAIL)
        for second in range(3)
        for kind in ("update", "read")
    ],
    rate=None,
    fan_out=FanOut(watchers=8, deliveries=9_876, per_second=4_938.0, quantiles_ms=TAIL),
    proof=Proof([Verdict("links", "Versions are linked.", 0, [])], 3_333, 9_876, 64),
    took_seconds=12.0,
    circumstances={"date": "2030-01-31 12:00:00+00:00", "seed": 7, "version": "0.1.0", "commit": "abc", "machine": "2 cores"},
)


def _texts(page: str) -> str:
    return re.sub(r"<[^>]*>", "|", page)


def test_the_page_has_what_a_run_measured_and_under_which_circumstances() -> None:
    text = _texts(as_page([REPORT]))
    assert "Judged: 3,333 calls and 9,876 deliveries on 64 documents, 1 promises" in text and "|every promise holds|" in text
    assert "date 2030-01-31 12:00:00+00:00, seed 7, version 0.1.0, commit abc, machine 2 cores" in text
    assert "2,222||3||1,111||0.60||0.90||1.10" in text
    assert "Watches: 9,876 changes to 8 watchers, 4,938/s; from the request to the watcher p50 0.6 ms, p99 1.1 ms" in text
    assert "|0.999|" in text


def test_the_page_needs_no_other_file_and_its_ids_are_unique_with_several_runs() -> None:
    page = as_page([REPORT, replace(REPORT, target="<pulsar>")])
    assert "src=" not in page and " href=" not in page and "<script" not in page and "<pulsar>" not in page
    ids = re.findall(r' id="([^"]*)"', page)
    assert len(ids) == len(set(ids)) > 0


def test_a_kind_of_call_has_one_colour_everywhere() -> None:
    page = as_page([REPORT])
    colours = {name: colour for colour, name in re.findall(r'<i style="background:(#\w{6})"></i>(\w+)', page)}
    assert colours.keys() == {"update", "read"} and len(set(colours.values())) == 2
    *plots, _ = page.split("<svg")[1:]
    for plot in plots:
        named = re.findall(r"stroke: (#\w{6})[^>]*/>(?:\s|<(?!text)[^>]*>)*<text[^>]*>(update|read)\b", plot)
        assert named and all(colours[kind] == colour for colour, kind in named)


@pytest.mark.parametrize("holds", [True, False])
def test_a_breach_is_shown_with_its_example_as_text(holds: bool) -> None:
    broken = Verdict("links", "Versions are linked.", 0 if holds else 2, [] if holds else ["first <b>second</b>"])
    page = as_page([replace(REPORT, proof=Proof([broken], 10, 10, 1))])
    for text in ("<strong>broken 2 times", "<strong>not every promise holds", "first &lt;b&gt;second"):
        assert (text in page) is not holds


@pytest.mark.parametrize("held", [True, False])
def test_a_rate_that_was_not_held_is_an_alarm(held: bool) -> None:
    page = as_page([replace(REPORT, rate=Rate(asked=1_000, achieved=900, held=held))])
    assert ("<strong>Rate: 1,000/s asked, 900/s sent: not held" in page) is not held and "900/s sent" in page


def test_a_run_without_calls_has_a_page_too() -> None:
    page = as_page([replace(REPORT, totals=[], seconds=[], fan_out=None)])
    assert "every promise holds" in page and "<svg" not in page
