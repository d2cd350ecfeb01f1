"""Threads of gRPC's own that serve the streams of a client, and the wait for their end.

A stream that was ended is still worked on: a thread of gRPC is told of its end, with the stream's lock in its hands, and another may
be sending. If the interpreter ends in that moment, they are stopped where they are, and whatever takes the lock then waits for ever: the
stream's own finalizer does. So whoever closes a client waits for them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any, TypeVar

_Request = TypeVar("_Request")

LEAVING_SECONDS = 5.0
"""How long threads are waited for whose streams were ended; they need a moment, unless the machine does not let them run."""


class ServingThreads:
    """The threads that serve a client's streams. gRPC gives them to nobody; they are met where they call the client."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._expected = 0
        """Threads that have not called yet, and will."""
        self._met: set[threading.Thread] = set()

    def sending(self, requests: Iterator[_Request]) -> Iterator[_Request]:
        """The requests of a stream that is about to begin, for a thread of its own; see ``not_begun``."""
        self._expect(1)

        def taken() -> Iterator[_Request]:
            self._meet()
            yield from requests

        return taken()

    def not_begun(self) -> None:
        """The stream did not begin for which there were requests: no thread takes them."""
        self._expect(-1)

    def began(self, call: Any) -> None:
        """A stream has begun. The thread that is told of its end is met then."""
        self._expect(1)
        if not call.add_callback(self._meet):  # it has ended already
            self._expect(-1)

    def wait(self, seconds: float = LEAVING_SECONDS) -> None:
        """Waits until all threads are done; every stream was ended, and its connection closed."""
        until = time.monotonic() + seconds
        with self._changed:
            self._changed.wait_for(lambda: self._expected <= 0, seconds)
            met = self._met - {threading.current_thread()}
        for each in met:
            each.join(max(until - time.monotonic(), 0))

    def _expect(self, number: int) -> None:
        with self._changed:
            self._expected += number
            self._changed.notify_all()

    def _meet(self) -> None:
        """The present thread is one of them."""
        with self._changed:
            self._expected -= 1
            self._met = {each for each in self._met if each.is_alive()} | {threading.current_thread()}
            self._changed.notify_all()
