"""Suspends a process, so that it does nothing more."""

from __future__ import annotations

import os
import signal


def suspend(pid: int) -> None:
    """Sends SIGSTOP to a child process, and returns once all of its threads have stopped, or it has ended.

    The signal wakes one thread, which then stops the others. On a busy machine these run on until that thread gets a processor.
    """
    os.kill(pid, signal.SIGSTOP)
    os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
