"""The progress of all workers, which send small datagrams to the driver. A lost datagram only delays the display."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

_EVERY_SECONDS = 0.5
_LAST = b""
"""What the driver sends itself to end its thread."""


class ProgressSender:
    """A worker's side."""

    def __init__(self, worker: int, to: tuple[str, int] | None) -> None:
        """``to``: the driver's address; None: progress is not shown."""
        self._worker = worker
        self._to = to
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._next = 0.0
        self._done = 0

    def advance(self, done: int) -> None:
        """Counts operations that are done."""
        self._done += done
        if self._to is not None and time.monotonic() >= self._next:
            self._next = time.monotonic() + _EVERY_SECONDS
            with contextlib.suppress(OSError):  # the driver can't be reached from here: the run goes on without a display
                self._socket.sendto(f"{self._worker} {self._done}".encode(), self._to)

    def close(self) -> None:
        """Closes the socket."""
        self._socket.close()


class ProgressBar:
    """The bar on the terminal, and the socket to which the workers report, which a thread of its own reads."""

    def __init__(self, name: str, host: str) -> None:
        """``name``: of the target. ``host``: an address of the driver that workers can reach."""
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._bar = Progress(*columns, console=Console(stderr=True))
        self._name = name
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((host, 0))
        self._thread = threading.Thread(target=self._receive, name="progress", daemon=True)
        self._done: dict[bytes, int] = {}
        """What each worker has told of the present stage."""
        self._task: TaskID | None = None
        self._lock = threading.Lock()
        self.address: tuple[str, int] = (host, self._socket.getsockname()[1])

    def __enter__(self) -> Self:
        self._bar.start()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._socket.sendto(_LAST, self._socket.getsockname())
        self._thread.join()
        self._socket.close()
        self._bar.stop()

    @contextlib.contextmanager
    def stage(self, stage: str, operations: int = 1) -> Iterator[None]:
        """Shows a stage for as long as the context lasts. If it succeeds, the bar ends full, whatever datagrams may be missing then."""
        with self._lock:
            self._done.clear()
            self._task = task = self._bar.add_task(f"{self._name}: {stage}", total=operations)
        yield
        with self._lock:
            self._task = None
            self._bar.update(task, completed=operations)

    def _receive(self) -> None:
        while (datagram := self._socket.recv(100)) != _LAST:
            worker, _, done = datagram.partition(b" ")
            with self._lock:
                if done.isdigit() and self._task is not None:
                    self._done[worker] = int(done)
                    self._bar.update(self._task, completed=sum(self._done.values()))
