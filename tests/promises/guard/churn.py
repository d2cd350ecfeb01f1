"""Administrators that set and remove settings of the same topics at the same time, round after round, and the changes that are lost.

A removal of an unset setting changes nothing, but the broker writes its document all the same: an old one, while calls overlap.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from tests.broker.admin import Admin
from tests.promises.shared.acknowledged import Cell
from tests.promises.shared.raw_log import RawLog
from tests.promises.shared.rest import path_of, still_wrong
from tests.promises.shared.settings import Owned

from .storm import THREADS, Storm


@dataclass
class Churn(Storm):
    """The result: as that of a storm, but some changes are removals."""

    removals: int = 0
    """How many changes removed a setting."""
    of_unset: int = 0
    """How many changes removed a setting that was unset, according to the acknowledged calls."""


async def churn(
    connect: Callable[[], Admin],
    topics: Sequence[str],
    rounds: int,
    removals: float,
    at_rest: Callable[[], Awaitable[None]] | None = None,
    log: RawLog | None = None,
    seed: int = 0,
) -> Churn:
    """Has every thread set or remove its setting on each topic once in each round; then waits for a rest, and checks what brokers show.

    Args:
        connect: connects to the brokers.
        topics: full names.
        rounds: how many rounds there are.
        removals: the share of calls that remove.
        at_rest: returns when nothing is left to be healed; None: no guard runs.
        log: the log whose events are reported if a change is lost.
        seed: of the choice of removals.
    """
    result = Churn()
    left: dict[Cell, int] = {}

    def once(owned: Owned, wanted: Mapping[str, int]) -> None:
        with connect() as admin:
            for topic, number in wanted.items():
                path = path_of(Cell(topic, owned))
                if number:
                    admin.call("POST", path, owned.json(number))
                else:
                    admin.call("DELETE", path)

    chance = random.Random(seed)
    for number in range(1, rounds + 1):
        wanted = {owned: {topic: 0 if chance.random() < removals else number for topic in topics} for owned in THREADS}
        await asyncio.gather(*(asyncio.to_thread(once, owned, numbers) for owned, numbers in wanted.items()))
        for owned, numbers in wanted.items():
            for topic, value in numbers.items():
                cell = Cell(topic, owned)
                result.changes += 1
                result.removals += not value
                result.of_unset += not value and not left.get(cell)
                left[cell] = value
        if at_rest is not None:
            await at_rest()
        seconds = 3.0 if at_rest is not None else 0.5
        wrong = await asyncio.to_thread(still_wrong, connect, left, lambda cell, shown: shown == left[cell], seconds)
        result.rested(wrong, left, log)
    return result
