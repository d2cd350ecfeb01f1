"""Turns what libraries, gRPC's core above all, write to standard error by themselves into lines of the log.

Descriptor 2 becomes a pipe that a thread reads; the log writes to a copy of the former descriptor. The pipe's writing end does not block:
if lines come faster than they are read, some are lost, but no library hangs. What a process writes as it dies of a fault in C may be lost
with it.
"""

from __future__ import annotations

import atexit
import logging
import os
import re
import threading

from .sink import STANDARD_ERROR

_LONGEST = 8_000
_ABSEIL = re.compile(r"([IWEF])(?:0000|\d{4}) [\d:.]+ +\d+ ([^\]\s]+)\] (.*)")
"""A line of gRPC's core: level, time, thread, place in the source, text."""
_LEVELS = {"I": logging.INFO, "W": logging.WARNING, "E": logging.ERROR, "F": logging.CRITICAL}
_JOIN_SECONDS = 1.0


def route() -> None:
    """Redirects descriptor 2, until the process exits. Called once, and only in a process that belongs to the server or guard."""
    before = os.dup(2)
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    os.dup2(writing, 2)
    os.close(writing)
    STANDARD_ERROR.descriptor = before
    thread = threading.Thread(target=_read, args=(reading,), name="standard error", daemon=True)
    thread.start()

    def put_back() -> None:
        os.dup2(before, 2)  # this closes the pipe's last writing end, so the thread comes to the end
        thread.join(_JOIN_SECONDS)

    atexit.register(put_back)


def _read(descriptor: int) -> None:
    with open(descriptor, encoding="utf-8", errors="backslashreplace", newline="\n") as lines:
        for line in lines:
            if text := line.rstrip():
                _tell(text[:_LONGEST])


def _tell(text: str) -> None:
    match = _ABSEIL.match(text)
    if match is None:
        logging.getLogger("stderr").warning("%s", text)
    else:
        logging.getLogger("grpc.core").log(_LEVELS[match[1]], "%s", match[3], extra={"fields": {"place": match[2]}})
