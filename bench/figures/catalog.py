"""All figures, in the groups that are measured together, and how long each group may take."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from . import asking, batches, crowd, following, memory, on_pulsar, quotas, starting, taking, unary, watching
from .figure import Figure, Measured
from .scale import Say, Scale


class Group(NamedTuple):
    """The figures of one measurement."""

    name: str
    figures: Sequence[Figure]
    measure: Callable[[Scale, Say], Mapping[str, Measured]]
    most_seconds: float
    """The group is ended after this time; none of its figures counts as measured then."""
    broker: bool = False
    """Whether the group needs a broker."""
    large: bool = False
    """Whether the group is measured only on request."""


GROUPS = (
    Group("unary", unary.FIGURES, unary.measure, 300),
    Group("batches", batches.FIGURES, batches.measure, 300),
    Group("asking", asking.FIGURES, asking.measure, 300),
    Group("quotas", quotas.FIGURES, quotas.measure, 480),
    Group("pulsar-batches", on_pulsar.BATCH_FIGURES, on_pulsar.measure_batches, 300, broker=True),
    Group("pulsar-calls", on_pulsar.CALL_FIGURES, on_pulsar.measure_calls, 400, broker=True),
    Group("start", starting.FIGURES, starting.measure, 600),
    Group("start-pulsar", starting.PULSAR_FIGURES, starting.measure_pulsar, 900, broker=True),
    Group("start-large", starting.LARGE_FIGURES, starting.measure_large, 3_000, large=True),
    Group("start-pulsar-large", starting.LARGE_PULSAR_FIGURES, starting.measure_large_pulsar, 6_000, broker=True, large=True),
    Group("memory", memory.FIGURES, memory.measure, 900),
    Group("following", following.FIGURES, following.measure, 600, broker=True),
    Group("taking", taking.FIGURES, taking.measure, 300),
    Group("deliveries", watching.DELIVERY_FIGURES, watching.measure_deliveries, 300),
    Group("snapshot", watching.SNAPSHOT_FIGURES, watching.measure_snapshot, 600),
    Group("crowd", crowd.FIGURES, crowd.measure, 900),
)


def chosen(names: Sequence[str], *, large: bool) -> list[Group]:
    """Returns the groups with these names, or all; large ones only if they are named or ``large`` is set.

    Raises:
        KeyError: there is no such group.
    """
    known = {group.name: group for group in GROUPS}
    for name in names:
        known[name]
    return [group for group in GROUPS if (group.name in names if names else large or not group.large)]
