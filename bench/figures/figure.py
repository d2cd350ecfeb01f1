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
    """What was measured in each round, beside its limit; without a bound it has no target."""

    what: str
    beside: str
    """The limit."""
    unit: str
    ours: Sequence[float] = ()
    """Empty: it was not measured, and the note says why."""
    limit: Sequence[float] = ()
    at_least: float | None = None
    at_most: float | None = None
    of_limit: bool = True
    """Whether the bound applies to the ratio to the limit, or to our own figure."""
    note: str = ""

    @property
    def ratios(self) -> list[float]:
        """Our value as a multiple of the limit, for each round; none if our own figure counts."""
        return [ours / limit for ours, limit in zip(self.ours, self.limit, strict=True)] if self.of_limit else []

    @property
    def reach(self) -> float | None:
        """The share of the target that was reached, at least 1 if it was; None without a target, or if it was not measured."""
        values = self.ratios if self.of_limit else self.ours
        if not values:
            return None
        value = statistics.median(values)
        if self.at_least is not None:
            return value / self.at_least
        return None if self.at_most is None else self.at_most / value

    @property
    def wanted(self) -> str:
        """The target as text; empty if there is none."""
        sign, bound = (">=", self.at_least) if self.at_most is None else ("<=", self.at_most)
        if bound is None:
            return ""
        return f"{sign} {bound:g}" if self.of_limit else f"{sign} {bound:,g} {self.unit}"

    @property
    def result(self) -> str:
        """``reached``, ``missed`` or ``not measured``; empty if it was measured and has no target."""
        if not self.ours:
            return "not measured"
        return "" if self.reach is None else "reached" if self.reach >= 1 else "missed"


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
