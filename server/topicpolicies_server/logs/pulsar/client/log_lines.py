"""What pulsar-client logs, as records of Python's logging, from WARN on.

The client's own way to log into Python calls back for every line, debug lines included, with the interpreter's lock, from threads that hold
locks of the client: it takes a third of a reader's speed and can deadlock. So the client is told to log into a file instead, by level,
and the file is a pipe that a thread of ours reads. The client's log is one per process, whatever number of clients there are.
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
"""Said of whatever was connected at once, when its time to connect is over: the client begins to count it when that was stopped already."""


@functools.cache
def client_log_path() -> str | None:
    """The path that pulsar-client is to log to; None where the system has no way to name a pipe. The same for the whole process."""
    if not _PIPES.is_dir():
        return None
    read_end, write_end = os.pipe()  # both stay open as long as the process: the client's log does too
    threading.Thread(target=_forward, args=(read_end,), name="pulsar-client-log", daemon=True).start()
    return str(_PIPES / str(write_end))


def _forward(read_end: int) -> None:
    with open(read_end, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            # What is an error to the client, such as one refused connection, is a warning here: the log itself says what is lost.
            _log.log(logging.DEBUG if _NOTHING_WRONG in line else logging.WARNING, "%s", legible(line))


def legible(line: str) -> str:
    """A line of the client's log without its own time, level and thread, and without anything that looks like a token."""
    text = line.rstrip()
    match = _LINE.match(text)
    if match is not None:
        text = f"{match[1].strip()}: {match[2].strip()}"
    return _SECRETS.sub("(secret)", text)[:_LONGEST_LINE]
