"""Suspends a process, so that it does nothing more."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path


def suspend(pid: int) -> None:
    """Sends SIGSTOP to a process, and returns once all of its threads have stopped, or it has ended.

    The signal wakes one thread, which then stops the others. On a busy machine these run on until that thread gets a processor.
    """
    os.kill(pid, signal.SIGSTOP)
    while not _states(pid) <= {"T", "Z"}:
        time.sleep(0.001)


def _states(pid: int) -> set[str]:
    """Returns the states of its threads, as ``proc(5)`` names them; none if it has ended."""
    try:
        return {(thread / "stat").read_text().rpartition(")")[2].split()[0] for thread in Path(f"/proc/{pid}/task").iterdir()}
    except (FileNotFoundError, ProcessLookupError):
        return _states(pid) if Path(f"/proc/{pid}").exists() else set()
