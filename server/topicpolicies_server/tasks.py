"""Background tasks, each with an owner that handles its failure; and threads that the end of the process does not wait for.

If no code retrieves the exception of an asyncio task, the task ends unnoticed, and code that waits for its result waits for ever. A
``CancelledError`` without a request to cancel the task comes from something that it awaited, and counts as a failure.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Executor, Future
from queue import SimpleQueue
from typing import Any, TypeVar

from .core.errors import PolicyError

_LOG = logging.getLogger(__name__)
_T = TypeVar("_T")


class RestartedTask:
    """A task that is restarted whenever it fails. It belongs to the event loop that starts it."""

    def __init__(
        self,
        name: str,
        run: Callable[[], Awaitable[object]],
        *,
        pause_seconds: float = 1.0,
        failed: Callable[[BaseException], None] = lambda _: None,
    ) -> None:
        """Does nothing before ``start``. ``run`` is called again, after a pause, until it returns; each failure goes to ``failed``."""
        self.name = name
        self._run = run
        self._pause = pause_seconds
        self._failed = failed
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Starts the task; does nothing if it runs, or pauses."""
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run_on(), name=self.name)

    def cancel(self) -> None:
        """Cancels the task without waiting for its end. It may be started again at once."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()

    async def stop(self) -> None:
        """Cancels the task, and waits until it has ended. The task itself must not call this."""
        task = self._task
        self.cancel()
        if task is not None:
            await asyncio.wait({task})

    async def _run_on(self) -> None:
        while True:
            try:
                await self._run()
            except (Exception, asyncio.CancelledError) as error:
                if asked_to_end(error):
                    raise
                if _is_cancelled():  # the task was cancelled, but failed with another exception: log it, and don't restart
                    _LOG.error("%s failed while it was stopped (%s)", self.name, _in_words(error), exc_info=error)
                    return
                self._report(error)
            else:
                return
            await asyncio.sleep(self._pause)

    def _report(self, error: BaseException) -> None:
        trace = None if isinstance(error, PolicyError) else error
        _LOG.error("%s failed (%s); it continues in %g s", self.name, _in_words(error), self._pause, exc_info=trace)
        self._failed(error)


class TaskSet:
    """Tasks that end by themselves, in the order in which they began. They belong to the event loop that begins them."""

    def __init__(self, name: str) -> None:
        """``name``: the owner's name in messages."""
        self._name = name
        self._tasks: dict[asyncio.Task[Any], None] = {}

    def __len__(self) -> int:
        return len(self._tasks)

    def begin(self, coroutine: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Begins a task, and returns it. If it fails, a line in the log says so; code that awaits it gets the exception as well."""
        task = asyncio.get_running_loop().create_task(coroutine, name=f"{self._name}: {name}")
        self._tasks[task] = None
        task.add_done_callback(self._end)
        return task

    async def close(self, *, cancel: bool = True) -> None:
        """Waits until all tasks have ended, except the one that calls this.

        ``cancel``: whether to cancel them first, in the order in which they began.
        """
        while tasks := [task for task in self._tasks if task is not asyncio.current_task()]:
            if cancel:
                for task in tasks:
                    task.cancel()
            await asyncio.wait(tasks)  # if the caller is cancelled here, the tasks are not
            await asyncio.sleep(0)  # lets the done callbacks run, which remove the ended tasks

    def _end(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        if task.cancelled():
            if not task.cancelling():
                _LOG.error("%s failed (what it awaited was cancelled)", task.get_name())
            return
        error = task.exception()
        if error is not None:
            trace = None if isinstance(error, PolicyError) else error
            _LOG.error("%s failed (%s)", task.get_name(), _in_words(error), exc_info=trace)


class DaemonThreads(Executor):
    """An executor with up to ``count`` daemon threads, for calls that may never return, such as reads from a disk that hangs.

    An ending process does not wait for them; for the threads of ``concurrent.futures.ThreadPoolExecutor`` the interpreter would. Each
    submission starts a thread until there are that many.
    """

    def __init__(self, count: int, name: str) -> None:
        self._count = count
        self._name = name
        self._started = 0
        self._waiting: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._ended = False
        self._lock = threading.Lock()

    def submit(self, fn: Callable[..., _T], /, *args: Any, **kwargs: Any) -> Future[_T]:
        """Queues a call behind those that were submitted before.

        Raises:
            RuntimeError: the executor was shut down.
        """
        future: Future[_T] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = fn(*args, **kwargs)
            except BaseException as error:  # noqa: BLE001 (whoever waits has it)
                future.set_exception(error)
            else:
                future.set_result(result)

        with self._lock:
            if self._ended:
                raise RuntimeError(f"the threads {self._name} were shut down")
            self._waiting.put(run)
            if self._started < self._count:
                self._started += 1
                threading.Thread(target=self._work, name=self._name, daemon=True).start()
        return future

    def shutdown(self, wait: bool = False, *, cancel_futures: bool = False) -> None:
        """Takes no further calls; those that were submitted are still made, and nothing waits for them."""
        del wait, cancel_futures
        with self._lock:
            if not self._ended:
                self._ended = True
                for _ in range(self._started):
                    self._waiting.put(None)

    def _work(self) -> None:
        while (run := self._waiting.get()) is not None:
            run()
            del run


def asked_to_end(error: BaseException) -> bool:
    """Whether ``error`` is the ``CancelledError`` of a request to cancel the running task, and not one of something that it awaited."""
    return isinstance(error, asyncio.CancelledError) and _is_cancelled()


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _in_words(error: BaseException) -> str:
    """A failure's message; with its type, if it is not a ``PolicyError``."""
    if isinstance(error, PolicyError):
        return error.message
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
