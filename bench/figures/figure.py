"""A figure: what is measured beside which limit, its target, and whether the target was reached.

Each round measures our figure and its limit, one after the other, which take turns at being first. A figure is the median over the rounds.
A ratio is the median of the ratios of the rounds, so that a machine whose speed drifts favours neither.
"""

from __future__ import annotations

import statistics
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

_Load = TypeVar("_Load")
_Name = TypeVar("_Name")
_Value = TypeVar("_Value")


class Scale(NamedTuple):
    """How much is measured, and against which broker."""

    rounds: int = 3
    seconds: float = 2.0
    """Seconds of each load in a round."""
    topics: int = 100_000
    """Topics of a large namespace."""
    followed: int = 20_000
    """Events that are followed in a round."""
    watchers: int = 1_000
    deliveries: int = 512
    """Changes that each watcher receives in a round."""
    crowd: int = 10_000
    """The number of watchers of a crowd."""
    silent: int = 100
    """The number of watchers beside a crowd that never read."""
    service_url: str = ""
    """The service URL of the broker, if a figure needs one."""
    admin_url: str = ""


QUICK = Scale(rounds=2, seconds=0.3, topics=500, followed=300, watchers=5, deliveries=64, crowd=20, silent=2)
"""Very small amounts, which only try out the measurement; their figures mean nothing."""


class Figure(NamedTuple):
    """What is measured, beside which limit, and the target; without a bound there is none."""

    name: str
    what: str
    """May name amounts of the scale: ``{topics:,}``."""
    beside: str
    """The limit; empty: there is none."""
    unit: str
    at_least: float | None = None
    at_most: float | None = None
    of_limit: bool = True
    """Whether the bound applies to the ratio to the limit, or to our own figure."""

    @property
    def bound(self) -> float | None:
        """The bound that is given."""
        return self.at_most if self.at_least is None else self.at_least


class Measured(NamedTuple):
    """The values of the rounds."""

    ours: Sequence[float] = ()
    limit: Sequence[float] = ()
    """As many values as ``ours``, or none."""
    note: str = ""
    missing: str = ""
    """Why a value could not be measured."""

    @property
    def ratios(self) -> list[float]:
        """Our value as a multiple of the limit, for each round."""
        return [ours / limit for ours, limit in zip(self.ours, self.limit, strict=True)] if self.limit else []


def reach(figure: Figure, measured: Measured) -> float | None:
    """Returns the share of the target that was reached, at least 1 if it was. None without a target, or if it was not measured."""
    values = measured.ratios if figure.of_limit else measured.ours
    if figure.bound is None or not values or measured.missing:
        return None
    value = statistics.median(values)
    return value / figure.bound if figure.at_least is not None else figure.bound / value


def result(figure: Figure, measured: Measured) -> str:
    """Returns ``reached``, ``missed`` or ``not measured``; nothing of a figure that was measured and has no target."""
    if measured.missing or not measured.ours:
        return "not measured"
    if figure.bound is None:
        return ""
    share = reach(figure, measured)
    return "not measured" if share is None else "reached" if share >= 1 else "missed"


def in_turn(rounds: int, loads: Sequence[_Load]) -> Iterator[_Load]:
    """Yields all loads in each round, in the other order in every second round."""
    for number in range(rounds):
        yield from loads if number % 2 else reversed(loads)


async def in_rounds(rounds: int, loads: Mapping[_Name, Callable[[], Awaitable[_Value]]]) -> dict[_Name, list[_Value]]:
    """Measures each load in each round, in turn. Returns the values of each."""
    found: dict[_Name, list[_Value]] = {name: [] for name in loads}
    for name in in_turn(rounds, list(loads)):
        found[name].append(await loads[name]())
    return found
