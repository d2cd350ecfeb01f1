"""The channel to xdist, passed from the thread that executes xdist's code to the one that runs the session of a test process."""

from __future__ import annotations

import queue
import threading
from typing import Any

import execnet.gateway_base as gateways

EXECUTING = "main_thread_only"
"""execnet's execution model of xdist's test processes: one request after the other."""


class _Lent:
    """Passes a channel from one thread to another."""

    def __init__(self) -> None:
        self._channels = queue.SimpleQueue[Any]()
        """The channel that was lent; None if xdist has ended."""
        self._over = threading.Event()
        self._serving: threading.Thread | None = None

    def lend(self, channel: Any) -> None:
        """Lends a channel until the session is over, because a channel ends with the code that xdist executes. Called by that code."""
        self._channels.put(channel)
        self._over.wait()

    def take(self) -> Any:
        """Serves xdist on this process's input and output, and returns the channel that is lent.

        Raises:
            EOFError: xdist has ended.
        """
        with open(0, "rb", closefd=False) as given:
            given.readline()  # execnet's bootstrap program; xdist sends no more before the answer
        io = gateways.init_popen_io(gateways.get_execmodel(EXECUTING))
        io.write(b"1")
        self._serving = threading.Thread(target=self._serve, args=[io], name="answers xdist", daemon=True)
        self._serving.start()
        channel = self._channels.get()
        if channel is None:
            raise EOFError
        return channel

    def _serve(self, io: gateways.IO) -> None:
        gateways.serve(io, "forked")
        self._channels.put(None)

    def end(self) -> None:
        """Ends the loan after the session, and waits until xdist has ended the connection."""
        self._over.set()
        if self._serving is not None:
            self._serving.join()


_lent = _Lent()
lend, take, end = _lent.lend, _lent.take, _lent.end
