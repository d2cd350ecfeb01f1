"""The state of a figure: a target counts as reached only if the figure was measured and reaches it."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.blocks import DOCUMENT
from bench.figures.catalog import GROUPS, chosen
from bench.figures.figure import NOTHING, Figure, Measured, Result, State, Want, all_reached, results

SPEED = Figure("speed", "updates", "an echo", "/s", Want(at_least=0.5))
SECONDS = Figure("seconds", "a start", "the rows", "s", Want(at_most=2.0, of_limit=False))


def state(figure: Figure, measured: Measured) -> State:
    (made,) = results([figure], {figure.name: measured})
    return made.state


@pytest.mark.parametrize(
    ("figure", "measured", "expected"),
    [
        (SPEED, Measured([5, 5, 5], [10, 10, 10]), State.REACHED),
        (SPEED, Measured([4, 4, 9], [10, 10, 10]), State.MISSED),
        (SPEED, Measured([4, 9, 9], [10, 10, 10]), State.REACHED),
        (SPEED, Measured([5]), State.UNMEASURED),
        (SPEED, Measured([50], missing="etcd is not installed"), State.UNMEASURED),
        (SPEED, Measured([50], [1], missing="it took too long"), State.UNMEASURED),
        (SPEED, Measured(), State.UNMEASURED),
        (SECONDS, Measured([2.0], [0.1]), State.REACHED),
        (SECONDS, Measured([1.0, 2.1, 9.0], [0.1, 0.1, 0.1]), State.MISSED),
        (SECONDS, Measured([1.0]), State.REACHED),
        (SPEED._replace(want=NOTHING), Measured([1.0]), State.TOLD),
        (SPEED._replace(want=NOTHING), Measured(), State.UNMEASURED),
    ],
)
def test_a_figure_is_reached_only_if_it_was_measured_and_reaches_its_target(figure: Figure, measured: Measured, expected: State) -> None:
    assert state(figure, measured) is expected


def test_a_figure_without_a_result_is_unmeasured_and_not_reached() -> None:
    (made,) = results([SPEED], {})
    assert made.state is State.UNMEASURED and made.measured.missing
    assert not all_reached([made]) and not all_reached([])


def test_a_missed_figure_is_spared_if_its_alternative_was_reached_and_missed_otherwise() -> None:
    pair = [SPEED._replace(or_else="seconds"), SECONDS._replace(or_else="speed")]
    slow, quick = Measured([1], [10]), Measured([9], [10])
    late, soon = Measured([9.0]), Measured([1.0])

    def states(speed: Measured, seconds: Measured) -> list[State]:
        return [each.state for each in results(pair, {"speed": speed, "seconds": seconds})]

    assert states(slow, soon) == [State.SPARED, State.REACHED]
    assert states(quick, late) == [State.REACHED, State.SPARED]
    assert states(slow, late) == [State.MISSED, State.MISSED]
    assert states(slow, Measured(missing="why")) == [State.MISSED, State.UNMEASURED]
    assert not all_reached(results(pair, {"speed": quick}))  # an unmeasured figure is not spared


@given(
    st.lists(st.tuples(st.floats(0.1, 1e6), st.floats(0.1, 1e6)), min_size=1, max_size=9),
    st.floats(0.01, 100),
    st.booleans(),
    st.booleans(),
)
def test_the_reach_is_at_least_one_exactly_if_a_figure_is_reached(
    pairs: list[tuple[float, float]], bound: float, at_least: bool, of_limit: bool
) -> None:
    want = Want(bound if at_least else None, None if at_least else bound, of_limit)
    measured = Measured([ours for ours, _ in pairs], [limit for _, limit in pairs])
    (made,) = results([SPEED._replace(want=want)], {"speed": measured})
    assert made.reach is not None
    assert (made.state is State.REACHED) == (made.reach >= 1) or math.isclose(made.reach, 1)


def test_a_ratio_is_the_median_of_the_ratios_of_the_rounds() -> None:
    made = Result(SPEED, Measured([1, 100, 30], [10, 100, 100]), State.REACHED)
    assert made.ratios == [0.1, 1.0, 0.3]
    assert (made.ours, made.limit) == (30, 100)
    assert made.reach == pytest.approx(0.3 / 0.5)


def test_a_limit_that_was_measured_in_some_rounds_only_is_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        results([SPEED], {"speed": Measured([1, 2], [1])})


def test_the_catalog_has_each_figure_once_and_the_alternatives_of_figures() -> None:
    figures = [figure for group in GROUPS for figure in group.figures]
    names = [figure.name for figure in figures]
    assert len(set(names)) == len(names) > 15
    assert {figure.or_else for figure in figures} - set(names) == {""}
    assert all(figure.beside or not figure.want.of_limit or figure.want == NOTHING for figure in figures)
    assert not any(group.large for group in chosen([], large=False)) and any(group.large for group in chosen([], large=True))
    assert [group.name for group in chosen(["start-large"], large=False)] == ["start-large"]
    with pytest.raises(KeyError):
        chosen(["nothing"], large=False)


def test_the_page_names_the_target_of_every_figure() -> None:
    section = DOCUMENT.read_text().partition("\n## Where it stands\n")[2].partition("<!-- ")[0]
    text = section.replace("twice", "2").replace("at least as many", "1")
    bounds = {figure.want.bound for group in GROUPS for figure in group.figures} - {None}
    assert [bound for bound in bounds if not re.search(rf"(?<![\d.,]){bound:,g}(?![\d.,]\d)", text)] == []
