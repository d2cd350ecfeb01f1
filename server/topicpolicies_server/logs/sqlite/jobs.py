"""Jobs: work on the writer's connection other than a commit of events."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Job(Generic[T]):
    """Work that waits for the writer's thread, and the future of the caller that waits for its result."""

    __slots__ = ("future", "work")

    def __init__(self, work: Callable[[sqlite3.Connection], T], future: asyncio.Future[T]) -> None:
        self.work = work
        self.future = future


def settle(future: asyncio.Future[T], result: T, error: BaseException | None) -> None:
    """Gives a caller its result, or the error if there is one; called on the event loop's thread."""
    if future.done():  # the caller was cancelled
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
