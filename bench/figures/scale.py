"""How much is measured, and against which broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

Say: TypeAlias = Callable[[str], None]
"""Told what is being done now."""


class Scale(NamedTuple):
    """How much is measured."""

    rounds: int = 5
    few_rounds: int = 3
    """Of what takes long: whole starts, large namespaces, many watchers."""
    seconds: float = 2.0
    """Of each load in a round."""
    topics: int = 100_000
    large_topics: int = 0
    """A second size of namespaces for first answers; 0: none."""
    followed: int = 20_000
    """Events that are followed in a round."""
    watchers: int = 1_000
    deliveries: int = 512
    """Changes that each of the watchers is told in a round."""
    crowd: int = 10_000
    """Watchers that are many."""
    silent: int = 100
    """How many of them never read."""
    service_url: str = ""
    """Of the broker, if any figure needs one."""
    admin_url: str = ""
    broker: int = 0
    """Its process; 0: it is not known."""


LARGE = 1_000_000
QUICK = Scale(rounds=2, few_rounds=2, seconds=0.3, topics=500, followed=300, watchers=5, deliveries=64, crowd=20, silent=2)
"""So little that nothing but the way is tried: its figures say nothing."""
