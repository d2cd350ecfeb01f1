"""An event loop with simulated time: the same seed gives the same run, and pauses cost no real time.

Time does not pass while callbacks run, and jumps to the next timer when no callback is ready. There are no threads and no sockets. The
loop keeps what asyncio promises: callbacks run in the order of ``call_soon``. The seed decides what asyncio leaves open: the order of
timers that are due together, and, if the loop is ``busy``, how much time passes in each turn, so that timers come due between any two
callbacks. When no callback and no timer is left, the run has failed, and the error names the tasks that wait.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import io
import random
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from typing import Any, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

EPOCH_MS = 1_700_000_000_000
"""The time of the log's clock when a run begins, in milliseconds since 1970."""
MOST_STEPS = 2_000_000
"""The most callbacks of one run: a run that needs more is in an endless loop."""


class Stuck(Exception):
    """No callback and no timer is left although the run has not ended, or the run is in an endless loop."""


class SimulatedLoop(asyncio.BaseEventLoop):
    """asyncio's own loop with a simulated clock and a seeded order of timers."""

    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]
    _stopping: bool

    def __init__(self, chance: random.Random, *, busy: float = 0.0) -> None:
        """Begins at time 0.

        Args:
            chance: decides what asyncio leaves open.
            busy: the longest time that one turn of the loop takes, in seconds.
        """
        super().__init__()
        self._thread = threading.get_ident()
        self._chance = chance
        self._busy = busy
        self._now = 0.0
        self.steps = 0
        """The number of callbacks that have run."""
        self.failures: list[dict[str, Any]] = []
        """The contexts of exceptions that no code handled, as reported to the exception handler."""
        self.set_exception_handler(lambda _loop, context: self.failures.append(context))

    def time(self) -> float:
        """Returns the seconds since the run began."""
        return self._now

    def milliseconds(self) -> int:
        """Returns the time of the log's clock."""
        return EPOCH_MS + int(self._now * 1000)

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Runs ``main`` to its end, and cancels the tasks that are left then.

        Raises:
            Stuck: the run can't end.
        """
        try:
            return self.run_until_complete(main)
        finally:
            self.run_until_complete(self._cancel_the_rest())
            self.close()

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        """Refuses a callback from another thread: a replay would not repeat its time."""
        assert threading.get_ident() == self._thread, f"{callback} is called from another thread"
        return self.call_soon(callback, *args, context=context)

    async def _cancel_the_rest(self) -> None:
        left = [task for task in self._tasks() if task is not asyncio.current_task()]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await self.shutdown_asyncgens()

    def run_in_executor(self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        """Refuses to use a thread, for the same reason."""
        raise AssertionError(f"{func} needs a thread")

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
            raise Stuck(f"{MOST_STEPS} callbacks without an end after {self._now:.3f} s\n{self._waiting()}")

    def _take_due(self) -> None:
        """Makes all due timers ready; if no callback is ready, first advances the time to the next timer."""
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
            raise Stuck(f"no callback and no timer is left after {self._now:.3f} s\n{self._waiting()}")

    def _waiting(self) -> str:
        report = io.StringIO()
        for task in self._tasks():
            task.print_stack(limit=3, file=report)
        return report.getvalue()

    def _tasks(self) -> list[asyncio.Task[Any]]:
        """Returns the tasks that have not ended, in the order in which they began if they have asyncio's own names."""
        return sorted(asyncio.all_tasks(self), key=lambda task: (len(task.get_name()), task.get_name()))
