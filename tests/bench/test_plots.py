"""The plots of the documentation are drawn from its figures, and are legible."""

from __future__ import annotations

import io
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.table import Table

from bench.blocks import DOCUMENT, bodies, commands_of
from bench.figures.catalog import GROUPS
from bench.figures.conditions import here
from bench.figures.figure import Measured, results
from bench.figures.table import WIDTH as LINE
from bench.figures.table import show
from bench.plots.drawn import PLOTS, drawings, linked, stale, write
from bench.plots.svg import WIDTH, Bar, bars, curves
from bench.plots.tables import number, tables
from bench.record import Printed, replaced

SVG = "{http://www.w3.org/2000/svg}"
FIGURES = "python3 dev.py bench figures"


def parsed(svg: str) -> ET.Element:
    return ET.fromstring(svg)  # noqa: S314 - it was drawn here


def texts(svg: str) -> list[str]:
    return [each.text or "" for each in parsed(svg).iter(f"{SVG}text")]


def within(svg: str) -> None:
    """Asserts that everything is inside the picture."""
    root = parsed(svg)
    height = float(root.attrib["height"])
    for element in root.iter():
        for name, most in (
            ("x", WIDTH),
            ("x1", WIDTH),
            ("x2", WIDTH),
            ("cx", WIDTH),
            ("y", height),
            ("y1", height),
            ("y2", height),
            ("cy", height),
        ):
            if name in element.attrib:
                assert -0.5 <= float(element.attrib[name]) <= most + 0.5, (element.tag, element.attrib)
    for x, y in re.findall(r"[ML]([\d.-]+) ([\d.-]+)", svg):
        assert -0.5 <= float(x) <= WIDTH + 0.5 and -0.5 <= float(y) <= height + 0.5


def test_the_plots_of_the_documentation_are_drawn_from_its_present_figures() -> None:
    assert stale(DOCUMENT) == []


def test_each_plot_belongs_to_a_command_that_the_page_records() -> None:
    assert {plot.command for plot in PLOTS} <= set(commands_of(DOCUMENT.read_text()))
    assert len({plot.file for plot in PLOTS}) == len(PLOTS)


@pytest.mark.parametrize("file", sorted(drawings(DOCUMENT.read_text())))
def test_the_plots_of_the_documentation_have_a_title_and_colors_for_light_and_dark_pages(file: str) -> None:
    svg = drawings(DOCUMENT.read_text())[file]
    within(svg)
    assert "prefers-color-scheme:dark" in svg and 'class="title"' in svg


def page(*commands: str) -> str:
    return "".join(f"Text.\n\n<!-- measured: {command} -->\n<!-- end -->\n" for command in commands)


def measured_page() -> str:
    figures = [figure for group in GROUPS for figure in group.figures]
    found = {figure.name: Measured([90.0 + at, 100.0 + at], [200.0, 201.0] if figure.beside else []) for at, figure in enumerate(figures)}
    found["batches"] = Measured([9_000.0], missing="etcd is not installed")
    printed = io.StringIO()
    show(results(figures, found), here(), Console(file=printed, width=LINE))
    return replaced(page(FIGURES), FIGURES, Printed(printed.getvalue(), 1, "today"))


def test_a_block_that_was_not_measured_yet_has_no_plot() -> None:
    assert drawings(page(FIGURES)) == {} and linked(page(FIGURES)) == page(FIGURES)


def test_every_figure_with_a_target_has_a_bar_beside_the_target() -> None:
    wanted = [figure for group in GROUPS for figure in group.figures if figure.want.bound is not None]
    svg = drawings(measured_page())["figures.svg"]
    within(svg)
    shown = texts(svg)
    assert [figure.what for figure in wanted if figure.what not in shown] == []
    assert shown.count("not measured") == 1 and "what is wanted" in shown
    assert svg.count('class="bar ') == len(wanted) - 1
    (table,) = tables(bodies(measured_page())[FIGURES])
    assert svg.count('class="bar full c2"') == table.column("reached").count("reached") > 0, (
        "the states are those of the page, not computed from rounded figures"
    )


def test_the_lengths_of_bars_are_proportional_to_the_reach_up_to_a_limit() -> None:
    lengths = re.findall(
        r'height="14" width="([\d.]+)"|width="([\d.]+)" height="14"', bars("t", [Bar("a", 1, ""), Bar("b", 0.5, ""), Bar("c", 9, "")], "")
    )
    a, b, c = (float(one or other) for one, other in lengths)
    assert b == pytest.approx(a / 2, abs=0.2) and c == pytest.approx(2 * a, abs=0.2)


def test_a_page_that_is_recorded_again_has_its_plots_drawn_again_and_each_link_once(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text(measured_page())
    write(path)
    assert stale(path) == [] and (tmp_path / "plots" / "figures.svg").exists()
    assert path.read_text().count("](plots/figures.svg)") == 1
    path.write_text(path.read_text().replace(">= 0.7", ">= 0.1"))
    assert stale(path) == ["figures.svg"]
    write(path)
    assert stale(path) == [] and path.read_text().count("](plots/figures.svg)") == 1
    path.write_text(page(FIGURES))
    assert stale(path) == ["figures.svg"]
    write(path)
    assert stale(path) == [] and not (tmp_path / "plots" / "figures.svg").exists()


def test_a_plot_that_the_page_does_not_show_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text(measured_page())
    write(path)
    path.write_text(re.sub(r"!\[.*\n", "", path.read_text()))
    assert stale(path) == ["page.md"]


@given(st.lists(st.lists(st.text("ab 1,.%-", max_size=8), min_size=3, max_size=3), min_size=1, max_size=5))
def test_a_printed_table_is_parsed_back_to_its_rows(rows: list[list[str]]) -> None:
    table = Table()
    for column in ("one", "two words", "three"):
        table.add_column(column, no_wrap=True)
    for row in rows:
        table.add_row(*row)
    printed = io.StringIO()
    Console(file=printed, width=120).print(table, markup=False)
    (read,) = tables(printed.getvalue())
    assert read.columns == ["one", "two words", "three"]
    assert read.rows == [[cell.strip() for cell in row] for row in rows]


@pytest.mark.parametrize(("cell", "value"), [("1,148", 1148), ("0.79 ±5%", 0.79), (">= 20,000 /s", 20000), ("", None), ("-1.5", -1.5)])
def test_the_number_in_a_cell_is_parsed(cell: str, value: float | None) -> None:
    assert number(cell) == value


POINTS = st.lists(st.tuples(st.floats(1, 1e7), st.floats(1e-3, 1e9)), min_size=1, max_size=8)


@given(st.dictionaries(st.text("abc<&", min_size=1, max_size=5), POINTS, min_size=1, max_size=12))
def test_curves_of_any_values_are_drawn_inside_the_picture(series: dict[str, list[tuple[float, float]]]) -> None:
    svg = curves("<title> & more", "x", "y", series)
    within(svg)
    assert set(series) <= set(texts(svg))


def test_curves_without_points_are_refused() -> None:
    with pytest.raises(ValueError, match="nothing to draw"):
        curves("t", "x", "y", {"a": []})


def test_the_content_of_each_block_of_a_page_is_returned() -> None:
    assert bodies(page(FIGURES, "other")) == {FIGURES: "", "other": ""}
    assert "today" in bodies(measured_page())[FIGURES]
