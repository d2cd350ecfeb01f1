"""A figure: what is measured beside which limit, its target, and whether the target was reached.

Each round measures our figure and its limit, one after the other, which take turns at being first. A figure is the median over the rounds.
A ratio is the median of the ratios of the rounds, so that a machine whose speed drifts favours neither.

| state of a figure | when |
|---|---|
| REACHED | it was measured, and reaches its target |
| MISSED | it was measured, and misses its target |
| SPARED | it was missed, and another figure that may stand in its place was reached |
| UNMEASURED | nothing was measured, or no limit beside it although one is needed; the reason is reported |
| TOLD | it was measured, and has no target |

Only MISSED and UNMEASURED make a run one that missed its targets.
"""

from __future__ import annotations

import enum
import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple


class State(enum.Enum):
    """The result for a figure; the table of the module describes the states."""

    REACHED = "reached"
    MISSED = "missed"
    SPARED = "not needed"
    UNMEASURED = "not measured"
    TOLD = ""


class Want(NamedTuple):
    """The target of a figure; without a bound there is none."""

    at_least: float | None = None
    at_most: float | None = None
    of_limit: bool = True
    """Whether the bound applies to the ratio to the limit, or to our own figure."""

    def holds(self, value: float) -> bool:
        """Returns whether a value is within the bounds."""
        return (self.at_least is None or value >= self.at_least) and (self.at_most is None or value <= self.at_most)

    @property
    def bound(self) -> float | None:
        """The bound that is given."""
        return self.at_most if self.at_least is None else self.at_least


NOTHING = Want()


class Figure(NamedTuple):
    """What is measured, and beside which limit."""

    name: str
    what: str
    beside: str
    """The limit; empty: there is none."""
    unit: str
    want: Want = NOTHING
    or_else: str = ""
    """The name of a figure that may be reached in place of this one."""


class Measured(NamedTuple):
    """The values of the rounds."""

    ours: Sequence[float] = ()
    limit: Sequence[float] = ()
    """As many values as ``ours``, or none."""
    note: str = ""
    missing: str = ""
    """Why a value could not be measured."""


class Result(NamedTuple):
    """A figure, its values, and its state."""

    figure: Figure
    measured: Measured
    state: State

    @property
    def ours(self) -> float | None:
        """The median of our values over the rounds."""
        return statistics.median(self.measured.ours) if self.measured.ours else None

    @property
    def limit(self) -> float | None:
        """The median of the limit over the rounds."""
        return statistics.median(self.measured.limit) if self.measured.limit else None

    @property
    def ratios(self) -> list[float]:
        """The ratio of each round."""
        return ratios(self.measured)

    @property
    def reach(self) -> float | None:
        """The share of the target that was reached, at least 1 if it was reached. None without a target, or if nothing was measured."""
        value, bound = judged(self.figure, self.measured), self.figure.want.bound
        if value is None or bound is None:
            return None
        return value / bound if self.figure.want.at_least is not None else bound / value


def ratios(measured: Measured) -> list[float]:
    """Returns the ratio of our value to the limit, for each round.

    Raises:
        ValueError: only some rounds have a limit.
    """
    if not measured.limit:
        return []
    return [ours / limit for ours, limit in zip(measured.ours, measured.limit, strict=True)]


def judged(figure: Figure, measured: Measured) -> float | None:
    """Returns the value to which the target applies; None if it was not measured."""
    values = ratios(measured) if figure.want.of_limit else measured.ours
    return statistics.median(values) if values else None


def results(figures: Sequence[Figure], found: Mapping[str, Measured]) -> list[Result]:
    """Returns all figures with their states, in their order."""
    alone = {figure.name: _alone(figure, found.get(figure.name, Measured(missing="it was not told"))) for figure in figures}
    return [Result(each, found.get(each.name, Measured(missing="it was not told")), _state(each, alone)) for each in figures]


def _alone(figure: Figure, measured: Measured) -> State:
    value = judged(figure, measured)
    if not measured.ours or measured.missing:
        return State.UNMEASURED
    if figure.want.bound is None:
        return State.TOLD
    if value is None:
        return State.UNMEASURED
    return State.REACHED if figure.want.holds(value) else State.MISSED


def _state(figure: Figure, alone: Mapping[str, State]) -> State:
    mine = alone[figure.name]
    return State.SPARED if mine is State.MISSED and alone.get(figure.or_else) is State.REACHED else mine


def all_reached(made: Sequence[Result]) -> bool:
    """Returns whether no target was missed or left unmeasured; False if nothing was measured at all."""
    return bool(made) and all(each.state in (State.REACHED, State.SPARED, State.TOLD) for each in made)
