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
        self._over = threading.Event()
        self._serving: threading.Thread | None = None

    def lend(self, channel: Any) -> None:
        """Called where xdist's code is executed; returns when the session is over, as a channel ends with what was executed."""
        self._channels.put(channel)
        self._over.wait()

    def take(self) -> Any:
        """Answers xdist on this process's input and output until somebody has lent a channel."""
        with open(0, "rb", closefd=False) as given:
            given.readline()  # the program that is told to be one of xdist's processes; xdist says no more before it hears of that
        io = gateways.init_popen_io(gateways.get_execmodel(EXECUTING))
        io.write(b"1")
        self._serving = threading.Thread(target=gateways.serve, args=(io, "forked"), name="answers xdist", daemon=True)
        self._serving.start()
        return self._channels.get()

    def end(self) -> None:
        """The session is over; xdist ends the rest."""
        self._over.set()
        if self._serving is not None:
            self._serving.join()


_lent = _Lent()
lend, take, end = _lent.lend, _lent.take, _lent.end
