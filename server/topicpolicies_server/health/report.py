"""The answer to probes: whether the process is alive, whether it is ready, and each check by itself."""

from __future__ import annotations

import time
from typing import NamedTuple

from .pulse import STUCK_SECONDS, Pulse
from .readiness import Readiness, State


class Check(NamedTuple):
    """The result of one check."""

    name: str
    problem: str
    """What is wrong, in a sentence; empty: nothing is."""
    remark: str = ""
    """What operators should know although nothing is wrong; empty: nothing."""


class Report(NamedTuple):
    """The checks on which liveness and readiness depend."""

    live: tuple[Check, ...]
    ready: tuple[Check, ...]


def report(readiness: Readiness, pulse: Pulse) -> Report:
    """Returns the results of all checks now. Any thread may call it."""
    silent = pulse.silent_seconds
    loop = Check("loop", f"The event loop has not turned for {silent:.0f} s." if silent > STUCK_SECONDS else "")
    return Report((loop,), (loop, Check("log", _log_problem(readiness), readiness.remark), Check("draining", _draining(readiness))))


def _log_problem(readiness: Readiness) -> str:
    state, since, problem = readiness.state, readiness.since, readiness.problem
    if state is State.STARTING:
        return "The change log has not answered yet" + (f": {problem.message}" if problem is not None else ".")
    if state is State.CUT_OFF and problem is not None:
        return f"The change log has been out of reach for {time.monotonic() - since:.0f} s ({problem.reason}): {problem.message}"
    return ""


def _draining(readiness: Readiness) -> str:
    return "The process stops." if readiness.state is State.DRAINING else ""
