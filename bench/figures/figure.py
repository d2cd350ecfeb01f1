"""A figure: what is measured beside what, what is wanted of it, and whether that was reached.

Each round measures ours and its limit, one after the other, in turn first. A figure is the median over the rounds. A ratio is the median of
the rounds' own ratios, so that a machine whose speed drifts favours neither.

| state of a figure | when |
|---|---|
| REACHED | it was measured, and is what is wanted |
| MISSED | it was measured, and is not |
| SPARED | it was missed, and another one that may stand in its place was reached |
| UNMEASURED | nothing was measured, or no limit beside it although one is wanted; the reason is told |
| TOLD | it was measured, and nothing is wanted of it |

Only MISSED and UNMEASURED make a run one that missed its targets.
"""

from __future__ import annotations

import enum
import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple


class State(enum.Enum):
    """What became of a figure; see the module."""

    REACHED = "reached"
    MISSED = "missed"
    SPARED = "not needed"
    UNMEASURED = "not measured"
    TOLD = ""


class Want(NamedTuple):
    """What a figure must be; nothing is wanted where no bound is given."""

    at_least: float | None = None
    at_most: float | None = None
    of_limit: bool = True
    """Whether the bound is one of the ratio to the limit, or of our own figure."""

    def holds(self, value: float) -> bool:
        """Whether a value is within the bounds."""
        return (self.at_least is None or value >= self.at_least) and (self.at_most is None or value <= self.at_most)

    @property
    def bound(self) -> float | None:
        """The one that is given."""
        return self.at_most if self.at_least is None else self.at_least


NOTHING = Want()


class Figure(NamedTuple):
    """What is measured, and beside what."""

    name: str
    what: str
    beside: str
    """What the limit is; empty: there is none."""
    unit: str
    want: Want = NOTHING
    or_else: str = ""
    """The name of a figure that may be reached in its place."""


class Measured(NamedTuple):
    """What the rounds came to."""

    ours: Sequence[float] = ()
    limit: Sequence[float] = ()
    """As many as of ours, or none."""
    note: str = ""
    missing: str = ""
    """Why something could not be measured."""


class Result(NamedTuple):
    """A figure, what was measured, and what became of it."""

    figure: Figure
    measured: Measured
    state: State

    @property
    def ours(self) -> float | None:
        """The median over the rounds."""
        return statistics.median(self.measured.ours) if self.measured.ours else None

    @property
    def limit(self) -> float | None:
        """The median over the rounds."""
        return statistics.median(self.measured.limit) if self.measured.limit else None

    @property
    def ratios(self) -> list[float]:
        """Of each round."""
        return ratios(self.measured)

    @property
    def reach(self) -> float | None:
        """How much of what is wanted was reached: from 1 on it was. None where nothing is wanted, or nothing was measured."""
        value, bound = judged(self.figure, self.measured), self.figure.want.bound
        if value is None or bound is None:
            return None
        return value / bound if self.figure.want.at_least is not None else bound / value


def ratios(measured: Measured) -> list[float]:
    """Ours to the limit, of each round.

    Raises:
        ValueError: there is a limit of some rounds only.
    """
    if not measured.limit:
        return []
    return [ours / limit for ours, limit in zip(measured.ours, measured.limit, strict=True)]


def judged(figure: Figure, measured: Measured) -> float | None:
    """The value that what is wanted is a bound of; None if it was not measured."""
    values = ratios(measured) if figure.want.of_limit else measured.ours
    return statistics.median(values) if values else None


def results(figures: Sequence[Figure], found: Mapping[str, Measured]) -> list[Result]:
    """All figures with what became of them, in their order."""
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
    """Whether nothing that is wanted was missed or left out; False if nothing was measured at all."""
    return bool(made) and all(each.state in (State.REACHED, State.SPARED, State.TOLD) for each in made)
