"""Daemon threads for blocking calls that may never return, such as reads from a disk that hangs: an ending process does not wait for them.

``concurrent.futures.ThreadPoolExecutor`` joins its threads when the interpreter ends, so one read that never returns would keep the process
alive.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")


class DaemonThreads(Executor):
    """An executor with up to ``count`` daemon threads; each submission starts one until there are that many."""

    def __init__(self, count: int, name: str) -> None:
        self._count = count
        self._name = name
        self._threads: list[threading.Thread] = []
        self._waiting: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._ended = False
        self._lock = threading.Lock()

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Queues a call behind those that were submitted before.

        Raises:
            RuntimeError: the executor was shut down.
        """
        future: Future[T] = Future()

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
            if len(self._threads) < self._count:
                thread = threading.Thread(target=self._work, name=f"{self._name}-{len(self._threads)}", daemon=True)
                self._threads.append(thread)
                thread.start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Takes no further calls; those that were submitted are still made. ``wait``: whether to wait until the threads have ended."""
        del cancel_futures
        with self._lock:
            if not self._ended:
                self._ended = True
                for _ in self._threads:
                    self._waiting.put(None)
        if wait:
            for thread in self._threads:
                thread.join()

    def _work(self) -> None:
        while (run := self._waiting.get()) is not None:
            run()
            del run
