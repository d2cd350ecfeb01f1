"""Writes lines to a descriptor, each of them whole, whichever threads write.

The program that reads a process's standard error may pause, and then a write blocks until it reads again. So the log's lines are written by
a thread (``Handler``), and neither the event loop nor any other caller waits for the write. The number of waiting lines is bounded. Lines
beyond the bound are lost, and counted in a line of its own as soon as there is room.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import threading
from queue import Empty, SimpleQueue

MOST = 10_000
"""How many lines may wait to be written."""
_AT_ONCE = 500
_FLUSH_SECONDS = 2.0
"""How long ``Handler.flush``, and so the end of a process, waits for them."""


class UnwrittenError(OSError):
    """Not all of the given lines could be written."""

    def __init__(self, cause: OSError, lines: int) -> None:
        """``lines``: how many lines were written whole."""
        super().__init__(cause.errno, cause.strerror or str(cause))
        self.lines = lines


class Sink:
    """Writes lines to the descriptor of a file or a pipe. It does not close the descriptor."""

    def __init__(self, descriptor: int, *, torn: bool = False) -> None:
        """``torn``: whether the file's present content ends in the middle of a line."""
        self.descriptor = descriptor
        self._torn = torn
        self._lock = threading.Lock()

    def put(self, raw: bytes) -> None:
        """Writes lines, which include their line ends; blocks until they are written.

        If only a part of a line could be written, a line end is written before the next line.

        Raises:
            UnwrittenError: not all of the lines could be written.
        """
        with self._lock:
            torn = self._torn
            whole = b"\n" + raw if torn else raw
            left = memoryview(whole)
            try:
                while left:
                    left = left[_write(self.descriptor, left) :]
            except OSError as error:
                written = whole[: len(whole) - len(left)]
                raise UnwrittenError(error, max(0, written.count(b"\n") - torn)) from error
            finally:
                if done := len(whole) - len(left):
                    self._torn = whole[done - 1 : done] != b"\n"

    def write(self, raw: bytes) -> None:
        """Writes lines like ``put``. Lines that can't be written are lost: there is no other place to report that."""
        with contextlib.suppress(OSError):
            self.put(raw)


def _write(descriptor: int, raw: memoryview) -> int:
    """Writes a part, and returns its length. Waits if the descriptor is non-blocking, which another process that shares it may have set."""
    try:
        return os.write(descriptor, raw)
    except BlockingIOError:
        room = select.poll()
        room.register(descriptor, select.POLLOUT)
        room.poll()
        return 0


STANDARD_ERROR = Sink(2)
"""The process's standard error, as it was when the process began (``foreign``)."""


class Handler(logging.Handler):
    """Writes log records to a sink, on a thread of its own."""

    def __init__(self, sink: Sink) -> None:
        """Starts the thread."""
        super().__init__()
        self.lost = 0
        """How many lines were lost because ``MOST`` others waited."""
        self._told = 0
        self._sink = sink
        self._waiting: SimpleQueue[str | threading.Event] = SimpleQueue()
        threading.Thread(target=self._run, name="lines", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        """Queues a record for the thread; drops it if ``MOST`` lines wait already."""
        try:
            if self._waiting.qsize() >= MOST:
                self.lost += 1
            else:
                self._waiting.put(self.format(record))
        except Exception:  # noqa: BLE001 (as every handler)
            self.handleError(record)

    def flush(self) -> None:
        """Waits until all queued lines are written, ``_FLUSH_SECONDS`` at the most."""
        written = threading.Event()
        self._waiting.put(written)
        written.wait(_FLUSH_SECONDS)

    def _run(self) -> None:
        while True:
            taken = [self._waiting.get()]
            with contextlib.suppress(Empty):
                while len(taken) < _AT_ONCE:
                    taken.append(self._waiting.get_nowait())
            lines = [each for each in taken if isinstance(each, str)]
            if (lost := self.lost) > self._told:
                lines.append(self._missing(lost - self._told))
                self._told = lost
            if lines:
                self._sink.write(("\n".join(lines) + "\n").encode(errors="backslashreplace"))
            for each in taken:
                if not isinstance(each, str):
                    each.set()

    def _missing(self, count: int) -> str:
        words = "%d lines are missing here: they were logged faster than they could be written"
        return self.format(logging.LogRecord(__name__, logging.ERROR, __file__, 0, words, (count,), None))
