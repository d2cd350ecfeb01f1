"""The channel to xdist, between the thread that executes what xdist sends and the one that runs the session of a test process."""

from __future__ import annotations

import queue
import threading
from typing import Any

import execnet.gateway_base as gateways

EXECUTING = "main_thread_only"
"""How xdist has its test processes execute what it sends: one thing after the other."""


class _Lent:
    """Hands a channel over."""

    def __init__(self) -> None:
        self._channels = queue.SimpleQueue[Any]()
        """Nothing, if there is no xdist any more."""
        self._over = threading.Event()
        self._serving: threading.Thread | None = None

    def lend(self, channel: Any) -> None:
        """Called where xdist's code is executed; returns when the session is over, as a channel ends with what was executed."""
        self._channels.put(channel)
        self._over.wait()

    def take(self) -> Any:
        """Answers xdist on this process's input and output until somebody has lent a channel.

        Raises:
            EOFError: xdist is gone.
        """
        with open(0, "rb", closefd=False) as given:
            given.readline()  # the program that is told to be one of xdist's processes; xdist says no more before it hears of that
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
        """The session is over; xdist ends the rest."""
        self._over.set()
        if self._serving is not None:
            self._serving.join()


_lent = _Lent()
lend, take, end = _lent.lend, _lent.take, _lent.end
