"""How much is measured, and against which broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

Say: TypeAlias = Callable[[str], None]
"""Called with a text that says what is being measured."""


class Scale(NamedTuple):
    """How much is measured."""

    rounds: int = 5
    few_rounds: int = 3
    """Rounds of what takes long: whole starts, large namespaces, many watchers."""
    seconds: float = 2.0
    """Seconds of each load in a round."""
    topics: int = 100_000
    large_topics: int = 0
    """Topics of a second size of namespaces for first answers; 0: none."""
    followed: int = 20_000
    """Events that are followed in a round."""
    watchers: int = 1_000
    deliveries: int = 512
    """Changes that each watcher receives in a round."""
    crowd: int = 10_000
    """The number of watchers of a crowd."""
    silent: int = 100
    """The number of silent watchers beside a crowd."""
    service_url: str = ""
    """The service URL of the broker, if a figure needs one."""
    admin_url: str = ""
    broker: int = 0
    """The process id of the broker; 0: it is not known."""


LARGE = 1_000_000
QUICK = Scale(rounds=2, few_rounds=2, seconds=0.3, topics=500, followed=300, watchers=5, deliveries=64, crowd=20, silent=2)
"""Very small amounts, which only try out the measurement; their figures mean nothing."""
