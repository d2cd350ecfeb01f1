"""Administrators: threads that set policies over the brokers' admin API, and reads over the same API."""

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
    """Returns the path of the cell's setting in the admin API."""
    return f"persistent/{cell.topic.removeprefix('persistent://')}/{cell.owned.rest}"


def set_over_rest(admin: Admin, cell: Cell, acknowledged: Acknowledged) -> None:
    """Sets the cell's next number in one call."""
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
    """Sets one setting, of one topic after the other, in a thread of its own, until the term is over."""
    chance = random.Random(seed)

    def work() -> None:
        with connect() as admin:
            while not term.over:
                set_over_rest(admin, Cell(chance.choice(topics), owned), acknowledged)

    await asyncio.to_thread(work)


def shown_by(connect: Callable[[], Admin], cells: Iterable[Cell]) -> dict[Cell, int]:
    """Returns the numbers that a broker shows in these cells."""
    with connect() as admin, ThreadPoolExecutor(_SHOWING_THREADS) as threads:
        wanted = list(cells)
        numbers = threads.map(lambda cell: cell.owned.of_json(admin.call("GET", path_of(cell))), wanted)
        return dict(zip(wanted, numbers, strict=True))


def wrongly_shown(connect: Callable[[], Admin], acknowledged: Acknowledged, seconds: float = 15.0) -> dict[Cell, int]:
    """Returns the cells that still differ at a broker from what was acknowledged after ``seconds``."""
    return still_wrong(connect, acknowledged.cells(), acknowledged.holds, seconds)


def still_wrong(connect: Callable[[], Admin], cells: Iterable[Cell], holds: Callable[[Cell, int], bool], seconds: float) -> dict[Cell, int]:
    """Returns the cells that a broker still shows wrongly after ``seconds``: it reads its log with a delay."""
    wrong = dict.fromkeys(cells, 0)
    deadline = time.monotonic() + seconds
    while wrong:
        wrong = {cell: number for cell, number in shown_by(connect, wrong).items() if not holds(cell, number)}
        if time.monotonic() > deadline:
            break
        time.sleep(0.2)
    return wrong
