"""An event loop that owns time and order: the same seed gives the same run, however long its pauses are.

Time stands still while callbacks run, and jumps to the next timer when there is nothing left to run. There are no threads and no sockets.
What asyncio promises is kept (callbacks run in the order of ``call_soon``), and what it leaves open the seed decides: the order of timers
that are due together, and, if the loop is ``busy``, how much time passes in each turn, so that timers come due between any two callbacks.
When nothing can ever happen any more the run has failed, and says who waits.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import io
import random
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from typing import Any, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

EPOCH_MS = 1_700_000_000_000
"""What the log's clock shows when a run begins, in milliseconds since 1970."""
MOST_STEPS = 2_000_000
"""Callbacks of one run; whoever needs more turns in circles."""


class Stuck(Exception):
    """Nothing can happen any more although the run has not ended, or it turns in circles."""


class SimulatedLoop(asyncio.BaseEventLoop):
    """asyncio's own loop with another clock and another order."""

    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]
    _stopping: bool

    def __init__(self, chance: random.Random, *, busy: float = 0.0) -> None:
        """Begins at time 0.

        Args:
            chance: decides what asyncio leaves open.
            busy: the longest that one turn of the loop takes, in seconds.
        """
        super().__init__()
        self._chance = chance
        self._busy = busy
        self._now = 0.0
        self.steps = 0
        """Callbacks that have run."""
        self.failures: list[dict[str, Any]] = []
        """What was reported to the exception handler: exceptions that nobody has seen."""
        self.set_exception_handler(lambda _loop, context: self.failures.append(context))

    def time(self) -> float:
        """Seconds since the run began."""
        return self._now

    def milliseconds(self) -> int:
        """The time by the log's clock."""
        return EPOCH_MS + int(self._now * 1000)

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Runs to the end of ``main``, and cancels what is left then.

        Raises:
            Stuck: see there.
        """
        try:
            return self.run_until_complete(main)
        finally:
            self.run_until_complete(self._cancel_the_rest())
            self.close()

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        """Nothing here has threads: whoever calls this would not be replayed."""
        raise AssertionError(f"{callback} comes from a thread")

    async def _cancel_the_rest(self) -> None:
        left = [task for task in self._tasks() if task is not asyncio.current_task()]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await self.shutdown_asyncgens()

    def run_in_executor(self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        """As above."""
        raise AssertionError(f"{func} wants a thread")

    def _run_once(self) -> None:
        ready, scheduled = self._ready, self._scheduled
        if self._busy:
            self._now += self._chance.uniform(0.0, self._busy)
        if not ready or (scheduled and scheduled[0].when() <= self._now):
            self._take_due()
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle.cancelled():
                handle._run()
                self.steps += 1
        if self.steps > MOST_STEPS:
            self.steps = 0
            raise Stuck(f"{MOST_STEPS} callbacks and no end after {self._now:.3f} s\n{self._waiting()}")

    def _take_due(self) -> None:
        """Makes all timers that are due ready, going to the next one if there is nothing else to do."""
        ready, scheduled = self._ready, self._scheduled
        due: list[asyncio.Handle] = []
        while scheduled and (scheduled[0].when() <= self._now or not (ready or due)):
            timer = heapq.heappop(scheduled)
            if not timer.cancelled():
                self._now = max(self._now, timer.when())
                due.append(timer)
        if len(due) > 1:
            self._chance.shuffle(due)
        ready.extend(due)
        if not ready and not self._stopping:
            raise Stuck(f"nothing can happen any more after {self._now:.3f} s\n{self._waiting()}")

    def _waiting(self) -> str:
        report = io.StringIO()
        for task in self._tasks():
            task.print_stack(limit=3, file=report)
        return report.getvalue()

    def _tasks(self) -> list[asyncio.Task[Any]]:
        """What has not ended, in the order in which it began if nobody chose the names."""
        return sorted(asyncio.all_tasks(self), key=lambda task: (len(task.get_name()), task.get_name()))
