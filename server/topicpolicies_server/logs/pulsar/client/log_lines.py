"""Forwards what pulsar-client logs, from WARN on, to Python's logging.

The library's own bridge to Python's logging calls back for every line, debug lines included, and takes the interpreter's lock in threads
that hold locks of the library: it costs a third of a reader's speed and can deadlock. So the library is told to log into a file instead,
which it filters by level, and that file is a pipe that a thread of this module reads. The library has one log per process, however many
clients there are.
"""

from __future__ import annotations

import functools
import logging
import os
import re
import threading
from pathlib import Path

_log = logging.getLogger("topicpolicies_server.pulsar_client")

_PIPES = Path("/dev/fd")
_LINE = re.compile(r"^[\d-]+ [\d:.]+ +[A-Z]+ +\[\d+\] ([^|]*)\| (.*)$")
_SECRETS = re.compile(r"(?i)\beyJ[\w-]+\.[\w-]+\.[\w-]*|(?<=bearer )\S+|(?<=token:)\S+")
_LONGEST_LINE = 2_000
_NOTHING_WRONG = "Cancel the pending reconnection due to the start timeout"
"""Logged for any connection that succeeded at once, when its connect timeout is over: the library starts that timer after it was
stopped."""


@functools.cache
def client_log_path() -> str | None:
    """Returns the path that pulsar-client logs to, the same for the whole process; None if the system can't name a pipe by a path."""
    if not _PIPES.is_dir():
        return None
    read_end, write_end = os.pipe()  # both stay open as long as the process: the client's log does too
    threading.Thread(target=_forward, args=(read_end,), name="pulsar-client-log", daemon=True).start()
    return str(_PIPES / str(write_end))


def _forward(read_end: int) -> None:
    with open(read_end, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            # An error to the library, such as one refused connection, is a warning here: a change log reports itself when it is lost.
            _log.log(logging.DEBUG if _NOTHING_WRONG in line else logging.WARNING, "%s", legible(line))


def legible(line: str) -> str:
    """Returns a line of the library's log without its own time, level and thread, and without anything that looks like a token."""
    text = line.rstrip()
    match = _LINE.match(text)
    if match is not None:
        text = f"{match[1].strip()}: {match[2].strip()}"
    return _SECRETS.sub("(secret)", text)[:_LONGEST_LINE]
