"""Plots: the same text for the same figures, whatever is drawn."""

from __future__ import annotations

import re

import matplotlib as mpl
import pytest

from topicpolicies_spark.plots import PALETTE, Bar, bars

BLUE, ORANGE = PALETTE[:2]


def _texts(svg: str) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


def test_a_plot_is_the_same_each_time_and_changes_no_settings_of_matplotlib() -> None:
    settings = dict(mpl.rcParams)
    first, second = (bars("rates", [Bar("one", [(1, BLUE), (2, ORANGE)], "3")], [("a", BLUE)]) for _ in range(2))
    assert first == second
    assert dict(mpl.rcParams) == settings
    assert "Matplotlib" not in first and "date" not in first


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("_under", "_under"),
        ("$x^2$ & $", "$x^2$ &amp; $"),
        ("<script>", "&lt;script&gt;"),
        ("監控", "監控"),
        ("a\nb\x1b\u202e", r"a\nb\x1b\u202e"),
        ("system:serviceaccount:" + 90 * "x" + ":controller-7", "system:serviceacc\N{HORIZONTAL ELLIPSIS}xxxx:controller-7"),
    ],
)
def test_a_name_is_text_and_as_long_as_there_is_room(name: str, text: str) -> None:
    drawn = bars("rates", [Bar(name, [(1, BLUE)], "3")], [(name, BLUE)])
    assert _texts(drawn) == [text, "3", "rates", text]


def test_nothing_is_drawn_of_nothing() -> None:
    assert bars("rates", []) == ""


def test_the_parts_of_a_bar_and_bars_beyond_twice_their_target_end_where_they_should() -> None:
    drawn = bars("reached", [Bar("far", [(7, BLUE)], "7"), Bar("half", [(0.5, ORANGE)], "0.5")], target="wanted")
    ends = [max(map(float, re.findall(r"L (\S+)", path))) for path in re.findall(r'<path d="([^"]*)" clip-path[^>]*fill: #', drawn)]
    begins = [float(path) for path in re.findall(r'<path d="M (\S+)[^"]*" clip-path[^>]*fill: #', drawn)]
    (far, half), (left, _) = ends, begins
    assert far - left == pytest.approx(4 * (half - left))
    assert "2 or more" in _texts(drawn) and "wanted" in _texts(drawn)
