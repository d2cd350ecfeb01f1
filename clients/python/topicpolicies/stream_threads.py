"""The gRPC threads that serve the streams of a client; closing the client waits for their end.

After a stream was cancelled, gRPC's threads still work on it: one handles the end of the stream and holds the stream's lock, and another
may be sending. If the interpreter exits at that moment, these threads stop where they are, and whatever takes the lock later blocks for
ever, such as the stream's own finalizer. So closing a client waits for them. What is closed even later, as by a ``__del__`` that runs while
the interpreter exits, must not touch gRPC any more (``too_late``): its threads have been stopped, and closing would wait for them for ever.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from typing import Any, TypeVar

_Request = TypeVar("_Request")

JOIN_SECONDS = 5.0
"""How many seconds to wait for threads whose streams were ended. They need only a moment, unless the machine is overloaded."""


def too_late() -> bool:
    """Returns whether the interpreter is exiting and has stopped all other threads: connections and streams end with the process."""
    return sys.is_finalizing()


class StreamThreads:
    """The threads that serve a client's streams. gRPC does not expose them, so each registers itself when it calls the client's code."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._expected = 0
        """How many threads have yet to call the client's code."""
        self._registered: set[threading.Thread] = set()
        """The threads that have called it, and may still be running."""

    def sending(self, requests: Iterator[_Request]) -> Iterator[_Request]:
        """Wraps the requests of a stream that is about to begin, so that the thread that reads them registers. See ``not_begun``."""
        self._expect(1)

        def taken() -> Iterator[_Request]:
            self._register()
            yield from requests

        return taken()

    def not_begun(self) -> None:
        """Takes note that the stream of the last ``sending`` did not begin, so that no thread will read its requests."""
        self._expect(-1)

    def began(self, call: Any) -> None:
        """Takes note that a stream has begun. The thread that handles its end registers then."""
        self._expect(1)
        if not call.add_callback(self._register):  # it has ended already
            self._expect(-1)

    def wait(self, seconds: float = JOIN_SECONDS) -> None:
        """Waits at most ``seconds`` until all threads have ended. Every stream must have been ended, and its connection closed."""
        until = time.monotonic() + seconds
        with self._changed:
            self._changed.wait_for(lambda: self._expected <= 0, seconds)
            registered = self._registered - {threading.current_thread()}
        for each in registered:
            each.join(max(until - time.monotonic(), 0))

    def _expect(self, number: int) -> None:
        with self._changed:
            self._expected += number
            self._changed.notify_all()

    def _register(self) -> None:
        """Registers the current thread."""
        with self._changed:
            self._expected -= 1
            self._registered = {each for each in self._registered if each.is_alive()} | {threading.current_thread()}
            self._changed.notify_all()
