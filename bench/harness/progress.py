"""The progress of all workers, which send small datagrams to the driver. A lost datagram only delays the display."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable

_EVERY_SECONDS = 0.5


class ProgressSender:
    """A worker's side. Telling costs a comparison most of the time."""

    def __init__(self, worker: int, to: tuple[str, int] | None) -> None:
        """``to``: the driver's address; None: progress is not shown."""
        self._worker = worker
        self._to = to
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._next = 0.0
        self._done = 0

    def advance(self, done: int = 1) -> None:
        """Counts operations that are done."""
        self._done += done
        now = time.monotonic()
        if self._to is not None and now >= self._next:
            self._next = now + _EVERY_SECONDS
            try:
                self._socket.sendto(f"{self._worker} {self._done}".encode(), self._to)
            except OSError:
                self._to = None  # the driver can't be reached from here: the run goes on without a display

    def close(self) -> None:
        """Closes the socket."""
        self._socket.close()


class ProgressReceiver:
    """The driver's side: calls ``show`` with the sum of what the workers have told, from a thread of its own."""

    def __init__(self, host: str, show: Callable[[int], None]) -> None:
        """``host``: an address of the driver that workers can reach."""
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((host, 0))
        self._socket.settimeout(0.2)
        self._show = show
        self._done: dict[str, int] = {}
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)
        self._thread.start()
        self.address: tuple[str, int] = self._socket.getsockname()

    def reset(self) -> None:
        """Begins a new stage."""
        self._done.clear()

    def _run(self) -> None:
        while not self._closing:
            try:
                worker, _, done = self._socket.recv(100).decode().partition(" ")
                self._done[worker] = int(done)
            except TimeoutError:
                continue
            except ValueError:
                continue  # not a datagram of a worker
            self._show(sum(self._done.values()))

    def close(self) -> None:
        """Stops listening."""
        self._closing = True
        self._thread.join()
        self._socket.close()
