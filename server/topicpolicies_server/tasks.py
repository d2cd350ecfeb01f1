"""Background tasks, each of which has an owner that sees it end.

A task of asyncio's whose exception nobody takes ends without a word, and whoever waits for what it would have done waits for ever. ``Kept``
is one task that is to go on: an exception of any type is told, and the task is begun anew after a pause. ``Owned`` is any number of
tasks that end by themselves: what goes wrong in one of them is told, and ``close`` ends those that are left.

A task of ``Kept``:

=========  ==========  ==========  ==================================================================================
state      event       next        what is done
=========  ==========  ==========  ==================================================================================
IDLE       start       RUNNING     the task begins
RUNNING    returns     IDLE        nothing: it has nothing left to do
RUNNING    raises      PAUSING     a line in the log; ``problem`` says why; ``failed`` is told
PAUSING    time        RUNNING     the task begins anew
any        stop        IDLE        the task is cancelled, and awaited by ``stop``
=========  ==========  ==========  ==================================================================================

A ``CancelledError`` that nobody asked this task for (of something that it awaited) is an exception like every other.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from .core.errors import PolicyError

_LOG = logging.getLogger(__name__)
FIRST_PAUSE_SECONDS = 0.1
"""The pause after the first failure, unless told otherwise; each is twice as long as the one before."""
LONGEST_PAUSE_SECONDS = 10.0
"""The longest pause, unless told otherwise. A task that has run for longer begins with the first pause again."""


class Kept:
    """One task that is begun anew whenever it fails. It belongs to the event loop that starts it."""

    def __init__(
        self,
        name: str,
        run: Callable[[], Awaitable[object]],
        *,
        first_seconds: float = FIRST_PAUSE_SECONDS,
        longest_seconds: float = LONGEST_PAUSE_SECONDS,
        failed: Callable[[BaseException], None] = lambda _: None,
    ) -> None:
        """Does nothing before ``start``.

        Args:
            name: of the task, for people.
            run: what it does; called anew after each failure. When it returns the task has ended.
            first_seconds: the pause after the first failure.
            longest_seconds: the longest pause.
            failed: told of each failure, before the pause.
        """
        self.name = name
        self.failures = 0
        """How often it has failed."""
        self.problem = ""
        """Why it failed last, while it pauses; empty while it runs, and while it is idle."""
        self._run = run
        self._first = first_seconds
        self._longest = longest_seconds
        self._failed = failed
        self._task: asyncio.Task[None] | None = None

    @property
    def running(self) -> bool:
        """Whether it was started and has neither returned nor been stopped."""
        return self._task is not None and not self._task.done()

    def start(self) -> None:
        """Begins, unless it runs."""
        if not self.running:
            self._task = asyncio.get_running_loop().create_task(self._keep(), name=self.name)

    def cancel(self) -> None:
        """Ends it without waiting for that. It may be started again at once."""
        task, self._task = self._task, None
        self.problem = ""
        if task is not None:
            task.cancel()

    async def stop(self) -> None:
        """Ends it; returns when it has ended. It must not be called by the task itself."""
        task = self._task
        self.cancel()
        if task is not None:
            await asyncio.wait({task})

    async def _keep(self) -> None:
        loop, pause = asyncio.get_running_loop(), self._first
        while True:
            began = loop.time()
            try:
                await self._run()
            except (Exception, asyncio.CancelledError) as error:
                if asked_to_end(error):
                    raise
                if _is_cancelled():  # it failed as it was to end
                    _LOG.error("%s failed as it was ended (%s)", self.name, _in_words(error), exc_info=error)
                    return
                if loop.time() - began > self._longest:
                    pause = self._first
                self._tell(error, pause)
            else:
                return
            await asyncio.sleep(pause)
            self.problem = ""
            pause = min(2 * pause, self._longest)

    def _tell(self, error: BaseException, pause: float) -> None:
        self.failures += 1
        self.problem = _in_words(error)
        trace = None if isinstance(error, PolicyError) else error
        _LOG.error("%s failed (%s); it goes on in %g s", self.name, self.problem, pause, exc_info=trace)
        try:
            self._failed(error)
        except Exception:  # noqa: BLE001 (who is told must not keep the task from going on)
            _LOG.exception("%s: telling of its failure failed", self.name)


class Owned:
    """Tasks that end by themselves. They belong to the event loop that begins them."""

    def __init__(self, name: str) -> None:
        """``name``: whose tasks they are, for people."""
        self._name = name
        self._tasks: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def begin(self, coroutine: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Begins a task, whose failure is a line in the log.

        Args:
            coroutine: what it does.
            name: what that is, for people.

        Returns:
            The task. Whoever awaits it has its exception too.
        """
        task = asyncio.get_running_loop().create_task(coroutine, name=f"{self._name}: {name}")
        self._tasks.add(task)
        task.add_done_callback(self._end)
        return task

    async def close(self, *, cancel: bool = True) -> None:
        """Returns when all have ended.

        Args:
            cancel: whether to end them; if not, they are waited for.
        """
        while tasks := [task for task in self._tasks if task is not asyncio.current_task()]:
            if cancel:
                for task in tasks:
                    task.cancel()
            await asyncio.wait(tasks)  # whoever is cancelled here cancels none of them
            await asyncio.sleep(0)  # those that have ended are forgotten by their callbacks

    def _end(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            if not task.cancelling():
                _LOG.error("%s failed (what it awaited was cancelled)", task.get_name())
            return
        error = task.exception()
        if error is not None:
            trace = None if isinstance(error, PolicyError) else error
            _LOG.error("%s failed (%s)", task.get_name(), _in_words(error), exc_info=trace)


def asked_to_end(error: BaseException) -> bool:
    """Whether an exception is a ``CancelledError`` that the running task was asked for; if not, it came from something that was awaited."""
    return isinstance(error, asyncio.CancelledError) and _is_cancelled()


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _in_words(error: BaseException) -> str:
    """What a failure was, in one line."""
    if isinstance(error, PolicyError):
        return error.message
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
