"""Where lines go: a descriptor, to which each is written whole, whichever threads write.

Whoever reads a process's standard error may stop doing so, and then a write takes until it goes on. So lines of the log are written by a
thread (``Handler``): nobody who tells something waits for that, the event loop least of all. What may wait has a bound; what is beyond it
is lost, and counted in a line of its own as soon as there is room.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import threading
from queue import Empty, SimpleQueue

MOST = 10_000
"""Lines that may wait to be written."""
_AT_ONCE = 500
_FLUSH_SECONDS = 2.0
"""How long the end of a process waits for them."""


class UnwrittenError(OSError):
    """Not all of what was given could be written."""

    def __init__(self, cause: OSError, lines: int) -> None:
        """``lines``: how many were, whole."""
        super().__init__(cause.errno, cause.strerror or str(cause))
        self.lines = lines


class Sink:
    """A descriptor of a file or a pipe."""

    def __init__(self, descriptor: int, *, torn: bool = False) -> None:
        """It is not closed by this. ``torn``: whether what is there ends in the middle of a line."""
        self.descriptor = descriptor
        self._torn = torn
        self._lock = threading.Lock()

    def put(self, raw: bytes) -> None:
        """Writes lines, with their ends; it takes until they are. A line of which only a part could be written ends before the next one.

        Raises:
            UnwrittenError: they can't be, or not all of them.
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
        """Writes lines, with their ends. What can't be written is lost: there is nobody to tell."""
        with contextlib.suppress(OSError):
            self.put(raw)


def _write(descriptor: int, raw: memoryview) -> int:
    """Writes a part. Where the descriptor waits for nobody, as others who share it may have told it, this does."""
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
    """Writes records to a sink, on a thread of its own."""

    def __init__(self, sink: Sink) -> None:
        """``sink``: where."""
        super().__init__()
        self.lost = 0
        """Lines for which there was no room."""
        self._told = 0
        self._sink = sink
        self._waiting: SimpleQueue[str | threading.Event] = SimpleQueue()
        threading.Thread(target=self._run, name="lines", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        """Has one written, soon."""
        try:
            if self._waiting.qsize() >= MOST:
                self.lost += 1
            else:
                self._waiting.put(self.format(record))
        except Exception:  # noqa: BLE001 (as every handler)
            self.handleError(record)

    def flush(self) -> None:
        """Returns when what waits is written, or soon."""
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
        words = "%d lines are missing here: they came faster than they were taken"
        return self.format(logging.LogRecord(__name__, logging.ERROR, __file__, 0, words, (count,), None))
