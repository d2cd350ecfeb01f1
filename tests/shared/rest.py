"""Administrators: threads that set policies over the brokers' admin API, and what a broker shows over it."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

import httpx

from tests.broker.admin import Admin, AdminError

from .acknowledged import Acknowledged, Cell
from .settings import Owned
from .term import Term

_SHOWING_THREADS = 4


def path_of(cell: Cell) -> str:
    """Where the admin API has the cell's setting."""
    return f"persistent/{cell.topic.removeprefix('persistent://')}/{cell.owned.rest}"


def set_over_rest(admin: Admin, cell: Cell, acknowledged: Acknowledged) -> None:
    """One call that sets the cell's next number."""
    number = acknowledged.next(cell)
    try:
        admin.call("POST", path_of(cell), cell.owned.json(number))
    except (AdminError, httpx.TransportError) as error:
        acknowledged.errors[f"REST {error}"[:120]] += 1
    else:
        acknowledged.acknowledge(cell, number, "admin REST")


async def administrator(
    connect: Callable[[], Admin], owned: Owned, topics: Sequence[str], acknowledged: Acknowledged, term: Term, seed: int
) -> None:
    """A thread that sets one setting on one topic after the other, as long as the term lasts."""
    chance = random.Random(seed)

    def work() -> None:
        with connect() as admin:
            while not term.over:
                set_over_rest(admin, Cell(chance.choice(topics), owned), acknowledged)

    await asyncio.to_thread(work)


def shown_by(connect: Callable[[], Admin], cells: Iterable[Cell]) -> dict[Cell, int]:
    """What a broker shows of some cells."""
    with connect() as admin, ThreadPoolExecutor(_SHOWING_THREADS) as threads:
        wanted = list(cells)
        numbers = threads.map(lambda cell: cell.owned.of_json(admin.call("GET", path_of(cell))), wanted)
        return dict(zip(wanted, numbers, strict=True))


def wrongly_shown(connect: Callable[[], Admin], acknowledged: Acknowledged, seconds: float = 15.0) -> dict[Cell, int]:
    """What a broker shows otherwise than it was acknowledged, even after a while."""
    return still_wrong(connect, acknowledged.cells(), acknowledged.holds, seconds)


def still_wrong(connect: Callable[[], Admin], cells: Iterable[Cell], holds: Callable[[Cell, int], bool], seconds: float) -> dict[Cell, int]:
    """What a broker shows wrongly even after a while: it reads its log a little later than others do."""
    wrong = dict.fromkeys(cells, 0)
    deadline = time.monotonic() + seconds
    while wrong:
        wrong = {cell: number for cell, number in shown_by(connect, wrong).items() if not holds(cell, number)}
        if time.monotonic() > deadline:
            break
        time.sleep(0.2)
    return wrong
